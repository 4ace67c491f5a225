package access

import (
	"fmt"
	"hash/maphash"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// String is what UnmarshalText reads: "" for no limit.
func (r Rate) String() string {
	if r.PerSecond == 0 {
		return ""
	}
	text := strconv.FormatFloat(r.PerSecond, 'g', -1, 64)
	if r.Burst > 0 {
		text += ":" + strconv.Itoa(r.Burst)
	}
	return text
}

// UnmarshalText reads "<a second>" or "<a second>:<burst>", such as 100 or 0.5:20, or nothing for
// no limit.
func (r *Rate) UnmarshalText(text []byte) error {
	if *r = (Rate{}); len(text) == 0 {
		return nil
	}
	perSecond, burst, given := strings.Cut(string(text), ":")
	var err error
	if r.PerSecond, err = strconv.ParseFloat(perSecond, 64); err == nil && given {
		r.Burst, err = strconv.Atoi(burst)
	}
	if err != nil || given && r.Burst < 1 {
		return fmt.Errorf("%q is not a number a second, or that and :<burst>", text)
	}
	return r.check()
}

// limiter returns nil for no limit.
func (r Rate) limiter() *rate.Limiter {
	if r.PerSecond == 0 {
		return nil
	}
	burst := r.Burst
	if burst == 0 {
		burst = max(1, int(math.Ceil(r.PerSecond)))
	}
	return rate.NewLimiter(rate.Limit(r.PerSecond), burst)
}

func take(l *rate.Limiter, now time.Time) (wait time.Duration) {
	if l == nil || l.AllowN(now, 1) {
		return 0
	}
	missing := 1 - l.TokensAt(now)
	return max(time.Millisecond, time.Duration(missing/float64(l.Limit())*float64(time.Second)))
}

func charge(l *rate.Limiter, now time.Time, n int) (wait time.Duration) {
	if l == nil {
		return 0
	}
	// A reservation holds a burst at most; several hold what comes later.
	for burst := l.Burst(); n > 0; n -= burst {
		wait = l.ReserveN(now, min(n, burst)).DelayFrom(now)
	}
	return wait
}

const (
	userShards = 64
	// shardUsers is how many users of a shard are remembered at least; twice as many at most.
	shardUsers = 1024
)

// Users limits how often something is done for each of any number of users. It remembers at least
// the 65,536 seen last, and at most twice as many, in some 10 MB: one that is forgotten may do as
// much as a new one. It is safe for concurrent use.
type Users struct {
	rate   atomic.Pointer[Rate]
	seed   maphash.Seed
	shards [userShards]userShard
}

// userShard has two generations of users: when the younger is full, the older goes.
type userShard struct {
	mu             sync.Mutex
	younger, older map[uint64]*rate.Limiter
}

// NewUsers returns Users with a rate; the zero rate limits nobody, as nil does.
func NewUsers(r Rate) *Users {
	u := &Users{seed: maphash.MakeSeed()}
	u.rate.Store(&r)
	return u
}

// SetRate changes the rate. A new rate resets the use of all users.
func (u *Users) SetRate(r Rate) {
	if *u.rate.Swap(&r) == r {
		return
	}
	for i := range u.shards {
		u.shards[i].clear()
	}
}

// Take counts a request for the user, unless there have been too many: then it returns how long it
// is until one may be made.
func (u *Users) Take(user string, now time.Time) (wait time.Duration) {
	if u == nil || u.rate.Load().PerSecond == 0 {
		return 0
	}
	h := maphash.String(u.seed, user)
	return take(u.shards[h%userShards].limiter(h, &u.rate), now)
}

func (s *userShard) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.younger, s.older = nil, nil
}

// limiter returns that of a user. The rate is read under the lock: none of an older rate is made
// once the shard was cleared.
func (s *userShard) limiter(user uint64, r *atomic.Pointer[Rate]) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.younger[user]; l != nil {
		return l
	}
	l := s.older[user]
	if l == nil {
		l = r.Load().limiter()
	}
	if s.younger == nil || len(s.younger) >= shardUsers {
		s.younger, s.older = make(map[uint64]*rate.Limiter), s.younger
	}
	s.younger[user] = l
	return l
}

// Throttle bounds how often something is logged that strangers can cause: ten times at once, then
// once a second. The zero value is not ready; use NewThrottle. It is safe for concurrent use.
type Throttle struct {
	limiter *rate.Limiter
	kept    atomic.Uint64
}

// NewThrottle returns a throttle.
func NewThrottle() *Throttle { return &Throttle{limiter: rate.NewLimiter(1, 10)} }

// Pass reports whether to log it, and then how many have not been since the last time.
func (t *Throttle) Pass(now time.Time) (suppressed uint64, ok bool) {
	if !t.limiter.AllowN(now, 1) {
		t.kept.Add(1)
		return 0, false
	}
	return t.kept.Swap(0), true
}
