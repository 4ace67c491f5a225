package favfilter

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/regions"
)

// PageID identifies a page in a store.
type PageID struct {
	Number uint32
	// Part distinguishes pages of the same number that are read together. It is "" for the page
	// itself, or a short name of lower-case letters, digits and dashes. With a dot in it, the id is
	// that of a value, see [PageID.IsValue].
	Part string
}

// IsValue reports whether the id is that of a value: a string that a store keeps beside pages, and
// whose content only its owner knows. Its Part has a dot.
func (id PageID) IsValue() bool { return strings.ContainsRune(id.Part, '.') }

// String returns the number, followed by a colon and the part if there is one.
func (id PageID) String() string {
	number := strconv.FormatUint(uint64(id.Number), 10)
	if id.Part == "" {
		return number
	}
	return number + ":" + id.Part
}

// Version is the first 64 bytes of a stored string at the time it was read: of a page, its header.
// It is empty if nothing was stored. Every change of a page changes its version. Writers of a value
// must ensure the same, for example with a counter at its beginning.
type Version string

// versionOf returns the version of a stored string.
func versionOf(raw []byte) Version { return Version(raw[:min(len(raw), HeaderBytes)]) }

// Loaded is what a store has under one ID: a page, or a value. Both are nil if nothing is stored.
// They are read-only.
type Loaded struct {
	Page    *Page   // nil for a damaged page, too
	Value   []byte  // as it was stored, see [PageID.IsValue]
	Version Version // version of what is stored, even if it is damaged
	Damage  error   // wraps ErrDamaged; nil for a sound or missing page, and for a value
}

// Decode decodes the strings that a store holds under id, and keeps them. raw is the bits string of
// a page, or a value. collisions is the regions string, which may be nil for a page that is only
// read. Decode checks that the number of set bits matches the headers, so it detects a flipped bit.
func Decode(id PageID, raw, collisions []byte) Loaded {
	l := Loaded{Version: versionOf(raw)}
	if id.IsValue() {
		l.Value = raw
	} else {
		l.Page, l.Damage = decodePage(raw, collisions)
	}
	return l
}

// Encode returns the strings of the page, see [Page.Encode], or the value. raw is nil if there is
// neither.
func (l Loaded) Encode() (raw, collisions []byte) {
	if l.Page != nil {
		return l.Page.Encode()
	}
	return l.Value, nil
}

// Outcome is the outcome for one key of a batch.
type Outcome uint8

// Outcomes of [Filter.Add], [Filter.Remove] and [Page.Apply].
const (
	Added   Outcome = iota + 1 // the key was added
	Present                    // the key already looked present; nothing changed
	Removed                    // the key was removed
	Absent                     // the key was not in the page; nothing changed
	Stuck                      // the key shares every region with others; nothing changed
	Full                       // the page is at its limit; nothing changed
)

func (o Outcome) String() string {
	return nameOf(int(o), "added", "present", "removed", "absent", "stuck", "full")
}

// nameOf returns the name of a value, counted from 1.
func nameOf(value int, names ...string) string {
	if value < 1 || value > len(names) {
		return "unknown"
	}
	return names[value-1]
}

// State is the outcome for a whole batch.
type State uint8

// States of a [Result].
const (
	Applied  State = iota + 1 // the batch took effect
	Current                   // replay: the page already has the batch's sequence or a higher one
	Behind                    // the page is stale: its sequence is below Batch.Sequence-1
	Missing                   // the store does not have the page
	Foreign                   // the page has another identity
	Torn                      // the page is damaged, or its two strings are of different builds
	Jammed                    // a removal could clear fewer than three bits; nothing changed
	Overfull                  // the keys to add could take the page past the rate; nothing changed
)

func (s State) String() string {
	return nameOf(
		int(s), "applied", "current", "behind", "missing", "foreign", "torn", "jammed", "overfull",
	)
}

// Batch is a set of changes to one page, applied in one step. Removals are applied first.
type Batch struct {
	ID       PageID
	Identity Identity // the identity that the page must have

	// Sequence guards the batch. The batch is applied if and only if the sequence of the page is
	// Sequence-1, and sets it to Sequence. The caller guarantees that the keys to remove are in the
	// page and the keys to add are not. A guarded batch takes effect completely or not at all.
	//
	// 0 means no guard. Then a key to add that looks present changes nothing, and neither does a
	// key to remove that is absent. Every key has its own outcome, and the sequence of the page
	// rises by one if anything changed.
	Sequence uint64

	// Rate is the false-positive rate that no added key may take the page past: 1e-11 to 0.5, or 0
	// for no limit.
	//
	// A page of one layer that the keys of a guarded batch could take past it is Overfull, and so is
	// a page of several layers. The caller then replaces the page with a larger one.
	//
	// Without a guard, a page whose newest layer is full gets another layer, for twice as many keys.
	// The first layer gets half of Rate, so its shape is that of [ShapeFor] for half of Rate. Each
	// further layer gets half as much as the previous one. Lookups take longer with each layer.
	// Keys are Full once the page can grow no further.
	Rate float64

	Remove, Add []Hash // a guarded batch names no key twice

	// Marks are set, as by [Page.Mark], if the batch adds a key.
	Marks []Hash
}

// Room returns how many bits may be set in a page of one layer, of shape s, before the keys and
// marks to add of b. With more, a guarded batch is Overfull. With as many or more, the page may
// have to grow for a batch without a guard. Room is negative if the keys need more than the whole
// page, and math.MaxUint32 if there is no limit.
func (b Batch) Room(s Shape) int64 {
	limit := int64(math.MaxUint32)
	switch {
	case b.Rate == 0 || len(b.Add) == 0:
		return limit
	case b.Sequence > 0:
		limit = int64(s.Limit(b.Rate))
	default:
		limit = int64(limitOf(s, b.Rate, 0))
	}
	for _, keys := range [...][]Hash{b.Add, b.Marks} {
		for i := range keys {
			limit -= int64(s.most(keys[i].Extra))
		}
	}
	return limit
}

// overfills reports whether the keys of a guarded batch could take the page past the rate.
func (b Batch) overfills(h Header) bool {
	return len(b.Add) > 0 && b.Rate > 0 && (h.Grown > 0 || int64(h.Set) > b.Room(h.Shape))
}

// Result is the result of a batch.
type Result struct {
	State    State
	Header   Header    // current header of the page; zero if Missing or Torn
	Version  Version   // the current header as bytes; "" if Missing
	Outcomes []Outcome // of Remove, then of Add; only if Applied without a guard
	Cleared  uint8     // fewest bits that a removal cleared; only if Applied with a guard
	Err      error     // store unavailable, or no answer: the batch may have taken effect
}

// Replacement describes how [Store.Replace] replaces a page, or a value.
type Replacement struct {
	ID PageID
	// Page or Value is what to store. If both are empty, what is stored is removed. The store keeps
	// the Value.
	Page  *Page
	Value []byte
	// Seen is the version that the caller read. The page is replaced if the store still has it.
	Seen Version
	// Newer also replaces a page that is missing, has another incarnation, or has a lower
	// sequence than Page. Ignored if Page is nil.
	Newer bool
	// Expire is the time to live of what is stored; 0: none. A change by [Store.Apply] ends it.
	// Ignored for a removal.
	Expire time.Duration
}

// Encode returns the strings to store; raw is empty for a removal.
func (r *Replacement) Encode() (raw, collisions []byte) {
	return Loaded{Page: r.Page, Value: r.Value}.Encode()
}

// Status is the state of a stored page, as reported by [Store.Peek].
type Status struct {
	Header Header // zero unless the page is sound
	Size   Size   // zero unless the page is sound
	// Collided is the number of set collision bits, in all layers of the page. It is also 0 if
	// the page has no collision bitmap, and if the store is not permitted to count.
	Collided uint32
	Missing  bool
	// Damage wraps ErrDamaged. The header is unreadable, the length of a string does not match the
	// shape of the page, or the two strings are of different builds. For a page that has grown,
	// the length is checked to within a few bytes only, because the header alone does not
	// determine it.
	Damage error
	Err    error // the store could not be asked about this page; its state is unknown
}

// Size is the size of a page, all layers together.
type Size struct {
	Bits uint32 // Bloom bits
	// Regions is the number of regions that have a collision bit. For a page that has grown, it
	// is exact to within a few if 8 is not a multiple of the region size.
	Regions uint32
	Bytes   uint32 // length of both strings together
}

// sizeOf returns the size of a page with header h and strings of the given lengths.
func sizeOf(h Header, bitsLength, regionsLength int) Size {
	s := Size{
		Bits:  8 * uint32(bitsLength-HeaderBytes-int(h.Grown)*layerBytes),
		Bytes: uint32(bitsLength + regionsLength),
	}
	if h.Shape.Region > 0 {
		s.Regions = regions.Size(h.Shape.Region).Count(s.Bits)
	}
	return s
}

// Stored is what a store has read of the two strings of a page to determine its [Status].
type Stored struct {
	Header        []byte // first HeaderBytes bytes of the bits string, or all if it is shorter
	BitsLength    int
	Build         []byte // first 8 bytes of the regions string, or all if it is shorter
	RegionsLength int
	Collided      int // bits set after Build; 0 if the store is not permitted to count
}

// Status returns the state of the stored page.
func (s Stored) Status() Status {
	if s.BitsLength == 0 {
		return Status{Missing: true}
	}
	h, err := DecodeHeader(s.Header)
	if err == nil {
		err = s.check(h)
	}
	if err != nil {
		return Status{Damage: err}
	}
	if h.Shape.Region == 0 {
		s.RegionsLength, s.Collided = 0, 0
	}
	return Status{
		Header:   h,
		Size:     sizeOf(h, s.BitsLength, s.RegionsLength),
		Collided: uint32(s.Collided),
	}
}

// check checks what was read against the header. The header of a page that has grown leaves room
// for lengths: of the further layers, and of the padding of their collision bits to a whole byte.
func (s Stored) check(h Header) error {
	grown := int(h.Grown)
	least, _ := h.Shape.Bytes()
	most := least
	if grown > 0 {
		least, most = least+grown*(layerBytes+1), HeaderBytes+MaxBits/8+grown*layerBytes
	}
	if s.BitsLength < least || s.BitsLength > most {
		return fmt.Errorf(
			"%w: %d bytes, %d to %d expected of %d bits",
			ErrDamaged, s.BitsLength, least, most, h.Shape.Bits,
		)
	}
	all := Shape{Bits: 8 * uint32(s.BitsLength-HeaderBytes-grown*layerBytes), Region: h.Shape.Region}
	_, least = all.Bytes()
	switch {
	case h.Shape.Region == 0:
	case s.RegionsLength < least || s.RegionsLength > least+grown:
		return fmt.Errorf(
			"%w: regions string of %d bytes, %d to %d expected",
			ErrDamaged, s.RegionsLength, least, least+grown,
		)
	case len(s.Build) != buildBytes || binary.BigEndian.Uint64(s.Build) != h.Build:
		return fmt.Errorf(
			"%w: bits string of build %016x, regions string of build %x", ErrDamaged, h.Build, s.Build,
		)
	}
	return nil
}

// Store stores pages, and values beside them. Implementations are safe for concurrent use. Every
// change of a page or value is atomic: no reader sees a partial change. After a failure, the page
// or value is either unchanged or completely changed.
//
// Errors name the page and wrap the error of the client or the context. A store retries for no
// longer than ctx allows.
type Store interface {
	// Load reads pages and values in one round trip. The results are in the order of ids. A
	// missing or damaged page is not an error. The pages may be shared, so the caller must not change
	// them. They may lack their collision bits.
	//
	// Of pages that the caller holds, Load reads only the versions: "" for a page that is missing. A
	// held page is the stored one while their versions are the same. The versions are in the order
	// of held, or nil if they cannot be read; the error is that of ids.
	Load(ctx context.Context, ids []PageID, held ...PageID) ([]Loaded, []Version, error)

	// LoadWhole is like Load, but the pages include their collision bits, so that copies of them
	// can be changed. Each page is read atomically. A page whose two strings are of different
	// builds is damaged.
	LoadWhole(ctx context.Context, ids []PageID) ([]Loaded, error)

	// Apply applies each batch to its page. It takes one round trip if the store knows the shapes
	// of the pages. The batches are independent, and each result has its own error. No two batches
	// may have the same page.
	Apply(ctx context.Context, batches []Batch) []Result

	// Replace stores r.Page, or r.Value, and reports whether the store now holds it. It also reports
	// true if the store already held the same bytes, as after a replay. If it reports false, the
	// version of what is stored is not r.Seen; with r.Newer, the stored page is also neither
	// missing nor older. The caller must then read it again.
	//
	// If r has neither a page nor a value, Replace removes both strings, unless the store holds
	// a page with a version other than r.Seen. It reports whether there is no page afterwards.
	Replace(ctx context.Context, r Replacement) (bool, error)

	// Peek reads the state of pages in one round trip, without transferring the pages. The results
	// are in the order of ids, and each is of one instant. A missing or damaged page is not an
	// error. If the store cannot ask about some of the pages, their results contain the error; Peek
	// itself fails only if it cannot ask about any page.
	Peek(ctx context.Context, ids []PageID) ([]Status, error)
}
