package access

import (
	"cmp"
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

// String returns the rate in the form that UnmarshalText reads; "" for no limit.
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

// UnmarshalText reads "<per second>" or "<per second>:<burst>", such as 100 or 0.5:20. "" means no
// limit.
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
		return fmt.Errorf("%q is not <requests per second> or <requests per second>:<burst>", text)
	}
	return r.check()
}

// limiter returns nil for no limit.
func (r Rate) limiter() *rate.Limiter {
	if r.PerSecond == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(r.PerSecond), cmp.Or(r.Burst, int(math.Ceil(r.PerSecond))))
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
	// One reservation is at most a burst, so a larger n takes several.
	for burst := l.Burst(); n > 0; n -= burst {
		wait = l.ReserveN(now, min(n, burst)).DelayFrom(now)
	}
	return wait
}

// rememberedUsers is the minimum number of users that Users remembers.
const rememberedUsers = 1 << 16

// Users limits how often something is done for each user. It remembers at least the 65,536 users
// seen last, and at most twice as many, in about 10 MB. A forgotten user counts as new. Users is
// safe for concurrent use.
type Users struct {
	seed maphash.Seed

	mu   sync.Mutex
	rate Rate
	// There are two generations of users. When the younger is full, it replaces the older.
	younger, older map[uint64]*rate.Limiter
}

// NewUsers returns Users with a rate. The zero rate means no limit, and so does a nil *Users.
func NewUsers(r Rate) *Users { return &Users{seed: maphash.MakeSeed(), rate: r} }

// SetRate changes the rate. A different rate resets all users.
func (u *Users) SetRate(r Rate) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r != u.rate {
		u.rate, u.younger, u.older = r, nil, nil
	}
}

// Take counts a request for the user as n, and returns 0, if the rate allows one more. Otherwise it
// returns the time until the next request is allowed.
func (u *Users) Take(user string, now time.Time, n int) (wait time.Duration) {
	if u == nil {
		return 0
	}
	l := u.limiter(maphash.String(u.seed, user))
	if wait = take(l, now); wait == 0 {
		charge(l, now, n-1)
	}
	return wait
}

// limiter returns the limiter of a user, nil if there is no limit.
func (u *Users) limiter(user uint64) *rate.Limiter {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l := u.younger[user]; l != nil || u.rate.PerSecond == 0 {
		return l
	}
	l := u.older[user]
	if l == nil {
		l = u.rate.limiter()
	}
	if u.younger == nil || len(u.younger) >= rememberedUsers {
		u.younger, u.older = make(map[uint64]*rate.Limiter), u.younger
	}
	u.younger[user] = l
	return l
}

// Throttle limits what callers can cause, such as log lines: ten at once, then one a second. Use
// NewThrottle, because the zero value is not ready. It is safe for concurrent use.
type Throttle struct {
	limiter *rate.Limiter
	kept    atomic.Uint64
}

// NewThrottle returns a throttle.
func NewThrottle() *Throttle { return &Throttle{limiter: rate.NewLimiter(1, 10)} }

// Pass reports whether to log the next line, and how many lines were suppressed since the last one.
func (t *Throttle) Pass(now time.Time) (suppressed uint64, ok bool) {
	if !t.limiter.AllowN(now, 1) {
		t.kept.Add(1)
		return 0, false
	}
	return t.kept.Swap(0), true
}
