#!lua flags=allow-oom
-- Lets go of a partition's or feed's oldest entries. ARGV: sequence of the first to keep, most to remove.
-- The newest entry always stays. Answers 1 if there may be more to remove.
local entries = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if #entries == 0 then
  return 0
end
local newest = tonumber(string.sub(entries[1][1], 3))
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)
local oldest = tonumber(string.sub(first[1][1], 3))
local bound = math.min(tonumber(ARGV[1]), newest)
local step = math.min(bound, oldest + tonumber(ARGV[2]))
if step > oldest then
  redis.call('XTRIM', KEYS[1], 'MINID', '=', '0-' .. string.format('%.0f', step))
end
return step < bound and 1 or 0
