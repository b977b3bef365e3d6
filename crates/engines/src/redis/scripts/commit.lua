-- One commit: compare everything that is expected, and only then apply every operation.
--
-- ARGV: the number of expectations, for each its kind, key, and '0' (absent) or '1' followed by the
-- value; the number of runs, for each its letter and arguments; the channel and message that wake those
-- who wait. Answers {0, present values} if stale, else {1, places of additions left out}.
--
-- Nothing below the comparison can fail: limits were checked by the caller, memory before the script
-- began, and no cell can be of the wrong kind.
local at = 0
local function take()
  at = at + 1
  return ARGV[at]
end

local present, stale = {}, false
for n = 1, tonumber(take()) do
  local kind, key = take(), take()
  local value = held(kind, key)
  local wanted = false
  if take() == '1' then
    wanted = take()
  end
  present[n] = value
  stale = stale or value ~= wanted
end
if stale then
  return { 0, present }
end

local left_out = {}
local format = string.format
local expiries = redis.call('EXISTS', EXPIRY) == 1
-- Beyond it a double cannot hold every whole number.
local EXACT = 4503599627370496
-- Up to here every build of Lua writes whole numbers as such, in a third of the time.
local SMALL = 2147483647
-- The score of all keys in an index. A number would be printed anew for each key.
local ANY = '0'

-- Compares as bytes. Lua's own < goes by the server's locale.
local function less(a, b)
  if a == b then
    return false
  end
  for n = 1, math.min(#a, #b) do
    local x, y = string.byte(a, n), string.byte(b, n)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

local function append(feed, entry, digest)
  redis.call('XADD', root .. ':f:' .. feed, '0-*', 'e', entry, 'd', digest)
end

local function index(kind, fresh)
  if #fresh > 0 then
    redis.call('ZADD', root .. ':x' .. kind, unpack(fresh))
  end
end

-- The keys of a run that has `width` arguments for each of its `count` cells, and what they hold now.
local function run(kind, count, width)
  local keys = {}
  for n = 1, count do
    keys[n] = ARGV[at + 1 + (n - 1) * width]
    if behind then
      freshen(kind, keys[n])
    end
  end
  return keys, redis.call('HMGET', root .. ':' .. kind, unpack(keys))
end

-- Stores a run's new contents; cells that were absent join the index.
local function store(kind, sets, fresh)
  if #sets > 0 then
    redis.call('HSET', root .. ':' .. kind, unpack(sets))
  end
  index(kind, fresh)
end

local function forget_expiry(kind, keys)
  if expiries then
    local cells = {}
    for n, key in ipairs(keys) do
      cells[n] = kind .. key
    end
    redis.call('ZREM', EXPIRY, unpack(cells))
  end
end

local function put(count)
  local sets, fresh, keys = {}, {}, {}
  for n = 1, count do
    local key = take()
    keys[n] = key
    sets[2 * n - 1], sets[2 * n] = key, take()
    fresh[2 * n - 1], fresh[2 * n] = ANY, key
  end
  store('b', sets, fresh)
  forget_expiry('b', keys)
end

local function add(count)
  local place = tonumber(take())
  local keys, before = run('c', count, 2)
  local sets, fresh, s, f = {}, {}, 0, 0
  for n = 1, count do
    local key, by, old = keys[n], ARGV[at + 2], before[n]
    at = at + 2
    if not old then
      sets[s + 1], sets[s + 2] = key, by
      fresh[f + 1], fresh[f + 2] = ANY, key
      s, f = s + 2, f + 2
    else
      local a, b = tonumber(old), tonumber(by)
      if a > -EXACT and a < EXACT and b > -EXACT and b < EXACT then
        local sum = a + b
        local small = sum > -SMALL and sum < SMALL
        sets[s + 1], sets[s + 2] = key, format(small and '%d' or '%.0f', sum)
        s = s + 2
      else
        local sum = redis.pcall('HINCRBY', root .. ':c', key, by)
        if type(sum) == 'table' and sum.err then
          left_out[#left_out + 1] = place + n - 1
        end
      end
    end
  end
  store('c', sets, fresh)
end

local function add_noted()
  local place, key, by = tonumber(take()), take(), take()
  local feed, entry, digest = take(), take(), take()
  freshen('c', key)
  local fresh = redis.call('HEXISTS', root .. ':c', key) == 0
  local sum = redis.pcall('HINCRBY', root .. ':c', key, by)
  if type(sum) == 'table' and sum.err then
    left_out[#left_out + 1] = place
    append(feed, entry, digest)
  elseif fresh then
    index('c', { ANY, key })
  end
end

local function extreme(kind, count)
  local keys, before = run(kind, count, 2)
  local sets, fresh = {}, {}
  for n = 1, count do
    local key, rank = take(), take()
    local old = before[n]
    if not old then
      fresh[#fresh + 1], fresh[#fresh + 2] = ANY, key
    end
    if not old or (kind == 'i' and less(rank, old)) or (kind == 'a' and less(old, rank)) then
      sets[#sets + 1], sets[#sets + 2] = key, rank
    end
  end
  store(kind, sets, fresh)
end

local function last(count)
  local keys, before = run('l', count, 3)
  local sets, fresh = {}, {}
  for n = 1, count do
    local key, rank, value = take(), take(), take()
    local old = before[n]
    local wins = true
    if old then
      local length = string.byte(old, 1) + 256 * string.byte(old, 2)
      wins = less(string.sub(old, 3, 2 + length), rank)
    else
      fresh[#fresh + 1], fresh[#fresh + 2] = ANY, key
    end
    if wins then
      local length = string.char(#rank % 256, math.floor(#rank / 256))
      sets[#sets + 1], sets[#sets + 2] = key, length .. rank .. value
    end
  end
  store('l', sets, fresh)
end

local function insert(count)
  local key = take()
  freshen('s', key)
  -- A number would be printed anew for each member.
  local members = {}
  for n = 1, count do
    members[2 * n - 1], members[2 * n] = '0', ARGV[at + n]
  end
  at = at + count
  redis.call('ZADD', root .. ':s:' .. key, unpack(members))
  index('s', { ANY, key })
end

-- Shows the members, as they are among the arguments, to a distinct count or a sketch.
local function show(command, kind, count)
  local key = take()
  freshen(kind, key)
  redis.call(command, root .. ':' .. kind .. ':' .. key, unpack(ARGV, at + 1, at + count))
  at = at + count
  index(kind, { ANY, key })
end

local function delete(count)
  for _ = 1, count do
    local kind, key = take(), take()
    remove(kind, key)
  end
end

local function expire(count)
  for _ = 1, count do
    local kind, key, time = take(), take(), take()
    if held(kind, key) then
      if time == '' then
        redis.call('ZREM', EXPIRY, kind .. key)
      elseif tonumber(time) <= now then
        remove(kind, key)
      else
        redis.call('ZADD', EXPIRY, time, kind .. key)
        expiries = true
      end
    end
  end
end

local function feed(count)
  local name = take()
  for _ = 1, count do
    local entry, digest = take(), take()
    append(name, entry, digest)
  end
end

for _ = 1, tonumber(take()) do
  local letter, count = take(), tonumber(take())
  if letter == 'P' then put(count)
  elseif letter == 'A' then add(count)
  elseif letter == 'N' then add_noted()
  elseif letter == 'I' then extreme('i', count)
  elseif letter == 'X' then extreme('a', count)
  elseif letter == 'L' then last(count)
  elseif letter == 'S' then insert(count)
  elseif letter == 'U' then show('SADD', 'd', count)
  elseif letter == 'K' then show('PFADD', 'k', count)
  elseif letter == 'D' then delete(count)
  elseif letter == 'E' then expire(count)
  elseif letter == 'F' then feed(count)
  end
end

local channel, message = take(), take()
if message ~= '' then
  redis.call('PUBLISH', channel, message)
end
return { 1, left_out }
