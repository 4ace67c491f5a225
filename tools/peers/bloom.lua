-- Which keys a Bloom filter holds: KEYS[1] is the string, ARGV[1] the number of bits of a key, and
-- the positions follow. One BITFIELD a key.
local hashes, found = tonumber(ARGV[1]), {}
for i = 2, #ARGV, hashes do
  local call = {}
  for j = i, i + hashes - 1 do
    call[#call + 1] = 'GET'
    call[#call + 1] = 'u1'
    call[#call + 1] = ARGV[j]
  end
  local all = 1
  for _, bit in ipairs(redis.call('BITFIELD', KEYS[1], unpack(call))) do
    if bit == 0 then all = 0 break end
  end
  found[#found + 1] = all
end
return found
