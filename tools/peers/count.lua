-- Which keys a counting Bloom filter holds: KEYS[1] is the hash of its counters, ARGV[1] the number
-- of counters of a key, and their positions follow. One HMGET a key.
local hashes, found = tonumber(ARGV[1]), {}
for i = 2, #ARGV, hashes do
  local all = 1
  for _, count in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV, i, i + hashes - 1))) do
    if not count or tonumber(count) <= 0 then all = 0 break end
  end
  found[#found + 1] = all
end
return found
