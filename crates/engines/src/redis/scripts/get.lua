-- What cells hold. ARGV: kind and key of each. Answers their contents in that order.
local values = {}
for n = 1, #ARGV / 2 do
  values[n] = held(ARGV[2 * n - 1], ARGV[2 * n])
end
return values
