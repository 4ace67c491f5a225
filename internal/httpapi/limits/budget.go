package limits

import "sync"

// maxShare is how many times what is left of a budget one token may hold.
const maxShare = 7

// Budget is an amount that requests take parts of and give back.
type Budget struct {
	Limit int64 // changed by bound alone, once the budget is in use

	mu   sync.Mutex
	used int64
	by   map[string]int64 // used by each token, by its name
}

// Take takes n for a token, and reports whether that much was left for it. A token may hold up to
// maxShare times what is left. So one token gets seven eighths of the budget at most, and some is
// left however many tokens take what they can. Requests without a token (by is "") share all of it.
//
// Take never waits: a waiting request holds memory, and its client may leave before its turn.
func (b *Budget) Take(by string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.Limit - b.used
	if n > left || by != "" && b.by[by]+n > maxShare*left {
		return false
	}
	b.add(by, n)
	return true
}

// Give gives n back.
func (b *Budget) Give(by string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(by, -n)
}

func (b *Budget) add(by string, n int64) {
	b.used += n
	if by == "" {
		return
	}
	if b.by == nil {
		b.by = make(map[string]int64)
	}
	if b.by[by] += n; b.by[by] == 0 {
		delete(b.by, by)
	}
}

// bound changes the limit. If more than the new limit is in use, Take fails until enough is given
// back.
func (b *Budget) bound(limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Limit = limit
}

// taken returns how much is in use, and the limit.
func (b *Budget) taken() (used, limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.Limit
}
