package sizing

import (
	"fmt"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/regions"
)

const (
	// headroom is what a page has room for when it is made anew, over the keys it holds, and ringRoom what a part
	// of a window has over the part before, which is for minPartKeys at least and maxPartKeys at most: as
	// packages activity and favfilter have it, which the tests see to.
	headroom    = 1.05
	ringRoom    = 1.25
	minPartKeys = 64
	maxPartKeys = 1e6

	buildBytes   = 8     // of the regions string, before its marks
	keysAPage    = 2048  // wanted on average where nobody says how many pages there are
	defaultPages = 16384 // of the service
)

// step is that places with as many keys, or fewer down to the step before, take so many bytes.
type step struct {
	keys  float64
	bytes placeBytes
}

// placeBytes is what a place takes: in Redis, and of a read of it.
type placeBytes struct{ memory, read float64 }

// ladder is the size of a page by its keys, as the steps of the allocator's classes make it.
type ladder []step

// climb makes the ladder of size, which never falls, up to so many keys.
func climb(most int, size func(keys int) (placeBytes, error)) (ladder, error) {
	var l ladder
	for from := 0; from <= most; {
		bytes, err := size(from)
		if err != nil {
			return nil, err
		}
		last, past := from, from+1 // last is on the step, past may be
		for past <= most && same(size, past, bytes) {
			last, past = past, past+2*(past-from)
		}
		for past = min(past, most+1); past-last > 1; {
			if mid := (last + past) / 2; same(size, mid, bytes) {
				last = mid
			} else {
				past = mid
			}
		}
		l = append(l, step{float64(last), bytes})
		from = last + 1
	}
	return l, nil
}

func same(size func(int) (placeBytes, error), keys int, want placeBytes) bool {
	got, err := size(keys)
	return err == nil && got == want
}

// over is the mean size of places with that spread of keys.
func (l ladder) over(s spread) placeBytes {
	var mean placeBytes
	before := 0.0
	for i, st := range l {
		below := 1.0
		if i < len(l)-1 {
			below = s.below(st.keys)
		}
		mean.memory += (below - before) * st.bytes.memory
		mean.read += (below - before) * st.bytes.read
		before = below
	}
	return mean
}

// scattered is the sum of so many places by their squares, see [Way].
func (l ladder) scattered(s spread, places float64) float64 {
	squares := make(ladder, len(l))
	for i, st := range l {
		squares[i] = step{st.keys, placeBytes{memory: st.bytes.memory * st.bytes.memory}}
	}
	return places * squares.over(s).memory
}

// at is the size of a place of so many keys.
func (l ladder) at(keys float64) placeBytes {
	for _, st := range l {
		if keys <= st.keys {
			return st.bytes
		}
	}
	return l[len(l)-1].bytes
}

// pages are the pages of the ledger's kinds.
type pages struct {
	keys  spread
	sizes ladder
}

// newPages spreads the users over the pages, at a rate for each key.
func newPages(in *Input, keyRate float64) (*pages, error) {
	number := in.Pages
	keys := placed(in.Users/float64(number), in.keysAUser(), in.Spread)
	most := int(quantile(keys, 1-1e-9))
	if full := fullPage(keyRate); most > full {
		return nil, &InputError{"pages", fmt.Sprintf("of %d pages one may get %d keys, more than the %d of the largest: more are needed",
			number, most, full)}
	}
	name := pageName(in.Filter, number-1)
	sizes, err := climb(most, func(keys int) (size placeBytes, err error) {
		size.memory, size.read, err = PageBytes(name, keys, keyRate)
		return size, err
	})
	if err != nil {
		return nil, err
	}
	return &pages{keys, sizes}, nil
}

// PageBytes is what a page of so many keys takes, at a rate for each key, when it has just been made: of Redis' memory, and of the
// reply that has it. The names of its strings begin with name: see pageName.
func PageBytes(name string, keys int, keyRate float64) (memory, read float64, err error) {
	shape, err := favfilter.ShapeFor(int(float64(keys)*headroom)+1, keyRate)
	if err != nil {
		return 0, 0, err
	}
	bits := favfilter.HeaderBytes + int(shape.Bits/8)
	marks := buildBytes + int(regions.Count(shape.Bits, uint32(shape.Region))+7)/8
	memory = float64(stringBytes(len(name+":bits"), bits) + stringBytes(len(name+":regions"), marks))
	return memory, float64(bulk(bits)), nil
}

// fullPage is the most keys of a page that can be made anew.
func fullPage(keyRate float64) int {
	most := favfilter.Shape{Bits: favfilter.MaxBits, Hashes: 1}
	if shape, err := favfilter.ShapeFor(0, keyRate); err == nil {
		most.Hashes = shape.Hashes
	}
	return int(float64(most.Capacity(keyRate)-2)/headroom) - 1
}

// PagesFor is the number of pages for so many keys where nobody says: a power of two.
func PagesFor(keys float64) uint32 {
	number := uint32(defaultPages)
	for number < favfilter.MaxPages && keys > keysAPage*float64(number) {
		number *= 2
	}
	return number
}

// pageName is what the keys of a page begin with.
func pageName(filter string, number uint32) string {
	return "fav:{" + filter + "/" + strconv.FormatUint(uint64(number), 10) + "}"
}

// window is what each user has seen: a ring of parts, all of them there.
type window struct {
	parts int
	name  int    // length of the keys
	keys  spread // of a part
	sizes ladder
}

// newWindow is the window of a kind of which each user has so many a day.
func newWindow(in *Input, k activity.Kind, keyRate, daily float64) (*window, error) {
	parts := partsOf(k)
	w := &window{parts: parts + 1}
	w.name = len(pageName(in.Filter, in.Pages-1) + ":" + k.Name + "-0123456789abcdef-12345:bits")
	w.keys = sized{k, daily}.part(in.Spread)
	scaling := favfilter.Scaling{FalsePositiveRate: keyRate / float64(w.parts)}
	most := int(quantile(w.keys, 1-1e-9))
	if most > maxPartKeys {
		return nil, &InputError{
			"seen_per_user_per_day", fmt.Sprintf("a user may get %d in a part of the window, more than %g", most, maxPartKeys),
		}
	}
	var err error
	w.sizes, err = climb(most, func(keys int) (placeBytes, error) {
		shape, err := scaling.First(max(minPartKeys, min(maxPartKeys, int(ringRoom*float64(keys)))))
		if err != nil {
			return placeBytes{}, err
		}
		bits := favfilter.HeaderBytes + int(shape.Bits/8)
		return placeBytes{memory: float64(stringBytes(w.name, bits) + expiryBytes), read: float64(bulk(bits))}, nil
	})
	return w, err
}
