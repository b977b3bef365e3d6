#!lua
-- Puts a frame at the end of a partition. ARGV: frame, digest, channel, message.
redis.call('XADD', KEYS[1], '0-*', 'e', ARGV[1], 'd', ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1
