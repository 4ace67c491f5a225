-- Reads the headers of a page's two strings, in one step.
--
-- KEYS[1]  bits string        KEYS[2]  regions string
--
-- Returns {start of the bits string, start of the regions string, numbers}. The starts are the
-- first 64 and 8 bytes, or the whole string if it is shorter. A value that is not a string counts
-- as an empty string. The numbers are the lengths of both strings and the number of collision bits
-- set, 4 bytes each. The last is 0 if the user may not call BITCOUNT.
local function start_of(key, last)
  local start = redis.pcall('GETRANGE', key, 0, last)
  if type(start) ~= 'string' then
    return '', 0
  end
  return start, redis.call('STRLEN', key)
end

local header, bits = start_of(KEYS[1], 63)
local build, regions = start_of(KEYS[2], 7)
local collided = 0
if regions > 8 then
  collided = redis.pcall('BITCOUNT', KEYS[2], 8, -1)
  if type(collided) ~= 'number' then
    collided = 0
  end
end
return {header, build, struct.pack('>I4I4I4', bits, regions, collided)}
