-- The contents of the first cells, in their order. ARGV: the bytes after which the answer ends, then kind and key
-- of each cell.
local most = tonumber(ARGV[1])
local values, size = {}, 0
for n = 1, (#ARGV - 1) / 2 do
  local value = held(ARGV[2 * n], ARGV[2 * n + 1])
  values[n] = value
  if value then
    size = size + #value
    if size >= most then
      break
    end
  end
end
return values
