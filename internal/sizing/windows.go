package sizing

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// windows computes the lengths of the strings that users' windows of one kind take, at the middle
// of a part. It writes windows of some numbers of keys, and interpolates between their lengths.
type windows struct {
	store favfilter.Memory
	all   *seen.Windows
	now   time.Time
	span  time.Duration // that the keys of a string were recorded in: the window and half a part
	most  int           // keys of a user

	hashes  []favfilter.Hash
	lengths []float64 // for 1 key and more, perDoubling for each doubling up to the most
}

// perDoubling is the number of windows that are written for each doubling of the keys.
const perDoubling = 8

func newWindows(k activity.Kind, rate float64) (*windows, error) {
	w := &windows{most: k.Most}
	if w.most == 0 {
		w.most = activity.DefaultMost
	}
	part := (k.Window/time.Duration(partsOf(k)) + time.Millisecond - 1).Milliseconds()
	w.span = k.Window + time.Duration(part/2)*time.Millisecond
	w.now = time.UnixMilli(int64(partsOf(k)+2)*part + part/2)
	var err error
	w.all, err = seen.Open(&w.store, seen.Config{
		Name: k.Name, Length: k.Window, Parts: k.Parts, Most: k.Most, FalsePositiveRate: rate,
	})
	if err != nil {
		return nil, &InputError{"false_positive_rate", err.Error()}
	}
	return w, nil
}

// partsOf returns the number of parts of a window.
func partsOf(k activity.Kind) int {
	if k.Parts == 0 {
		return activity.DefaultParts
	}
	return k.Parts
}

// keys returns the spread of the keys that the strings of users have, or would have without a
// limit.
func (w *windows) keys(perDay, cv float64) distuv.LogNormal {
	return single(perDay*w.span.Hours()/24, cv)
}

// forgotten returns the share of all keys that are forgotten early, because their users have more
// than the most.
func (w *windows) forgotten(keys distuv.LogNormal) float64 {
	kept := over(keys, func(n float64) float64 { return min(n, float64(w.most)) })
	return max(0, 1-kept/keys.Mean())
}

// length returns the length of the string of a user who has recorded a whole number of keys.
func (w *windows) length(keys float64) float64 {
	if keys < 1 {
		return 0
	}
	at := int(math.Log2(min(keys, float64(w.most))) * perDoubling)
	for len(w.lengths) <= at+1 {
		w.addLength()
	}
	low, high := w.count(at), w.count(at+1)
	share := min(1, (keys-float64(low))/float64(max(1, high-low)))
	return w.lengths[at] + (w.lengths[at+1]-w.lengths[at])*share
}

// count returns the number of keys at a position in w.lengths.
func (w *windows) count(at int) int {
	return min(w.most, int(math.Round(math.Exp2(float64(at)/perDoubling))))
}

// addLength adds to w.lengths. The length for the most keys depends on the time in which they were
// recorded; addLength takes the longest.
func (w *windows) addLength() {
	keys := w.count(len(w.lengths))
	length := w.write(keys)
	if keys == w.most {
		length = max(length, w.write(16*keys))
	}
	if n := len(w.lengths); n > 0 {
		length = max(length, w.lengths[n-1]) // more keys never take less
	}
	w.lengths = append(w.lengths, length)
}

// write writes the window of a user who has recorded so many keys, evenly over the span, and
// returns the length of its string. Keys beyond the most are evicted an eighth of it at a time, so
// half of that is left on average.
func (w *windows) write(keys int) float64 {
	kept := min(keys, w.most+w.most/16)
	for i := len(w.hashes); i < kept; i++ {
		w.hashes = append(w.hashes, favfilter.HashKey(0, strconv.Itoa(i)))
	}
	var batch seen.Batch
	for i, key := range w.hashes[:kept] {
		before := (float64(kept-i) - 0.5) / float64(keys) * float64(w.span)
		batch.Add(w.all, uint64(keys), key, w.now.Add(-time.Duration(before)), i)
	}
	if _, err := batch.Write(context.Background(), w.now); err != nil {
		panic(fmt.Errorf("write %d keys to memory: %w", kept, err)) // memory does not fail
	}
	id := w.all.ID(uint64(keys))
	loaded, _ := w.store.Load(context.Background(), []favfilter.PageID{id})
	_, _ = w.store.Replace(context.Background(), favfilter.Replacement{ID: id, Seen: loaded[0].Version}) // remove
	return float64(len(loaded[0].Value))
}

// addWindow adds the string that a feed check reads of a kind with a window and, of seen posts, the
// memory of these strings. It returns the sum of the squares of what users take.
func (p *Plan) addWindow(k activity.Kind, rate float64, way *Way) (squares float64, err error) {
	in := &p.Input
	w, err := newWindows(k, rate)
	if err != nil {
		return 0, err
	}
	name := len(pageName(in.Filter, in.Pages-1) + ":" + w.all.ID(math.MaxUint64).Part + ":bits")
	way.FeedRequest += float64(bulk(name))
	if k.Name != activity.Seen || in.SeenPerDay == 0 {
		way.FeedReply += missingBytes
		return 0, nil
	}
	keys := w.keys(in.SeenPerDay, in.Spread)
	memory := func(n float64) float64 {
		if n < 1 {
			return 0
		}
		return float64(stringBytes(name, int(w.length(n))) + expiryBytes)
	}
	read := func(n float64) float64 {
		if n < 1 {
			return missingBytes
		}
		return float64(bulk(int(w.length(n))))
	}
	readers := weighted(keys)
	p.WindowsMemory += in.Users * over(keys, memory)
	p.FeedRead99 += read(quantile(readers, 0.99))
	way.FeedReply += over(readers, read)
	p.Forgotten = w.forgotten(keys)
	return in.Users * over(keys, square(memory)), nil
}
