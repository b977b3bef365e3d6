-- Posts random lift rides. Every thread makes its requests before it begins, as finished strings: a
-- request costs the load no more than a look into a table.

local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

function init()
  math.randomseed(SEED + number)
  made = {}
  for n = 1, REQUESTS do
    local path = string.format("/skiers/%d/seasons/SEASON/days/%d/skiers/%d",
      math.random(1, RESORTS), math.random(1, DAYS), math.random(1, SKIERS))
    local body = string.format('{"time":%d,"liftID":%d', math.random(0, MINUTES - 1), math.random(1, LIFTS))
    if math.random(1, WAIT_TOLD) == 1 then
      body = body .. string.format(',"waitTime":%d', math.random(0, LONGEST_WAIT))
    end
    made[n] = wrk.format("POST", path, { ["content-type"] = "application/json" }, body .. "}")
  end
  turn = 0
end

function request()
  turn = turn % REQUESTS + 1
  return made[turn]
end

