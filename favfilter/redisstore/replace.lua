-- Puts a page in place of what is stored there.
--
-- KEYS[1]  bits string        KEYS[2]  regions string
-- ARGV[1]  new bits string; empty: what is stored there is removed
-- ARGV[2]  new regions string; empty: the page has none
-- ARGV[3]  header that the caller saw, as it stood; empty: none
-- ARGV[4]  "1": also replace what is missing, of another incarnation or of a lower
--          sequence
-- ARGV[5]  time to live in milliseconds; 0: none
--
-- Returns 1 if the page is stored there, also if it did before, as after a replay; 0 if what
-- is stored there is neither as seen nor older. Of a removal, whether nothing is stored there.
local stored = redis.pcall('GETRANGE', KEYS[1], 0, 63)
if type(stored) ~= 'string' then
  stored = '' -- something else than a string: as good as missing
end
local new = ARGV[1]

if new == '' then
  if stored ~= '' and stored ~= ARGV[3] then
    return 0
  end
  redis.call('DEL', KEYS[1], KEYS[2])
  return 1
end

-- Whether the very page is stored there. Its header alone does not tell: another writer's
-- page, made of the same one, may have as many bits set.
local function replayed()
  return stored == new:sub(1, 64) and redis.call('GET', KEYS[1]) == new
    and (ARGV[2] == '' or redis.pcall('GET', KEYS[2]) == ARGV[2])
end

if stored ~= ARGV[3] then
  local older = #stored < 64
    or stored:sub(49, 56) ~= new:sub(49, 56)
    or struct.unpack('>I8', stored:sub(33, 40)) < struct.unpack('>I8', new:sub(33, 40))
  if not (ARGV[4] == '1' and older) and not replayed() then
    return 0
  end
end
local function put(key, value)
  if ARGV[5] == '0' then
    redis.call('SET', key, value)
  else
    redis.call('SET', key, value, 'PX', ARGV[5])
  end
end
put(KEYS[1], new)
if ARGV[2] ~= '' then
  put(KEYS[2], ARGV[2])
else
  redis.call('DEL', KEYS[2])
end
return 1
