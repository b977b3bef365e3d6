#!lua flags=no-writes,allow-oom
-- The clock of the server that holds this key, in milliseconds.
local clock = redis.call('TIME')
return clock[1] * 1000 + math.floor(clock[2] / 1000)
