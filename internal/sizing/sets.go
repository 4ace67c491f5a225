package sizing

import (
	"math"

	"github.com/feedfilter/feedfilter/activity"
)

// The other ways to keep the same, as the services of those who have no filter do: one set for each user, of members
// <kind>:<id>, with the reverse of two-way kinds under "<kind>-by"; for windows a set for each user and part.

const (
	// memberBytes is the entry and the bucket-less rest of a member of a set that is a hash table, its text aside.
	memberBytes = 32
	// tableBytes is the head of such a table, and leastBuckets its smallest size.
	tableBytes   = 64
	leastBuckets = 4

	// Measured with RedisBloom and Valkey on 2 million activities, at 0.1 % a key and with short ids.
	bloomBytes    = 2.32
	bloomRate     = 0.001
	valkeyBytes   = 26.7
	shortIDBytes  = 12
	bloomCPURatio = 292. / 219 // of BF.MEXISTS to SMISMEMBER

	// CPU time of a server on a feed check in us, and per member looked for, measured by BenchmarkRedisCPU.
	memberCPUBase, memberCPU = 3, 0.087
)

// setsOver is the mean size of sets with that spread of members, of so many bytes each, with their keys. A set is a hash
// table, of a power of two buckets, and holds up to as many members.
func setsOver(s spread, key, length int) float64 {
	member := float64(memberBytes + textBytes(length))
	empty, most := s.below(0), quantile(s, 1-1e-12)
	mean := (1-empty)*float64(keyBytes(key)+objectBytes+tableBytes) + s.mean()*member
	before := empty
	for buckets := leastBuckets; ; buckets *= 2 {
		below := s.below(float64(buckets))
		if float64(buckets) >= most {
			return mean + (1-before)*float64(sizeClass(8*buckets))
		}
		mean += (below - before) * float64(sizeClass(8*buckets))
		before = below
	}
}

// exactSets is the way of one set a user.
func (in *Input) exactSets() Way {
	key := len("user:") + in.IDBytes
	w := in.byMember("exact sets", in.Users*setsOver(single(in.keysAUser(), in.Spread), key, in.memberLength()), 1)
	for _, win := range in.windowKinds() {
		part := win.part(in.Spread)
		sets := setsOver(part, key+len(":"+win.kind.Name+"-12345"), in.IDBytes+1)
		w.Memory += in.Users * float64(win.parts()) * (sets + (1-part.below(0))*expiryBytes)
	}
	w.Undo = true
	return in.scattered(w)
}

// valkeySets is the same on Valkey, whose hash table is another.
func (in *Input) valkeySets() Way {
	entry := valkeyBytes + float64(max(0, in.IDBytes-shortIDBytes))
	w := in.byMember("sets, Valkey", in.entries()*entry, 1)
	for _, win := range in.windowKinds() {
		w.Memory += in.Users * float64(win.parts()) * win.part(in.Spread).mean() * entry
	}
	w.Undo = true
	return in.scattered(w)
}

// bloom is a filter of RedisBloom for each user, and for each user and part of a window, of the same rate for each key.
func (in *Input) bloom() Way {
	entry := func(rate float64) float64 { return bloomBytes * math.Log(rate) / math.Log(bloomRate) }
	rate := in.keyRate()
	w := in.byMember("RedisBloom", in.entries()*entry(rate), bloomCPURatio)
	for _, win := range in.windowKinds() {
		parts := float64(win.parts())
		w.Memory += in.Users * parts * win.part(in.Spread).mean() * entry(rate/parts)
	}
	return in.scattered(w)
}

// scattered completes a way whose memory is in as many places as there are users.
func (in *Input) scattered(w Way) Way {
	w.scatter = w.Memory * math.Sqrt((1+in.Spread*in.Spread)/in.Users)
	return w
}

// byMember is a way that takes so much memory for what the ledger keeps here, and is asked for each candidate, with so
// much of the CPU time that sets take.
func (in *Input) byMember(name string, memory, ratio float64) Way {
	w := Way{Name: name, Memory: memory}
	if all := in.Users * in.ActivitiesPerUser; all > 0 {
		w.PerActivity = memory / all
	}
	ledger, _ := in.lookups()
	request, lookups := ledger*bulk(in.memberLength()), ledger
	for _, win := range in.windowKinds() {
		if win.kind.Effect == activity.Drop {
			lookups += win.parts()
			request += win.parts() * bulk(in.IDBytes+1)
		}
	}
	w.FeedRequest = float64(in.Candidates * request)
	w.FeedReply = float64(in.Candidates * lookups * numberBytes)
	w.FeedCPU = (memberCPUBase + memberCPU*float64(in.Candidates*lookups)) * ratio
	return w
}

// memberLength is that of a member: the mean over the kinds.
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

func partsOf(k activity.Kind) int {
	if k.Parts == 0 {
		return activity.DefaultParts
	}
	return k.Parts
}

// sized is a kind with a window of which it is known how many each user has a day.
type sized struct {
	kind  activity.Kind
	daily float64
}

func (s sized) parts() int { return partsOf(s.kind) + 1 }

// part is the spread of what a user has in one part.
func (s sized) part(cv float64) lognormal {
	return single(s.daily*s.kind.Window.Hours()/24/float64(partsOf(s.kind)), cv)
}

// windowKinds are the kinds with a window that are sized.
func (in *Input) windowKinds() []sized {
	if k, ok := in.Kinds.Named(seen); ok && in.SeenPerDay > 0 {
		return []sized{{k, in.SeenPerDay}}
	}
	return nil
}
