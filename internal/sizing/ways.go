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
)

const (
	reserved  = 0.25  // share of a node's memory reserved for the server: buffers, replication, snapshots
	cpuTarget = 0.5   // target load of a core: of a server, which has one for commands, and of the service
	maxShards = 16384 // a cluster has that many slots

	// headroom is the capacity of a new page divided by its keys. Package activity/pages defines
	// it; a test compares the two.
	headroom = 1.05

	// CPU time of Redis for a feed check in us: for pages, by KiB read, and for sets, by member.
	// BenchmarkRedisCPU measures it.
	readCPU, readCPUPerKiB   = 6.5, 0.2
	memberCPUBase, memberCPU = 3, 0.087
	bloomCPURatio            = 292. / 219 // of BF.MEXISTS to SMISMEMBER

	// CPU time of the service in us, for a feed check and for each candidate besides, by Protobuf
	// and by JSON. Then the memory of a process with 64 and with 512 requests in flight. "make
	// peers PEERS=-load" measures all.
	feedCPU, candidateCPU          = 130, 0.27
	feedCPUJSON, candidateCPUJSON  = 143, 0.39
	processBytes, processFullBytes = 130 << 20, 280 << 20

	knownBytes = 40 // memory per page in a process
	// A row of the ledger in PostgreSQL: in the table, without its two ids, and in both indexes.
	// The indexes hold the ids indexIDs times, because their pages are not full.
	// BenchmarkLedgerBytes measures it.
	rowBytes, indexBytes, indexIDs = 58, 120, 3.13

	// Of a set: the entry of a member without its text, the head of the hash table, and the minimum
	// number of buckets.
	memberBytes, tableBytes, leastBuckets = 32, 64, 4
	// Bytes per key, measured with 2 million activities: in RedisBloom at a rate of 0.1 %, and in
	// sets on Valkey with ids of 12 bytes.
	bloomBytes, bloomRate     = 2.32, 0.001
	valkeyBytes, shortIDBytes = 26.7, 12
	missingBytes, numberBytes = 3, 4 // replies of the protocol: null string; 0 or 1
)

// NumberFor returns the default number of pages for a number of keys: a power of two.
func NumberFor(keys float64) uint32 {
	return pages.NumberFor(uint64(math.Ceil(min(keys, 1<<62))))
}

// PageBytes returns the size of a new page with a number of keys at a rate per key. The size is its
// memory in Redis, and the length of the reply that reads it. The names of its strings begin with
// name.
func PageBytes(name string, keys int, keyRate float64) (memory, read float64, err error) {
	shape, err := favfilter.ShapeFor(int(float64(keys)*headroom)+1, keyRate)
	if err != nil {
		return 0, 0, err
	}
	bits, collided := shape.Bytes()
	return float64(stringBytes(len(name+":bits"), bits) + stringBytes(len(name+":regions"), collided)), float64(bulk(bits)), nil
}

// fullPage returns the maximum number of keys of a page.
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

// filter returns feedfilter's own way.
func (p *Plan) filter() (Way, error) {
	in := &p.Input
	rates, name := in.rates(), pageName(in.Filter, in.Pages-1)
	keys, full := placed(in.Users/float64(in.Pages), in.keysAUser(), in.Spread), fullPage(rates.Key)
	if most := quantile(keys, 1-1e-9); most > full {
		return Way{}, &InputError{"pages", fmt.Sprintf("%d pages: a page may get %.0f keys, at most %.0f fit: choose more pages",
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

// setsOf returns the number of sets per window: one per part, and the one that is about to expire.
func setsOf(k activity.Kind) int { return partsOf(k) + 1 }

// seenPart returns the spread of a user's seen posts in one part of the window.
func (in *Input) seenPart(k activity.Kind) distuv.LogNormal {
	return single(in.SeenPerDay*k.Window.Hours()/24/float64(partsOf(k)), in.Spread)
}

// The other ways have a set per user, of members <kind>:<id>, and a set per user and part of a
// window. Or they have the same number of RedisBloom filters, with the same rate per key.

func (in *Input) exactSets() Way {
	key := len("user:") + in.IDBytes
	w := in.byMember("exact sets", 1)
	w.PerActivity = in.Users * over(single(in.keysAUser(), in.Spread), setBytes(key, in.memberLength(), 0))
	w.Memory = w.PerActivity
	if k, ok := in.window(); ok {
		set := setBytes(key+len(":"+activity.Seen+"-12345"), in.IDBytes+1, expiryBytes)
		w.Memory += in.Users * float64(setsOf(k)) * over(in.seenPart(k), set)
	}
	return in.scattered(w)
}

// setBytes returns the memory of a set of n members: a hash table with a power of two of buckets.
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

// perKey completes a way whose bytes per key depend on the key's rate.
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

// scattered completes a way that stores each user in one place.
func (in *Input) scattered(w Way) Way {
	w.scatter = w.Memory * math.Sqrt((1+in.Spread*in.Spread)/in.Users)
	return w
}

// byMember returns a way that tests each candidate. Its CPU time is that of sets times ratio.
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

// memberLength returns the mean length of a member over the kinds.
func (in *Input) memberLength() int {
	total, n := 0, 0
	for _, k := range in.Kinds.All() {
		if !k.InLedger() {
			continue
		}
		total, n = total+len(k.Name), n+1
		if mirror := k.Mirror(); mirror != "" {
			total, n = total+len(mirror), n+1
		}
	}
	return (total+n/2)/max(1, n) + len(":P") + in.IDBytes
}

// window returns the kind of seen posts, if the input has any.
func (in *Input) window() (activity.Kind, bool) {
	k, ok := in.Kinds.Named(activity.Seen)
	return k, ok && in.SeenPerDay > 0
}
