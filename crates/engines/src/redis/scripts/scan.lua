-- One page of the cells of a kind, by key. ARGV: kind, lower and upper end (as ZRANGEBYLEX takes them),
-- most rows, most bytes. Answers key, contents, key, contents, ...
local kind, from, to = ARGV[1], ARGV[2], ARGV[3]
local rows, bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local page, size = {}, 0
-- An expired cell that is not cleared away yet is passed over; only an empty page may mean the end.
while #page == 0 do
  local keys = redis.call('ZRANGEBYLEX', root .. ':x' .. kind, from, to, 'LIMIT', 0, rows)
  if #keys == 0 then
    break
  end
  for _, key in ipairs(keys) do
    local value = held(kind, key)
    if value then
      page[#page + 1], page[#page + 2] = key, value
      size = size + #value
      if size >= bytes then
        return page
      end
    end
    from = '(' .. key
  end
end
return page
