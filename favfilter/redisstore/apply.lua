-- Applies changes to one page, in one step.
--
-- KEYS[1]  bits string        KEYS[2]  regions string
-- ARGV[1]  bytes 0-23 of the header that the positions below were computed for
-- ARGV[2]  bytes 48-59 of the header the page must have: incarnation and page number
-- ARGV[3]  sequence the page must stand at, 8 bytes; empty: no guard
-- ARGV[4]  sequence it gets, 8 bytes; empty without a guard
-- ARGV[5]  number of set bits: without a guard, keys are added only to a page with fewer; with
--          one, to a page with no more
-- ARGV[6]  number of keys to remove; they come first
-- ARGV[7]  number of marks; they come last, and are set if a key is added
-- ARGV[8]  from here on for each key: the number n of its positions, then n bit offsets
--          into the bits string
--
-- Returns {state, header, outcomes}. Only with the state "ok" has the page changed:
--
-- - "ok": the changes are applied.
-- - "jammed": a guarded removal could clear fewer than three bits.
-- - "overfull": guarded keys to add could set more bits than they may.
-- - "torn": the strings are of two builds, or cut short.
-- - "other": the page is missing or differs from ARGV, see the header; or it may need
--   another layer now. Scripts do not change pages of several layers.
--
-- outcomes has a letter per key: a added, p present, r removed, x absent, s stuck. With
-- a guard it is the fewest bits that a removal cleared, in decimal.
-- The start of a string; empty where there is none or something else.
local function start_of(key, last)
  local start = redis.pcall('GETRANGE', key, 0, last)
  return type(start) == 'string' and start or ''
end

local header = start_of(KEYS[1], 63)
if #header < 64 or header:byte(10) ~= 1 then
  return {'other', header, ''}
end
local bits, region = struct.unpack('>I4', header:sub(5, 8)), struct.unpack('>I2', header:sub(11, 12))
local torn = redis.call('STRLEN', KEYS[1]) ~= 64 + bits / 8
if region > 0 and not torn then
  torn = start_of(KEYS[2], 7) ~= header:sub(41, 48)
    or redis.call('STRLEN', KEYS[2]) ~= 8 + math.ceil(math.ceil(bits / region) / 8)
end
if torn then
  return {'torn', header, ''}
end
local guarded = ARGV[3] ~= ''
if header:sub(1, 24) ~= ARGV[1] or header:sub(49, 60) ~= ARGV[2] or (guarded and header:sub(33, 40) ~= ARGV[3]) then
  return {'other', header, ''}
end

local set, count = struct.unpack('>I4I4', header:sub(25, 32))
local removals, marks = tonumber(ARGV[6]), tonumber(ARGV[7])

-- The offset, in the regions string, of the collision bit for the Bloom bit at offset in the bits
-- string. A header of 512 bits precedes the first Bloom bit, and a build ID of 64 bits the first
-- collision bit.
local function collision_bit(offset)
  return string.format('%d', 64 + math.floor((tonumber(offset) - 512) / region))
end

local function bitfield(key, verb, offsets, value)
  local args, n = {}, 0
  for i = 1, #offsets do
    args[n + 1], args[n + 2], args[n + 3] = verb, 'u1', offsets[i]
    n = n + 3
    if value then
      n = n + 1
      args[n] = value
    end
  end
  return redis.call('BITFIELD', key, unpack(args))
end

local function all_set(bits)
  for i = 1, #bits do
    if bits[i] == 0 then return false end
  end
  return true
end

-- The offsets of a key that no other key can share; nil if the key is absent.
local function clearable(offsets)
  if not all_set(bitfield(KEYS[1], 'GET', offsets)) then return nil end
  local own = {}
  if region > 0 then
    local collisions = {}
    for i = 1, #offsets do collisions[i] = collision_bit(offsets[i]) end
    local collided = bitfield(KEYS[2], 'GET', collisions)
    for i = 1, #offsets do
      if collided[i] == 0 then own[#own + 1] = offsets[i] end
    end
  end
  return own
end

local function clear(offsets)
  local old = bitfield(KEYS[1], 'SET', offsets, '0')
  for i = 1, #old do set = set - old[i] end
  if count > 0 then count = count - 1 end
end

local function mark(offsets)
  local old = bitfield(KEYS[1], 'SET', offsets, '1')
  local shared = {}
  for i = 1, #old do
    if old[i] == 0 then
      set = set + 1
    elseif region > 0 then
      shared[#shared + 1] = collision_bit(offsets[i])
    end
  end
  if #shared > 0 then bitfield(KEYS[2], 'SET', shared, '1') end
end

local keys, at = {}, 8
while at <= #ARGV do
  local n, offsets = tonumber(ARGV[at]), {}
  for i = 1, n do offsets[i] = ARGV[at + i] end
  keys[#keys + 1] = offsets
  at = at + n + 1
end

-- Where the keys to add end.
local last = #keys - marks
local adds, room = last - removals, tonumber(ARGV[5])
local function insert(offsets)
  mark(offsets)
  count = count + 1
end
local function mark_all()
  for i = last + 1, #keys do mark(keys[i]) end
end

if adds > 0 and not guarded and set >= room then
  return {'other', header, ''}
end

local outcomes = {}
if guarded then
  -- Nothing may change unless every removal can clear a bit.
  local own, fewest = {}, nil
  for i = 1, removals do
    own[i] = clearable(keys[i])
    local n = own[i] and #own[i] or 0
    if n == 0 or (n < 3 and n < #keys[i]) then
      return {'jammed', header, ''}
    end
    if not fewest or n < fewest then fewest = n end
  end
  if adds > 0 and set > room then
    return {'overfull', header, ''}
  end
  outcomes[1] = fewest
  for i = 1, removals do clear(own[i]) end
  for i = removals + 1, last do insert(keys[i]) end
  if adds > 0 then mark_all() end
else
  for i = 1, removals do
    local own = clearable(keys[i])
    if not own then
      outcomes[i] = 'x'
    elseif #own == 0 then
      outcomes[i] = 's'
    else
      clear(own)
      outcomes[i] = 'r'
    end
  end
  local added = false
  for i = removals + 1, last do
    if all_set(bitfield(KEYS[1], 'GET', keys[i])) then
      outcomes[i] = 'p'
    else
      insert(keys[i])
      outcomes[i] = 'a'
      added = true
    end
  end
  if added then mark_all() end
end

local sequence = ARGV[4]
outcomes = table.concat(outcomes)
if not guarded then
  sequence = header:sub(33, 40)
  if not outcomes:find('[ar]') then
    return {'ok', header, outcomes}
  end
  sequence = struct.pack('>I8', struct.unpack('>I8', sequence) + 1)
end
if header:sub(29, 32) == '\0\0\0\0' then
  -- An empty page may have a time to live; one that changed has none.
  redis.call('PERSIST', KEYS[1])
  redis.call('PERSIST', KEYS[2])
end
local changed = struct.pack('>I4I4', set, count) .. sequence
redis.call('SETRANGE', KEYS[1], 24, changed)
return {'ok', header:sub(1, 24) .. changed .. header:sub(41, 64), outcomes}
