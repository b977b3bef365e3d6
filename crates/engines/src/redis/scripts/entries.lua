#!lua flags=no-writes,allow-oom
-- Entries of a partition or feed: a stream whose ids are 0-1, 0-2, ...; entry n has the id 0-(n+1).
-- ARGV: sequence of the first wanted, sequence of the vouched entry or '', most entries, most bytes.
-- Answers {first sequence there is or will be, digest of the vouched entry or false, sequence, digest,
-- contents, ...}.
local key, from, vouched = KEYS[1], ARGV[1], ARGV[2]
local most, bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
-- Read in small steps, since each may hold several MiB.
local STEP = 8

local function sequence(id)
  return string.sub(id, 3)
end

-- Sequences are compared as text: as numbers those beyond 2^53 would run together.
local function after(text)
  local digits = {}
  local carry = 1
  for n = #text, 1, -1 do
    local digit = string.byte(text, n) - 48 + carry
    carry = digit > 9 and 1 or 0
    digits[n] = string.char(48 + digit % 10)
  end
  return (carry == 1 and '1' or '') .. table.concat(digits)
end

local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)
local answer = { '1', false }
if #first > 0 then
  answer[1] = sequence(first[1][1])
end
if vouched ~= '' then
  local found = redis.call('XRANGE', key, '0-' .. vouched, '0-' .. vouched)
  if #found > 0 then
    answer[2] = found[1][2][4]
  end
end
local size = 0
while #answer - 2 < 3 * most and size < bytes do
  local wanted = math.min(STEP, most - (#answer - 2) / 3)
  local entries = redis.call('XRANGE', key, '0-' .. from, '+', 'COUNT', wanted)
  for _, entry in ipairs(entries) do
    answer[#answer + 1] = sequence(entry[1])
    answer[#answer + 1] = entry[2][4]
    answer[#answer + 1] = entry[2][2]
    size = size + #entry[2][2]
    from = after(answer[#answer - 2])
    if size >= bytes then
      break
    end
  end
  if #entries < wanted then
    break
  end
end
return answer
