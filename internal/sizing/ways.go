package sizing

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/regions"
)

const (
	reserved  = 0.25  // share of a node's memory that is left to the server: buffers, replication, snapshots
	cpuTarget = 0.5   // how busy a core is to be: of a server, which has one for commands, and of the service
	maxShards = 16384 // a slot each

	// headroom is the room of a page that was just made, over its keys. Package activity/pages has
	// it, and tests compare.
	headroom   = 1.05
	buildBytes = 8 // of the regions string, before its bits

	// CPU time of Redis for a feed check in us: on pages, the base and per KiB read, and on sets,
	// the base and per member. BenchmarkRedisCPU measures it.
	readCPU, readCPUPerKiB   = 6.5, 0.2
	memberCPUBase, memberCPU = 3, 0.087
	bloomCPURatio            = 292. / 219 // of BF.MEXISTS to SMISMEMBER

	// CPU time of the service for a feed check in us, and for each of its candidates besides: by
	// Protobuf and by JSON. "make peers PEERS=-load" measures it, and the memory of a process with
	// 64 requests in progress, and with 512.
	feedCPU, candidateCPU          = 130, 0.27
	feedCPUJSON, candidateCPUJSON  = 143, 0.39
	processBytes, processFullBytes = 130 << 20, 280 << 20

	knownBytes = 40 // what a process knows of each page
	// These constants are the bytes of a row of the ledger in PostgreSQL. It takes rowBytes in the
	// table, besides the two ids, and indexBytes in both indexes, besides the ids times indexIDs.
	// Each index has the ids, and pages that are not full. BenchmarkLedgerBytes measures it.
	rowBytes, indexBytes, indexIDs = 58, 120, 3.13

	// Bytes of a set: the entry of a member without its text, the head of the hash table, and its
	// smallest number of buckets.
	memberBytes, tableBytes, leastBuckets = 32, 64, 4
	// Bytes a key, measured on 2 million activities: in RedisBloom at a rate of 0.1 %, and in sets
	// on Valkey with ids of 12 bytes.
	bloomBytes, bloomRate     = 2.32, 0.001
	valkeyBytes, shortIDBytes = 26.7, 12
	missingBytes, numberBytes = 3, 4 // answers of the protocol: no such string; 0 or 1
)

// NumberFor returns the default number of pages for that many keys: a power of two.
func NumberFor(keys float64) uint32 {
	return pages.NumberFor(uint64(math.Ceil(min(keys, 1<<62))))
}

// PageBytes returns the size of a page with that many keys, at a rate for each key, after a
// rebuild. It returns the memory in Redis and the size of the reply. The names of its strings begin
// with name.
func PageBytes(name string, keys int, keyRate float64) (memory, read float64, err error) {
	shape, err := favfilter.ShapeFor(int(float64(keys)*headroom)+1, keyRate)
	if err != nil {
		return 0, 0, err
	}
	bits := favfilter.HeaderBytes + int(shape.Bits/8)
	collided := buildBytes + int(regions.Count(shape.Bits, uint32(shape.Region))+7)/8
	return float64(stringBytes(len(name+":bits"), bits) + stringBytes(len(name+":regions"), collided)), float64(bulk(bits)), nil
}

// fullPage is the most keys of a page that can be made.
func fullPage(keyRate float64) float64 {
	most := favfilter.Shape{Bits: favfilter.MaxBits, Hashes: 1}
	if shape, err := favfilter.ShapeFor(0, keyRate); err == nil {
		most.Hashes = shape.Hashes
	}
	return math.Floor(float64(most.Capacity(keyRate)-2)/headroom) - 1
}

func pageName(filter string, number uint32) string {
	return "fav:{" + filter + "/" + strconv.FormatUint(uint64(number), 10) + "}"
}

// filter is the service's way.
func (p *Plan) filter() (Way, error) {
	in := &p.Input
	rates, name := in.rates(), pageName(in.Filter, in.Pages-1)
	keys, full := placed(in.Users/float64(in.Pages), in.keysAUser(), in.Spread), fullPage(rates.Key)
	if most := quantile(keys, 1-1e-9); most > full {
		return Way{}, &InputError{"pages", fmt.Sprintf("of %d pages one may get %.0f keys, more than the %.0f of the largest: more are needed",
			in.Pages, most, full)}
	}
	memory := func(n float64) float64 { m, _, _ := PageBytes(name, int(min(n, full)), rates.Key); return m }
	read := func(n float64) float64 { _, r, _ := PageBytes(name, int(min(n, full)), rates.Key); return r }
	readers := weighted(keys)
	p.KeysPerPage, p.KeysPage99 = keys.Mean(), quantile(keys, 0.99)
	p.PagesMemory = float64(in.Pages) * over(keys, memory)
	p.FeedRead99 = read(quantile(readers, 0.99))
	w := Way{Name: "feedfilter", Undo: true, FeedRequest: float64(bulk(len(name + ":bits"))), FeedReply: over(readers, read)}
	squares, strings := float64(in.Pages)*over(keys, square(memory)), 1
	for _, k := range in.Kinds.All() {
		if k.InLedger() || k.Effect != activity.Drop {
			continue
		}
		strings++
		more, err := p.addWindow(k, rates.Window, &w)
		if err != nil {
			return Way{}, err
		}
		squares += more
	}
	w.Memory, w.PerActivity, w.scatter = p.PagesMemory+p.WindowsMemory, p.PagesMemory, math.Sqrt(squares)
	w.FeedRequest += float64(array(1+strings) + bulk(len("mget")))
	w.FeedReply += float64(array(strings))
	w.FeedCPU = readCPU + readCPUPerKiB*w.FeedReply/1024
	return w, nil
}

func square(f func(float64) float64) func(float64) float64 {
	return func(n float64) float64 { return f(n) * f(n) }
}

// setsOf returns the number of sets that a window takes: one for each part, with the one that is
// about to be forgotten.
func setsOf(k activity.Kind) int { return partsOf(k) + 1 }

// seenPart is the spread of what a user has in one part of the window.
func (in *Input) seenPart(k activity.Kind) distuv.LogNormal {
	return single(in.SeenPerDay*k.Window.Hours()/24/float64(partsOf(k)), in.Spread)
}

// The other ways keep a set for each user, of members <kind>:<id>, and a set for each user and part
// of a window. Or they keep as many filters of RedisBloom, of the same rate for each key.

func (in *Input) exactSets() Way {
	key := len("user:") + in.IDBytes
	w := in.byMember("exact sets", 1)
	w.PerActivity = in.Users * over(single(in.keysAUser(), in.Spread), setBytes(key, in.memberLength(), 0))
	w.Memory = w.PerActivity
	if k, ok := in.window(); ok {
		set := setBytes(key+len(":"+seen+"-12345"), in.IDBytes+1, expiryBytes)
		w.Memory += in.Users * float64(setsOf(k)) * over(in.seenPart(k), set)
	}
	return in.scattered(w)
}

// setBytes returns the memory of a set of n members: a hash table with a power of two as its number
// of buckets.
func setBytes(key, member, extra int) func(n float64) float64 {
	return func(n float64) float64 {
		if n == 0 {
			return 0
		}
		buckets := max(leastBuckets, 1<<bits.Len64(uint64(n)-1))
		return float64(keyBytes(key)+extra+objectBytes+tableBytes+sizeClass(8*buckets)) + n*float64(memberBytes+textBytes(member))
	}
}

func (in *Input) valkeySets() Way {
	entry := valkeyBytes + float64(max(0, in.IDBytes-shortIDBytes))
	return in.perKey(in.byMember("sets, Valkey", 1), func(float64) float64 { return entry })
}

func (in *Input) bloom() Way {
	w := in.perKey(in.byMember("RedisBloom", bloomCPURatio), func(rate float64) float64 {
		return bloomBytes * math.Log(rate) / math.Log(bloomRate)
	})
	w.Undo = false
	return w
}

// perKey completes a way that takes the same number of bytes for every key, by the key's rate.
func (in *Input) perKey(w Way, entry func(rate float64) float64) Way {
	rates := in.rates()
	w.PerActivity = in.entries() * entry(rates.Key)
	w.Memory = w.PerActivity
	if k, ok := in.window(); ok {
		parts := float64(setsOf(k))
		w.Memory += in.Users * parts * in.seenPart(k).Mean() * entry(rates.Window/parts)
	}
	return in.scattered(w)
}

// scattered completes a way whose memory is in as many places as there are users.
func (in *Input) scattered(w Way) Way {
	w.scatter = w.Memory * math.Sqrt((1+in.Spread*in.Spread)/in.Users)
	return w
}

// byMember is a way that is asked for each candidate, with so much of the CPU time that sets take.
func (in *Input) byMember(name string, ratio float64) Way {
	lookups := in.lookups()
	request := lookups * bulk(in.memberLength())
	if k, ok := in.window(); ok && k.Effect == activity.Drop {
		lookups += setsOf(k)
		request += setsOf(k) * bulk(in.IDBytes+1)
	}
	return Way{
		Name: name, Undo: true,
		FeedRequest: float64(in.Candidates * request), FeedReply: float64(in.Candidates * lookups * numberBytes),
		FeedCPU: (memberCPUBase + memberCPU*float64(in.Candidates*lookups)) * ratio,
	}
}

// memberLength returns the length of a member: the mean over the kinds.
func (in *Input) memberLength() int {
	total, n := 0, 0
	for _, k := range in.Kinds.All() {
		if !k.InLedger() {
			continue
		}
		total, n = total+len(k.Name), n+1
		if k.Reverse != "" {
			total, n = total+len(k.Reverse), n+1
		}
	}
	return (total+n/2)/max(1, n) + len(":P") + in.IDBytes
}

// window is the kind of seen posts, if the input has any.
func (in *Input) window() (activity.Kind, bool) {
	k, ok := in.Kinds.Named(seen)
	return k, ok && in.SeenPerDay > 0
}
