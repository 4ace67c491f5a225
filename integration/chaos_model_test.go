package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// stalenessBound is the promise of the service: how long an instance may take to notice that
	// pages lack writes that another instance acknowledged. It is the default of --staleness-bound.
	stalenessBound = time.Second
	// boundSlack allows for measuring. A feed is sent a little after its time is taken.
	boundSlack = 100 * time.Millisecond
	// settleTime is how long an unanswered write may still take effect after its connection is lost
	// or it gets another answer than 200. It is the promise of the service, and one second for
	// measuring. The time in which a process or PostgreSQL is stopped comes on top.
	settleTime = 11 * time.Second
)

// clock is the format of times in messages. The service's logs have more digits.
const clock = "15:04:05.000"

// chaosKey is one activity, its known state and its last writes. The model's lock guards all fields
// but the names.
type chaosKey struct {
	user, kind, target string

	busy      bool // a write of it is in flight
	live      bool // the state; undefined if undecided
	undecided bool
	version   uint64      // raised at the start and at the end of each write
	undos     int         // acknowledged removals of a key that was or may have been live
	since     time.Time   // first acknowledgement of the present state
	acks      map[int]int // by instance: the life in which it last acknowledged this state

	// open is set after an unanswered write. Until openUntil it may take effect at any time. The
	// load repeats it and does not send its opposite, which the late write could follow. No time
	// decides whether it took effect. Only an acknowledged repetition does, and it ends the
	// openness if it was sent after openUntil.
	open, openAdd bool
	openUntil     time.Time

	history []string // the last writes, for failure messages
	missed  bool     // a miss of this key has been described
}

func (k *chaosKey) String() string { return k.user + " " + k.kind + " " + k.target }

// pageOwners returns the users whose pages have the activity. Those who are blocked have it, too.
func (k *chaosKey) pageOwners() []string {
	if k.kind == "block" {
		return []string{k.user, k.target}
	}
	return []string{k.user}
}

// plural returns the name of the kind in routes.
func (k *chaosKey) plural() string { return k.kind + "s" }

// source is the process that answered: the instance, and the number of its life.
type source struct{ instance, life int }

// chaosModel holds for every activity the state that the service has acknowledged. It is safe for
// concurrent use. Only one goroutine at a time writes a key.
type chaosModel struct {
	users []string      // and then the lists, which every feed names
	own   [][]*chaosKey // by user
	looks [][]lookSpec  // by user: all candidates for this viewer's feeds

	mu        sync.Mutex
	settled   time.Time // when the last unacknowledged write can no longer take effect
	exposures map[exposureID]*exposure
	kept      map[keptID]keptLooks
	seen      []*seenPosts // by user
	unseen    map[unseenID]keptLooks
}

const (
	keyBlocks = 16 // per user: how many targets are blocked and unblocked
	keyHides  = 24
	keyLikes  = 16
	keyFacets = 8  // domains that are muted
	keyRoles  = 8  // users whose reposts are muted
	keyWords  = 8  // phrases that are muted
	keyFollow = 4  // users whose posts are kept from domains that are muted
	listKeys  = 24 // posts that each list hides
)

// chaosLists are owners that every feed names as lists.
func chaosLists() []string { return []string{"list0", "list1"} }

// overruled is the kind that "follow" overrules.
const overruled = "domain-mute"

// newChaosModel makes a model of that many users, who block one another, in both directions too,
// and all of them the first; and of the lists.
func newChaosModel(users int, seed uint64) *chaosModel {
	m := &chaosModel{
		own: make([][]*chaosKey, users), looks: make([][]lookSpec, users),
		exposures: make(map[exposureID]*exposure),
		kept:      make(map[keptID]keptLooks),
		unseen:    make(map[unseenID]keptLooks),
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for u := range users {
		m.users = append(m.users, fmt.Sprintf("u%d", u))
	}
	for u, name := range m.users {
		others := rng.Perm(users) // and user 0 before all
		slices.SortStableFunc(others, func(a, b int) int { return min(a, 1) - min(b, 1) })
		others = slices.DeleteFunc(others, func(o int) bool { return o == u })
		add := func(kind, target string) {
			m.own[u] = append(m.own[u], &chaosKey{user: name, kind: kind, target: target, acks: make(map[int]int)})
		}
		for _, o := range others[:min(keyBlocks, len(others))] {
			add("block", m.users[o])
		}
		for i := range keyHides {
			add("hide", fmt.Sprintf("h%d", i))
		}
		for i := range keyLikes {
			add("like", fmt.Sprintf("l%d", i))
		}
		for i := range keyFacets {
			add("domain-mute", fmt.Sprintf("d%d", i))
		}
		for i := range keyWords {
			add("word-mute", strings.TrimPrefix(strings.Repeat(fmt.Sprintf(" w%d", i), 1+i%4), " "))
		}
		for i := range keyRoles {
			add("repost-mute", fmt.Sprintf("r%d", i))
		}
		for i := range keyFollow {
			add("follow", fmt.Sprintf("f%d", i))
		}
	}
	for _, list := range chaosLists() {
		var keys []*chaosKey
		for i := range listKeys {
			keys = append(keys, &chaosKey{user: list, kind: "hide", target: fmt.Sprintf("m%d", i), acks: make(map[int]int)})
		}
		m.users, m.own, m.looks = append(m.users, list), append(m.own, keys), append(m.looks, nil)
	}
	for range m.users {
		m.seen = append(m.seen, &seenPosts{at: make(map[string]time.Time)})
	}
	m.addLooks()
	return m
}

// addLooks lists for each viewer what to look at: own keys, and blocks by others. One author
// may be blocked from both sides.
func (m *chaosModel) addLooks() {
	type side struct{ viewer, other string }
	blocks := make(map[side][]*chaosKey)
	for _, own := range m.own {
		for _, k := range own {
			if k.kind == "block" {
				blocks[side{k.user, k.target}] = append(blocks[side{k.user, k.target}], k)
				blocks[side{k.target, k.user}] = append(blocks[side{k.target, k.user}], k)
			}
		}
	}
	for v, viewer := range m.users {
		for _, other := range m.users {
			if keys := blocks[side{viewer, other}]; len(keys) > 0 {
				m.looks[v] = append(m.looks[v], lookSpec{kind: "block", target: other, keys: keys})
			}
		}
		for i := range listKeys { // both lists may hide the same post
			lists := m.own[len(m.own)-len(chaosLists()):]
			m.looks[v] = append(m.looks[v], lookSpec{kind: "hide", target: lists[0][i].target, keys: []*chaosKey{lists[0][i], lists[1][i]}})
		}
		for _, k := range m.own[v] {
			switch {
			case k.kind == "block" || slices.Contains(chaosLists(), viewer):
			case k.kind == "follow":
				domain := slices.IndexFunc(m.own[v], func(o *chaosKey) bool { return o.kind == "domain-mute" && o.target[1:] == k.target[1:] })
				m.looks[v] = append(m.looks[v], lookSpec{kind: k.kind, target: k.target, keys: []*chaosKey{m.own[v][domain], k}})
			default:
				m.looks[v] = append(m.looks[v], lookSpec{kind: k.kind, target: k.target, keys: []*chaosKey{k}})
			}
		}
	}
}

// op is one write of one key, in flight.
type op struct {
	key       *chaosKey
	add       bool
	undecided bool // state of the key before the write
	was       bool // live before the write
	sent      time.Time
}

// begin chooses the next write of the key, and marks the key as being written. Half of the writes
// of a live key undo it. Some writes repeat an add, and some undo a key that is not live.
func (m *chaosModel) begin(k *chaosKey, rng *rand.Rand) op {
	m.mu.Lock()
	defer m.mu.Unlock()
	add := rng.IntN(100) < 90
	if k.live {
		add = rng.IntN(2) == 0
	}
	if k.open {
		add = k.openAdd
	}
	k.busy = true
	k.version++
	return op{key: k, add: add, undecided: k.undecided, was: k.live, sent: time.Now()}
}

// acknowledged records a write that was answered with 200. It returns a description of a wrong
// answer, "" for a correct one.
func (m *chaosModel) acknowledged(o op, changed bool, by source) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := o.key
	now := time.Now()
	if o.undecided || o.was != o.add {
		k.since = now
		clear(k.acks)
		if !o.add {
			k.undos++
		}
	}
	k.live, k.undecided = o.add, false
	k.open = k.open && !o.sent.After(k.openUntil)
	if by.life != unknownLife {
		k.acks[by.instance] = by.life
	}
	m.end(o, now, fmt.Sprintf("acknowledged by %d.%d, changed %v", by.instance, by.life, changed))
	if !o.undecided && changed != (o.was != o.add) {
		return fmt.Sprintf("%v: add %v answered changed %v, live was %v\n%s", k, o.add, changed, o.was, k.past())
	}
	return ""
}

// failed records a write that was not acknowledged. It may have taken effect, or may take effect
// later.
func (m *chaosModel) failed(o op, by source, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := o.key
	now := time.Now()
	m.settled = now.Add(settleTime)
	k.open, k.openAdd, k.openUntil = true, o.add, m.settled
	// A write that repeats the present state leaves it decided.
	k.undecided = o.undecided || o.was != o.add
	m.end(o, now, fmt.Sprintf("not acknowledged by %d.%d: %s", by.instance, by.life, why))
}

// extendOpen records that something that was stopped continues. It may carry any open write.
func (m *chaosModel) extendOpen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := time.Now().Add(settleTime)
	for _, own := range m.own {
		for _, k := range own {
			if k.open {
				k.openUntil, m.settled = until, until
			}
		}
	}
}

func (m *chaosModel) end(o op, now time.Time, outcome string) {
	k := o.key
	k.busy = false
	k.version++
	k.history = append(k.history, fmt.Sprintf("%s-%s add %v %s", o.sent.Format(clock), now.Format(clock), o.add, outcome))
	if len(k.history) > 8 {
		k.history = k.history[1:]
	}
}

// past returns the history of the key, one write a line.
func (k *chaosKey) past() string {
	var b strings.Builder
	for _, line := range k.history {
		fmt.Fprintf(&b, "      %v: %s\n", k, line)
	}
	return b.String()
}

// count returns how many keys are live, and how many are undecided.
func (m *chaosModel) count() (live, undecided int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, own := range m.own {
		for _, k := range own {
			switch {
			case k.undecided:
				undecided++
			case k.live:
				live++
			}
		}
	}
	return live, undecided
}

// settledAt returns the time after which no unacknowledged write can take effect.
func (m *chaosModel) settledAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settled
}
