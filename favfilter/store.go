package favfilter

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/regions"
)

// PageID names a page in a store.
type PageID struct {
	Number uint32
	// Part sets apart pages of the same number that are read together: "" for
	// the page itself, or a short name of lower-case letters, digits and dashes.
	Part string
}

// String returns the number, and after a colon the part, if any.
func (id PageID) String() string {
	number := strconv.FormatUint(uint64(id.Number), 10)
	if id.Part == "" {
		return number
	}
	return number + ":" + id.Part
}

// Version is a page's header, byte for byte, as it stood when it was read; empty
// when the page was missing. Every change of a page changes it.
type Version string

// Loaded is a page as read from a store. Page is nil if it is missing or damaged.
type Loaded struct {
	Page    *Page   // to be read only
	Version Version // what stood there, also of a damaged page
	Damage  error   // wraps ErrDamaged; nil for a sound or missing page
}

// Outcome is what became of one key of a batch.
type Outcome uint8

// Outcomes of [Page.Add], [Page.Remove] and [Store.Apply].
const (
	Added   Outcome = iota + 1 // put in
	Present                    // looked present already; nothing changed
	Removed                    // taken out
	Absent                     // was not there; nothing changed
	Stuck                      // shares every region with others; nothing changed
	Full                       // the page is at its limit; nothing changed
)

func (o Outcome) String() string {
	names := [...]string{"unknown", "added", "present", "removed", "absent", "stuck", "full"}
	if int(o) < len(names) {
		return names[o]
	}
	return names[0]
}

// State is what became of a batch.
type State uint8

// States of a [Result].
const (
	Applied State = iota + 1 // the batch took effect
	Current                  // the page stood at the batch's sequence or beyond: a replay
	Behind                   // the page stands below the sequence before the batch's
	Missing                  // there is no such page
	Foreign                  // the page is of another identity
	Torn                     // the page is damaged, or its two strings are not of one build
	Jammed                   // a removal could clear fewer than three bits, so nothing was changed
)

func (s State) String() string {
	names := [...]string{"unknown", "applied", "current", "behind", "missing", "foreign", "torn", "jammed"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[0]
}

// Batch is the changes of one page, applied in one step. Removals come first.
type Batch struct {
	ID       PageID
	Identity Identity // that the page must have

	// Sequence guards the batch: it applies iff the page stands at Sequence-1,
	// and takes it to Sequence. The caller vouches that the keys to remove are
	// in the page and those to add are not. Either all of a guarded batch takes
	// effect, or nothing.
	//
	// With 0 there is no guard: a key to add that looks present and a key to
	// remove that is absent change nothing, every key has an outcome of its own,
	// and the page's sequence rises by one if anything changed. A large batch that
	// other writers keep overtaking may take effect in several such steps.
	Sequence uint64

	// Rate is the false-positive rate that no key to add may take the page past; one
	// that comes later is Full. 1e-11 to 0.5, or 0: no limit. Ignored in a guarded batch.
	Rate float64

	// Grow says that a page which is full gets another layer, as [Scaling] has it for
	// Rate. Keys are Full only where it can grow no further. Ignored without a Rate.
	Grow bool

	Remove, Add []Hash // a guarded batch names no key twice
}

// Limit returns the number of set bits from which on a page of one layer, of shape s, takes no
// more keys of b: it is full, or grows. math.MaxUint32 where there is no limit.
func (b Batch) Limit(s Shape) uint32 {
	p := Page{layers: []layer{{shape: s}}}
	return p.limit(b.Rate, b.Grow)
}

// Result is what became of a batch.
type Result struct {
	State    State
	Header   Header    // of the page as it stands now; zero if Missing or Torn
	Version  Version   // the same as bytes; "" if Missing
	Outcomes []Outcome // of Remove, then of Add; only if Applied without a guard
	Cleared  uint8     // the fewest bits that a removal cleared; only if Applied with a guard
	Err      error     // the store could not be asked, or did not answer: the batch may have taken effect
}

// KeepExpiry as [Replacement.Expire] leaves the time to live as it is.
const KeepExpiry time.Duration = -1

// Replacement puts a page in place of another.
type Replacement struct {
	ID   PageID
	Page *Page // nil: what stands there is removed, and nothing left in its place
	// Seen is what the caller saw there: the page is replaced if that still stands.
	Seen Version
	// Newer replaces also a page that is missing, of another incarnation, or of a
	// lower sequence than Page. Ignored without a Page.
	Newer bool
	// Expire is the time to live the page gets; 0: none. Ignored without a Page.
	Expire time.Duration
}

// Standing is what stands in the place of a page, as [Store.Peek] found it.
type Standing struct {
	Header Header // zero unless the page is sound
	Size   Size   // the same
	// Collided is how many of the page's regions are marked as shared, of all its layers. 0 also of a page without
	// marks, and where Uncounted.
	Collided  uint32
	Uncounted bool // the store may not count marks
	Missing   bool
	// Damage wraps ErrDamaged: the header is unreadable, a string is not as long as
	// the page's shape makes it, or the two strings are not of one build. Of a page that
	// has grown, the header tells the lengths to within some bytes only.
	Damage error
	Err    error // the place could not be asked, and nothing is known of it
}

// Size is how large a page is, all layers together.
type Size struct {
	Bits    uint32 // Bloom bits
	Regions uint32 // that have a mark; of a page that has grown, with regions that a byte is no multiple of, to within a few
	Bytes   uint32 // of both strings
}

// sizeOf is the size of a page by its header and the lengths of its strings.
func sizeOf(h Header, bitsLength, regionsLength int) Size {
	s := Size{
		Bits:  8 * uint32(bitsLength-HeaderBytes-int(h.Grown)*layerBytes),
		Bytes: uint32(bitsLength + regionsLength),
	}
	if h.Shape.Region > 0 {
		s.Regions = regions.Count(s.Bits, uint32(h.Shape.Region))
	}
	return s
}

// Stored is what a store has read of the strings of a page, to tell how it stands.
type Stored struct {
	Header        []byte // the first [HeaderBytes] of the bits string, fewer where that is shorter
	BitsLength    int
	Build         []byte // the first 8 bytes of the regions string, fewer where that is shorter
	RegionsLength int
	Collided      int // bits set past these; less than 0: the store may not count
}

// Standing returns the standing of the page.
func (s Stored) Standing() Standing {
	h, err := DecodeHeader(s.Header)
	bitsLength, regionsLength := s.BitsLength, s.RegionsLength
	switch {
	case bitsLength == 0:
		return Standing{Missing: true}
	case err != nil:
		return Standing{Damage: err}
	}
	least, most := bitsLengths(h)
	if bitsLength < least || bitsLength > most {
		return Standing{Damage: fmt.Errorf("%w: %d bytes, %d to %d expected of %d bits", ErrDamaged, bitsLength, least, most, h.Shape.Bits)}
	}
	if h.Shape.Region == 0 {
		return Standing{Header: h, Size: sizeOf(h, bitsLength, 0)}
	}
	least, most = marksLengths(h, bitsLength)
	if regionsLength < least || regionsLength > most {
		return Standing{Damage: fmt.Errorf("%w: %d bytes of collision marks, %d to %d expected", ErrDamaged, regionsLength, least, most)}
	}
	if len(s.Build) != buildBytes || binary.BigEndian.Uint64(s.Build) != h.Build {
		return Standing{Damage: fmt.Errorf("%w: bits of build %016x, collision marks of build %x", ErrDamaged, h.Build, s.Build)}
	}
	return Standing{
		Header: h, Size: sizeOf(h, bitsLength, regionsLength), Collided: uint32(max(0, s.Collided)), Uncounted: s.Collided < 0,
	}
}

// bitsLengths are the shortest and the longest bits string of a page with header h.
func bitsLengths(h Header) (least, most int) {
	least = HeaderBytes + int(h.Shape.Bits/8)
	if h.Grown == 0 {
		return least, least
	}
	further := int(h.Grown) * layerBytes
	return least + further + int(h.Grown), HeaderBytes + MaxBits/8 + further
}

// marksLengths are the shortest and the longest regions string of a page with header h and
// a bits string of the given length: the marks of each layer end with a whole byte.
func marksLengths(h Header, bitsLength int) (least, most int) {
	all := h.Shape
	all.Bits = 8 * uint32(bitsLength-HeaderBytes-int(h.Grown)*layerBytes)
	least = buildBytes + layerMarkBytes(all)
	return least, least + int(h.Grown)
}

// Store keeps pages. Implementations are safe for concurrent use, and every
// change of a page is atomic: nobody sees half of it, and a failure leaves the
// page as it was or as it was to be.
//
// Errors name the page and wrap those of the client or the context. A store does
// not retry for longer than ctx allows.
type Store interface {
	// Load reads pages in one round trip; the results are in the order of ids.
	// A missing or damaged page is no error. The pages may be shared: they must not be
	// changed, and may come without collision marks.
	Load(ctx context.Context, ids []PageID) ([]Loaded, error)

	// LoadWhole is Load with the collision marks, so that copies of the pages can be
	// changed. A page is read in one step; one whose strings are not of one build is
	// damaged.
	LoadWhole(ctx context.Context, ids []PageID) ([]Loaded, error)

	// Apply applies each batch to its page, in one round trip where the store
	// knows the pages' shapes. The batches are independent: each result has
	// its own error. No page may be named twice.
	Apply(ctx context.Context, batches []Batch) []Result

	// Replace puts r.Page in place and reports whether it stands there: also if it did
	// before, byte for byte, as after a replay. If not, the header that stands there is
	// neither missing nor older, and the caller looks again. Without a Page it removes what
	// stands there, both strings, and reports whether nothing does then.
	Replace(ctx context.Context, r Replacement) (bool, error)

	// Peek reads what stands in the places of pages, in one round trip and without
	// moving the pages; the results are in the order of ids. Each is of one instant. A
	// missing or damaged page is no error. Where some places cannot be asked, their
	// standings say so; an error means that none could.
	Peek(ctx context.Context, ids []PageID) ([]Standing, error)

	// Probe looks for keys in a page that is too large to be read: it reads their bits alone. The page
	// has to be of one layer, and the build that known has, the header that it was met with before; else ok is false and
	// nothing is known. found[i] is set where the page may hold the key of hashes[i], and left as it is
	// elsewhere. sequence is one at which the page stood during the call. A store that needs memory
	// for each of the hashes probes for some at a time, and ends with ctx between them.
	Probe(ctx context.Context, id PageID, known Header, hashes []Hash, found []bool) (sequence uint64, ok bool, err error)

	// Epoch returns a text that is another one when what the store holds may have been
	// lost or set back since Epoch was called before: a server started anew, another
	// became primary, pages moved. It says nothing else, and orders nothing. "" stands
	// for a store that loses nothing while the process lives. On an error, anything may
	// have happened.
	Epoch(ctx context.Context) (string, error)
}
