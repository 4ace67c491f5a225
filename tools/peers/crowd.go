package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/sizing"
)

const (
	// headroom and maxSharedKeys are the values with which package activity makes pages.
	headroom, maxSharedKeys = 1.05, 2048
	// firstOwn is the first number of dedicated pages of a crowd. It is higher than the numbers
	// that a ledger gives out here.
	firstOwn = 1<<31 + 1<<20
	// peekSize is the number of pages that one command reads.
	peekSize = 256
)

// crowd holds the pages of a population, made without a ledger. Each page has the keys that the
// ledger would give it, and the sequence of the page that it replaces. A Recorder therefore accepts
// it, although its ledger holds only the users who ask for feeds.
type crowd struct {
	people   *bench.Population
	identity favfilter.Identity

	page []uint32 // by user: number of the shared page
	by   []int32  // by user: how many others block the user
	keys []int    // by shared page: number of keys, without those on dedicated pages
	own  []int32  // users who have a dedicated page
}

func newCrowd(p *bench.Population, id ledger.Identity) *crowd {
	c := &crowd{
		people: p, identity: favfilter.Identity{Seed: id.Seed, Pages: id.Pages, Incarnation: id.Incarnation},
		page: make([]uint32, p.Users()), by: make([]int32, p.Users()), keys: make([]int, id.Pages),
	}
	buf := make([]byte, 0, 32)
	for u := range c.page {
		buf = bench.AppendUser(buf[:0], u)
		c.page[u] = id.Slot(favfilter.HashKeyBytes(id.Seed, buf).H1)
		for b := range p.Blocks(u) {
			c.by[p.Blocked(u, b)]++
		}
	}
	for u, page := range c.page {
		if c.heavy(u) {
			c.own = append(c.own, int32(u))
		} else {
			c.keys[page] += c.held(u)
		}
	}
	return c
}

// held returns how many keys user u has.
func (c *crowd) held(u int) int { return int(c.people.Counts[u]) + int(c.by[u]) }

// heavy reports whether u has a dedicated page.
func (c *crowd) heavy(u int) bool { return c.held(u) > maxSharedKeys }

// memory computes the memory in bytes that Redis needs for all pages of that filter.
func (c *crowd) memory(filter string) (float64, error) {
	total := 0.0
	add := func(part string, page uint32, keys int) error {
		bytes, _, err := sizing.PageBytes("fav:{"+filter+"/"+strconv.FormatUint(uint64(page), 10)+"}"+part, keys, keyRate())
		total += bytes
		return err
	}
	for page, keys := range c.keys {
		if keys == 0 {
			continue
		}
		if err := add("", uint32(page), keys); err != nil {
			return 0, err
		}
	}
	for i, u := range c.own {
		if err := add(":"+ownPart(i), c.page[u], c.held(int(u))); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// viewersPages returns the shared pages of the viewers.
func (c *crowd) viewersPages() map[uint32]bool {
	pages := make(map[uint32]bool)
	for _, u := range c.people.Viewers {
		if !c.heavy(u) {
			pages[c.page[u]] = true
		}
	}
	return pages
}

// put stores pages: the wanted shared pages, or, if wanted is nil, all shared and dedicated pages.
func (c *crowd) put(ctx context.Context, store favfilter.Store, wanted map[uint32]bool) error {
	viewers := make(map[int]bool)
	for _, u := range c.people.Viewers {
		viewers[u] = true
	}
	members, blocked := c.members(wanted)
	for first := 0; first < len(members); first += peekSize {
		some := members[first:min(len(members), first+peekSize)]
		ids := make([]favfilter.PageID, len(some))
		for i := range ids {
			ids[i].Number = uint32(first + i)
		}
		statuses, err := store.Peek(ctx, ids)
		if err != nil {
			return err
		}
		for i, users := range some {
			if len(users)+len(blocked[first+i]) == 0 {
				continue
			}
			keys := c.appendKeys(nil, users)
			keys = c.appendBlocked(keys, blocked[first+i])
			if err := c.replace(ctx, store, ids[i], statuses[i], keys); err != nil {
				return err
			}
		}
	}
	if wanted != nil {
		return nil
	}
	for i, u := range c.own { // the ledger makes the viewers' pages; the others get no keys of users who block them
		if viewers[int(u)] {
			continue
		}
		id := favfilter.PageID{Number: c.page[u], Part: ownPart(i)}
		if err := c.replace(ctx, store, id, favfilter.Status{Missing: true}, c.appendKeys(nil, []int32{u})); err != nil {
			return err
		}
	}
	return nil
}

func ownPart(i int) string { return "p" + strconv.Itoa(firstOwn+i) }

// blockedUser is one key of a blocked user.
type blockedUser struct{ user, by int32 }

// members returns by shared page the users on it, and which of them are blocked by others. Both are
// empty for pages that are not wanted.
func (c *crowd) members(wanted map[uint32]bool) (users [][]int32, blocked [][]blockedUser) {
	users, blocked = make([][]int32, c.identity.Pages), make([][]blockedUser, c.identity.Pages)
	makes := func(u int) bool { return (wanted == nil || wanted[c.page[u]]) && !c.heavy(u) }
	for u, page := range c.page {
		if makes(u) {
			users[page] = append(users[page], int32(u))
		}
		for b := range c.people.Blocks(u) {
			if v := c.people.Blocked(u, b); makes(v) {
				blocked[c.page[v]] = append(blocked[c.page[v]], blockedUser{int32(v), int32(u)})
			}
		}
	}
	return users, blocked
}

// appendKeys appends the keys of the users' own activities.
func (c *crowd) appendKeys(keys []favfilter.Hash, users []int32) []favfilter.Hash {
	var buf []byte
	seed := c.identity.Seed
	for _, u := range users {
		blocks := c.people.Blocks(int(u))
		block, hide := c.start(bench.Block, int(u), "_U"), c.start(bench.Hide, int(u), "_P")
		for n := range int(c.people.Counts[u]) {
			start := hide
			if b := n / bench.BlockEvery; n%bench.BlockEvery == bench.BlockEvery-1 && b < blocks {
				start, buf = block, bench.AppendUser(buf[:0], c.people.Blocked(int(u), b))
			} else {
				buf = bench.AppendHidden(buf[:0], int(u), n)
			}
			keys = append(keys, start.With(favfilter.HashKeyBytes(seed, buf)))
		}
	}
	return keys
}

// start returns the hash of the start of a user's keys of a kind.
func (c *crowd) start(kind string, user int, target string) favfilter.Start {
	start := append(bench.AppendUser([]byte(kind+":U"), user), target...)
	return favfilter.HashStartBytes(c.identity.Seed, start)
}

// appendBlocked appends the keys of the users whom others block.
func (c *crowd) appendBlocked(keys []favfilter.Hash, blocked []blockedUser) []favfilter.Hash {
	var buf []byte
	for _, b := range blocked {
		buf = bench.AppendUser(buf[:0], int(b.by))
		keys = append(keys, c.start(bench.BlockedBy, int(b.user), "_U").With(favfilter.HashKeyBytes(c.identity.Seed, buf)))
	}
	return keys
}

// replace replaces the stored page by one with those keys.
func (c *crowd) replace(
	ctx context.Context, store favfilter.Store, id favfilter.PageID, there favfilter.Status, keys []favfilter.Hash,
) error {
	if there.Err != nil || there.Damage != nil {
		return fmt.Errorf("page %v: %w", id, firstOf(there.Err, there.Damage))
	}
	h, seen := there.Header, favfilter.Version("")
	if there.Missing {
		h = favfilter.Header{Identity: c.identity, Number: id.Number}
	} else {
		seen = h.Version()
	}
	page, err := pageOf(favfilter.Header{
		Identity: h.Identity, Number: h.Number, Left: h.Left, Sequence: h.Sequence, Build: h.Build + 1,
	}, keys)
	if err != nil {
		return err
	}
	switch placed, err := store.Replace(ctx, favfilter.Replacement{ID: id, Page: page, Seen: seen}); {
	case err != nil:
		return err
	case !placed:
		return fmt.Errorf("page %v was changed while it was made", id)
	}
	return nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// pageOf makes a page with the keys and with header h. It chooses the geometry as a Recorder would.
func pageOf(h favfilter.Header, keys []favfilter.Hash) (*favfilter.Page, error) {
	for n := len(keys); ; n = n*9/8 + 1 {
		var err error
		if h.Shape, err = favfilter.ShapeFor(int(float64(n)*headroom)+1, keyRate()); err != nil {
			return nil, err
		}
		page, err := favfilter.NewPage(h)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			page.Insert(key)
		}
		if full := page.Header(); full.Set <= full.Shape.Limit(keyRate()) {
			return page, nil
		}
	}
}
