-- One page of a set's members, by their bytes. ARGV: key, lower end (as ZRANGEBYLEX takes it), most rows.
freshen('s', ARGV[1])
return redis.call('ZRANGEBYLEX', root .. ':s:' .. ARGV[1], ARGV[2], '+', 'LIMIT', 0, ARGV[3])
