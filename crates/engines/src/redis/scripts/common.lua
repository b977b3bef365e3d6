-- What all scripts that touch cells begin with. KEYS[1] is the shard's root; every key they use shares
-- its hash tag.
--
--   root:b root:c root:i root:a root:l   hashes: bytes, counters, min, max, last (key -> contents)
--   root:s:KEY                           a set's members: a sorted set, all with score 0
--   root:d:KEY                           what a distinct count has seen: a set
--   root:k:KEY                           a sketch: a HyperLogLog
--   root:xb root:xc ...                  for each kind the index of its keys: sorted by bytes
--   root:e                               when cells expire: kind and key, by time
--   root:f:NAME                          a feed: a stream with ids 0-1, 0-2, ...
local root = KEYS[1]
local EXPIRY = root .. ':e'
-- How many expired cells one call clears away: what bounds its work.
local PURGE = 128

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- How the members of a kind are counted.
local COUNTED = { s = 'ZCARD', d = 'SCARD', k = 'PFCOUNT' }

local function is_hash(kind)
  return kind ~= 's' and kind ~= 'd' and kind ~= 'k'
end

local function remove(kind, key)
  if is_hash(kind) then
    redis.call('HDEL', root .. ':' .. kind, key)
  else
    redis.call('UNLINK', root .. ':' .. kind .. ':' .. key)
  end
  redis.call('ZREM', root .. ':x' .. kind, key)
  redis.call('ZREM', EXPIRY, kind .. key)
end

-- Clears away what has expired. If there is more than one call may clear, `behind` says so, and every
-- cell is then looked at before it is used: an expired cell is absent from its time on, cleared or not.
local due = redis.call('ZRANGEBYSCORE', EXPIRY, '-inf', now, 'LIMIT', 0, PURGE)
for _, cell in ipairs(due) do
  remove(string.sub(cell, 1, 1), string.sub(cell, 2))
end
local behind = #due == PURGE

local function freshen(kind, key)
  if behind then
    local at = redis.call('ZSCORE', EXPIRY, kind .. key)
    if at and tonumber(at) <= now then
      remove(kind, key)
      return false
    end
  end
  return true
end

-- What a cell holds, as its kind stores it; false if it is absent.
local function held(kind, key)
  freshen(kind, key)
  if is_hash(kind) then
    return redis.call('HGET', root .. ':' .. kind, key)
  end
  local name = root .. ':' .. kind .. ':' .. key
  if redis.call('EXISTS', name) == 0 then
    return false
  end
  return tostring(redis.call(COUNTED[kind], name))
end
