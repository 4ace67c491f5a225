package ledgertest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// key is a row without its time.
type key struct {
	hash                uint64
	owner, kind, target string
}

func keyOf(r ledger.Row) key { return key{r.Hash, r.Owner, r.Kind, r.Target} }

func (k key) row(since time.Time) ledger.Row {
	return ledger.Row{Hash: k.hash, Owner: k.owner, Kind: k.kind, Target: k.target, Since: since}
}

// model is a ledger as one would write it without a database: a map.
type model struct {
	id        ledger.Identity
	rows      map[key]time.Time
	sequences map[uint32]uint64
}

func newModel(id ledger.Identity) *model {
	return &model{id, map[key]time.Time{}, map[uint32]uint64{}}
}

// record makes the changes one by one and then compares before and after.
func (m *model) record(changes []ledger.Change) ledger.Receipt {
	before := maps.Clone(m.rows)
	touched := map[key]bool{}
	var receipt ledger.Receipt
	for _, c := range changes {
		changed := false
		for _, r := range c.Rows {
			k := keyOf(r)
			touched[k] = true
			_, there := m.rows[k]
			switch {
			case there && c.Remove:
				delete(m.rows, k)
			case !there && !c.Remove:
				m.rows[k] = r.Since.Truncate(time.Microsecond).UTC()
			default:
				continue
			}
			changed = true
		}
		receipt.Changed = append(receipt.Changed, changed)
	}
	receipt.Pages = m.pages(before, touched)
	return receipt
}

// pages says what happened to the pages of the keys touched, and raises their
// sequences.
func (m *model) pages(before map[key]time.Time, touched map[key]bool) []ledger.PageChange {
	changes := map[uint32]*ledger.PageChange{}
	for k := range touched {
		page := m.id.Page(k.hash)
		if changes[page] == nil {
			changes[page] = &ledger.PageChange{Page: page}
		}
		old, was := before[k]
		since, is := m.rows[k]
		if is && !was {
			changes[page].Added = append(changes[page].Added, k.row(since))
		}
		if was && !is {
			changes[page].Removed = append(changes[page].Removed, k.row(old))
		}
	}
	var pages []ledger.PageChange
	for _, page := range slices.Sorted(maps.Keys(changes)) {
		c := changes[page]
		if len(c.Added)+len(c.Removed) > 0 {
			m.sequences[page]++
		}
		c.Sequence = m.sequences[page]
		slices.SortFunc(c.Added, compareRows)
		slices.SortFunc(c.Removed, compareRows)
		pages = append(pages, *c)
	}
	return pages
}

func (m *model) page(page uint32) []ledger.Row {
	var rows []ledger.Row
	for k, since := range m.rows {
		if m.id.Page(k.hash) == page {
			rows = append(rows, k.row(since))
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

func (m *model) list(q ledger.ListQuery) []ledger.Row {
	var rows []ledger.Row
	for k, since := range m.rows {
		if k.hash == q.Hash && k.owner == q.Owner && k.kind == q.Kind && follows(k.target, since, q.Before) {
			rows = append(rows, k.row(since))
		}
	}
	slices.SortFunc(rows, func(a, b ledger.Row) int {
		if c := b.Since.Compare(a.Since); c != 0 {
			return c
		}
		return strings.Compare(a.Target, b.Target)
	})
	return rows[:min(q.Limit, len(rows))]
}

func follows(target string, since time.Time, p *ledger.Position) bool {
	return p == nil || since.Before(p.Since) || since.Equal(p.Since) && target > p.Target
}

// check compares the whole ledger with the model. It must have few pages.
func (m *model) check(t tester, l *ledger.Ledger) {
	t.Helper()
	for page := range m.id.Pages {
		checkPage(t, l, page, m.page(page), m.sequences[page])
	}
	sequences := map[uint32]uint64{}
	err := l.Sequences(context.Background(), func(page uint32, sequence uint64) error {
		sequences[page] = sequence
		return nil
	})
	if err != nil || !maps.Equal(sequences, m.sequences) {
		t.Errorf("sequences %v, %v, want %v", sequences, err, m.sequences)
	}
}
