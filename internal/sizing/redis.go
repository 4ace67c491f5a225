package sizing

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/regions"
)

// Memory of Redis in bytes. A key has an entry of the dictionary (40 in a cluster, which links the
// keys of a slot), an object, and one to two buckets of 8 bytes.
const (
	keyBytes     = 48 + 16 + 16 // besides its name and value
	expiryBytes  = 32 + 16      // of a key's time to live
	missingBytes = 3            // of the reply for a missing key
)

// sizeClass returns the size of jemalloc's block for n bytes, 8 or more: multiples of 16 up to 128,
// then four classes per doubling.
func sizeClass(n int) int {
	step := max(16, 1<<(bits.Len(uint(n-1))-3))
	return (n + step - 1) / step * step
}

// stringBytes returns the memory of a key and a string value of these lengths. A string has a
// header and a zero.
func stringBytes(key, value int) int { return keyBytes + sizeClass(key+4) + sizeClass(value+6) }

// Lengths in the Redis protocol: bulk is that of a string of n bytes, array that of the head of an
// array of n elements.
func bulk(n int) int  { return array(n) + n + 2 }
func array(n int) int { return 1 + len(strconv.Itoa(n)) + 2 }

// headroom is the capacity of a new page divided by its keys, as in package activity/pages.
const headroom = 1.05

// keySize is what determines the size of keys in a page: their rate without weight, and the share
// of keys of each weight.
type keySize struct {
	rate    float64
	weights map[int]float64
}

// extra returns the mean weight.
func (of keySize) extra() (mean float64) {
	for extra, share := range of.weights {
		mean += float64(extra) * share
	}
	return mean
}

// pageBytes returns the size of a new page with a number of keys. The size is its memory in Redis,
// and the length of the reply that reads it. The names of its strings begin with name.
func pageBytes(name string, keys int, of keySize) (memory, read float64, err error) {
	shape, err := pageShape(keys, of)
	if err != nil {
		return 0, 0, err
	}
	bits, collided := shape.Bytes()
	both := stringBytes(len(name+":bits"), bits) + stringBytes(len(name+":regions"), collided)
	return float64(both), float64(bulk(bits)), nil
}

// pageShape returns the shape of a new page with a number of keys.
func pageShape(keys int, of keySize) (favfilter.Shape, error) {
	empty, err := favfilter.ShapeFor(0, of.rate)
	if err != nil {
		return empty, err
	}
	weighed := math.Ceil(float64(keys) * (1 + of.extra()/float64(empty.Hashes)))
	return favfilter.ShapeFor(int(weighed*headroom)+1, of.rate)
}

// stuckShare returns the share of the keys of a new page that a delete can only remove by a rebuild
// of the page. Too few of their bits may be cleared.
func stuckShare(keys int, of keySize) (float64, error) {
	s, err := pageShape(keys, of)
	if err != nil {
		return 0, err
	}
	stuck, bits := 0.0, float64(keys)*(float64(s.Hashes)+of.extra())
	for extra, share := range of.weights {
		k := int(s.Hashes) + extra
		g := regions.Geometry{Bits: s.Bits, K: k, Region: regions.Size(s.Region)}
		// As many keys of this weight as set the bits of all.
		alike := int(math.Round(bits / float64(k)))
		stuck += share * (1 - g.Deletable(alike, favfilter.LeastCleared))
	}
	return stuck, nil
}

func pageName(number uint32) string {
	return "fav:{feed/" + strconv.FormatUint(uint64(number), 10) + "}"
}

// windows plans the strings of all kinds with a window, at the middle of a part: their memory, and
// what a feed check reads. Their number of keys is only known for seen posts.
func (p *Plan) windows(kinds *activity.Kinds, rates activity.Rates) error {
	if _, ok := kinds.Named(activity.Seen); !ok && p.Input.SeenPerUserPerDay > 0 {
		return fmt.Errorf("--seen-per-user-per-day: there is no kind %s", activity.Seen)
	}
	var unsized []string
	for _, k := range kinds.All() {
		sized := k.Name == activity.Seen && p.Input.SeenPerUserPerDay > 0
		if !k.InLedger() && !sized {
			unsized = append(unsized, k.Name)
		}
		if !k.InLedger() && k.Effect == activity.Drop {
			p.window(k, rates.OfWindow(k), sized)
		}
	}
	if len(unsized) > 0 {
		names := strings.Join(unsized, ", ")
		p.Notes = append(p.Notes, "Not sized, since nothing says how much of it there is: "+names+".")
	}
	return nil
}

// window adds the strings of a kind.
func (p *Plan) window(k activity.Kind, rate float64, sized bool) {
	in, r := &p.Input, &p.Redis
	parts := float64(cmp.Or(k.Parts, activity.DefaultParts))
	most := float64(cmp.Or(k.Most, activity.DefaultMost))
	name := len(pageName(p.Pages.Number-1) + ":" + k.Name + ".3w5e11264sgsf:bits")
	r.Request += float64(bulk(name))
	if !sized {
		r.Reply += missingBytes
		return
	}
	users := newSpread(in.SeenPerUserPerDay*k.Window.Hours()/24*(1+0.5/parts), in.Spread)
	length := func(keys float64) int { return int(windowBytes(keys, parts, most, rate)) }
	read := func(keys float64) float64 {
		return missingBytes + min(keys, 1)*float64(bulk(length(keys))-missingBytes)
	}
	r.Reply += users.weighted().over(read)
	r.Read99 += read(users.weighted().most99())
	r.Windows = in.Users * users.over(func(keys float64) float64 {
		return min(keys, 1) * float64(stringBytes(name, length(keys))+expiryBytes)
	})
	kept := users.over(func(keys float64) float64 { return min(keys, most) })
	r.Forgotten = max(0, 1-kept/users.mean())
}

// windowBytes returns the length of the string of a window. A key takes log2(1/p) bits for its
// run's share p of the rate, and 1.56 more for the code. All closed runs together take two thirds
// of the rate. The open one, of half a part, has fingerprints as long as the most keys need. At the
// most keys, an eighth more may stay. See package activity/seen.
func windowBytes(keys, parts, most, rate float64) float64 {
	const head, runHead, codeBits = 22, 5, 1.56
	keys = min(keys, most*9/8)
	open := keys / (2*parts + 1)
	bits := math.Ceil(math.Log2(most*9/8/(0.17*rate))) - 3 // of an open fingerprint
	closedBits := (keys - open) * (math.Log2(parts/(0.66*rate)) + codeBits)
	openBits := open * (bits + codeBits - math.Log2(max(1, open)))
	return head + runHead*min(parts+1, keys) + (closedBits+openBits)/8
}
