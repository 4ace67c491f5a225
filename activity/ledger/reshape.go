package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// ErrChanged is wrapped by the error of a Reshape of homes that have changed since it was planned. Nothing was done.
var ErrChanged = errors.New("changed since it was planned")

// TooSoonError says that homes were reshaped so shortly before that some process may not have heard of it.
type TooSoonError struct {
	Left time.Duration // until they can be reshaped again
}

func (e *TooSoonError) Error() string {
	return fmt.Sprintf("homes were reshaped less than %v ago: they can be again in %v", reshapePause, e.Left)
}

// reshapePause is how long homes stay as they are after a reshape: a minute, for which a process may not have heard of
// it, and what the transaction may take from the moment that it takes for its own to that when it can be seen.
const reshapePause = time.Minute + 3*callTimeout

// Cut is into how many pages the users are to be cut, and how far that is.
type Cut struct {
	Pages uint32 // asked for last; at first the Pages of the Identity
	Done  int    // homes that are so cut
	Homes int    // all
}

// Cut returns what SetCut asked for last, and how far the reshapes are.
func (l *Ledger) Cut(ctx context.Context) (c Cut, err error) {
	err = l.use(func() error {
		c, err = l.db.cut(ctx)
		return err
	})
	if err != nil {
		return Cut{}, fmt.Errorf("ledger: read into how many pages it is cut: %w", interrupted(ctx, err))
	}
	return c, nil
}

// SetCut asks for another number of pages that users share, a power of two from 1 to 2^24, and from a 4096th to
// 4096 times as many as the ledger was made with. It is for reshapes to work towards; nothing else changes. For errors see Record.
func (l *Ledger) SetCut(ctx context.Context, pages uint32) error {
	if !l.id.isCut(pages) {
		return fmt.Errorf("ledger: set the number of pages: %d is not a power of two from 1 to %d, "+
			"or too far from the %d that the ledger was made with: %d times at most", pages, maxPages, l.id.Pages, MaxJoined)
	}
	if err := l.use(func() error { return l.db.setCut(ctx, pages) }); err != nil {
		return fmt.Errorf("ledger: set the number of pages to %d: %w", pages, err)
	}
	return nil
}

// ReshapePlan is what a Reshape of some homes is to do.
type ReshapePlan struct {
	Pages   uint32   // into which all users are to be cut: Cut.Pages
	Homes   []uint32 // that have to be reshaped together, ascending and without a gap
	Done    bool     // they are so cut; the rest is empty
	Sources []uint32 // pages that users leave, ascending
	Targets []Target // pages that users come to, in order of hash

	// Expect may be given sequences of Sources, and of Targets that are not made. The Reshape then fails with ErrChanged unless they stand
	// there: so images that were made from snapshots of all Sources are what the Targets hold after it that it makes.
	Expect map[uint32]uint64

	before, after []cell
	cut           map[uint32]uint32 // of those of the homes that were ever reshaped
}

// Target is a page that users come to, and the hashes of all who are on it then, but for those with a page of
// their own.
type Target struct {
	Page            uint32
	Least, Greatest uint64
	Made            bool // by this reshape: it is at sequence 1 then, with no moves
}

// shape is how a span is placed, and when that was last changed.
type shape struct {
	rows     []cell            // of the table ranges
	cut      map[uint32]uint32 // of homes that were ever reshaped
	reshaped time.Time         // the last of them; zero: none
	now      time.Time
}

// PlanReshape plans the reshape of the home, and of those that have to be reshaped with it, to what SetCut asked for last. New
// pages are given numbers that no page ever had or will have, whether the plan is carried out or not.
//
// For a minute and some seconds after a reshape, homes cannot be planned again, so that everybody hears of each: a [TooSoonError]. Not
// so in SQLite: there all who might not have heard of it are in this process. For other errors see Record.
func (l *Ledger) PlanReshape(ctx context.Context, home uint32) (p *ReshapePlan, err error) {
	if err = l.checkShared(home); err == nil {
		err = l.use(func() error {
			p, err = l.plan(ctx, home)
			return interrupted(ctx, err)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: plan a reshape of home %d: %w", home, err)
	}
	return p, nil
}

// plan reads one thing after another. What changes meanwhile, Reshape notices.
func (l *Ledger) plan(ctx context.Context, home uint32) (*ReshapePlan, error) {
	asked, err := l.db.cut(ctx)
	if err != nil {
		return nil, err
	}
	one, err := l.db.shape(ctx, span{home, home})
	if err != nil {
		return nil, err
	}
	cut := l.id.Pages
	if own, found := one.cut[home]; found {
		cut = own
	}
	s := l.id.spanOf(home, cut, asked.Pages)
	p := &ReshapePlan{Pages: asked.Pages, Homes: s.homes()}
	if cut == asked.Pages {
		p.Done = true
		return p, nil
	}
	all, err := l.db.shape(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := all.checkPause(l.Shared()); err != nil {
		return nil, err
	}
	p.cut, p.before = all.cut, l.id.cells(s, all.rows)
	return p, l.decide(ctx, s, p)
}

// checkPause refuses another reshape within the pause. Where there is one process, that knows of each at once.
func (s shape) checkPause(shared bool) error {
	if left := s.reshaped.Add(reshapePause).Sub(s.now); shared && left > 0 {
		return &TooSoonError{Left: left}
	}
	return nil
}

// decide works out what the plan comes to.
func (l *Ledger) decide(ctx context.Context, s span, p *ReshapePlan) error {
	targets := l.id.targets(s, p.before, p.Pages)
	made := 0
	for _, t := range targets {
		if t.made {
			made++
		}
	}
	if made > 0 {
		number, err := l.db.reserve(ctx, made)
		if err != nil {
			return fmt.Errorf("reserve %d numbers: %w", made, err)
		}
		for i := range targets {
			if targets[i].made {
				targets[i].page = number
				number++
			}
		}
	}
	p.after = reshaped(p.before, targets)
	leave, come, _ := l.id.moved(p.after)
	p.Sources = leave
	for _, t := range targets {
		if _, comes := slices.BinarySearch(come, t.page); comes {
			p.Targets = append(p.Targets, Target{t.page, t.least, t.greatest, t.made})
		}
	}
	return nil
}

// Reshape moves the users of some homes to other pages, as planned, in one transaction: so that there are as many pages in all
// as SetCut asked for, once all homes were reshaped. Rows stay as they are. Users with a page of their own stay there.
// Every page that users leave or come to is raised, and so is the home page of every home whose users are moved. All of them
// count a move, but for pages that are new: that is how others notice who have not heard of it.
//
// The Receipt's Pages are those that were raised; the rest of it is empty. If anything that the plan rests on has
// changed, the number that SetCut asked for included, the error wraps ErrChanged. That is so of a plan that was carried out, too: then
// the homes' next plan is Done, or too soon. For other errors see Record.
func (l *Ledger) Reshape(ctx context.Context, p *ReshapePlan) (receipt Receipt, err error) {
	if p.Done {
		return Receipt{}, nil
	}
	touched := p.touched(l.id)
	for page := range p.Expect {
		if _, found := slices.BinarySearch(touched, page); !found {
			return Receipt{}, fmt.Errorf("ledger: reshape: page %d is expected somewhere, but no user leaves it, or comes to it as it is", page)
		}
	}
	err = l.use(func() error {
		receipt.Pages, err = l.db.reshape(ctx, p)
		return err
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("ledger: reshape homes %d to %d to %d pages: %w", p.Homes[0], p.Homes[len(p.Homes)-1], p.Pages, err)
	}
	sortPages(receipt.Pages)
	return receipt, nil
}

// span are the homes of the plan.
func (p *ReshapePlan) span() span { return span{p.Homes[0], p.Homes[len(p.Homes)-1]} }

// checkAsked compares what is asked for, in a transaction that nobody changes it in, with what the plan is for.
func (p *ReshapePlan) checkAsked(asked string) error {
	if asked != strconv.FormatUint(uint64(p.Pages), 10) {
		return fmt.Errorf("%s pages are asked for, not %d: %w", asked, p.Pages, ErrChanged)
	}
	return nil
}

// check compares how things stand, in a transaction that has the homes to itself, with what the plan rests on: where nobody has reshaped
// them since, the pause is over as it was then.
func (p *ReshapePlan) check(id Identity, s shape) error {
	if !slices.Equal(id.cells(p.span(), s.rows), p.before) || !maps.Equal(s.cut, p.cut) {
		return fmt.Errorf("homes: %w", ErrChanged)
	}
	return nil
}

// raised returns the pages that the plan raises, those that are there already and those that are made, as it leaves them.
func (p *ReshapePlan) raised(id Identity, standing map[uint32]footing) (there, made []PageChange, err error) {
	for _, page := range p.touched(id) {
		s := standing[page]
		if sequence, expected := p.Expect[page]; expected && s.Sequence != sequence {
			return nil, nil, fmt.Errorf("page %d at sequence %d, not %d: %w", page, s.Sequence, sequence, ErrChanged)
		}
		there = append(there, PageChange{Page: page, Own: page >= OwnPages, Owner: s.slot, Sequence: s.Sequence + 1})
	}
	for _, t := range p.Targets {
		if t.Made {
			made = append(made, PageChange{Page: t.Page, Own: true, Owner: t.Least, Sequence: 1})
		}
	}
	return there, made, nil
}

// touchedNumbers is touched, for an array.
func (p *ReshapePlan) touchedNumbers(id Identity) (pages []int64) {
	for _, page := range p.touched(id) {
		pages = append(pages, int64(page))
	}
	return pages
}

// touched are the pages that are there already of those that the plan raises, in order.
func (p *ReshapePlan) touched(id Identity) []uint32 {
	made := make(map[uint32]bool)
	for _, t := range p.Targets {
		made[t.Page] = t.Made
	}
	leave, come, pages := id.moved(p.after) // the homes are home pages
	pages = slices.Concat(pages, leave, come)
	slices.Sort(pages)
	return slices.DeleteFunc(slices.Compact(pages), func(page uint32) bool { return made[page] })
}

// parseCut makes a Cut of what is asked for, of how many homes were ever reshaped, and how many of them are so cut.
func (id Identity) parseCut(asked string, reshaped, done int) (Cut, error) {
	c := Cut{Pages: id.Pages, Done: done, Homes: int(id.Pages)}
	if asked != "" {
		pages, err := strconv.ParseUint(asked, 10, 32)
		if err != nil || !id.isCut(uint32(pages)) {
			return Cut{}, fmt.Errorf("damaged: cut into %q pages", asked)
		}
		c.Pages = uint32(pages)
	}
	if c.Pages == id.Pages {
		c.Done += c.Homes - reshaped
	}
	return c, nil
}

// numbersAfter are the n numbers for pages after the greatest one.
func numbersAfter(greatest uint32, n int) (first, last uint32, err error) {
	first = max(OwnPages, greatest+1)
	if greatest == math.MaxUint32 || uint64(first)+uint64(n)-1 > math.MaxUint32 {
		return 0, 0, errNoNumbers
	}
	return first, first + uint32(n) - 1, nil
}
