-- Reads the headers of a page's two strings, in one step.
--
-- KEYS[1]  bits string        KEYS[2]  regions string
--
-- Returns {start of the bits, its length, start of the regions, its length, marks set}: 64 and 8
-- bytes, or as many as there are. What is no string has none. Where the user may not call BITCOUNT,
-- that is -1.
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
    collided = -1
  end
end
return {header, bits, build, regions, collided}
