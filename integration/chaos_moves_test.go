package integration

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// movedBecause is the sentence of docs/RELIABILITY.md that lets a feed be refused after a move.
	movedBecause = "Feeds of few pages may get 503: of one that a heavy user has just left, or that lacks a change;"
	// refusedAfterMove counts the feeds that may have been refused for that reason.
	refusedAfterMove = "feeds refused after a move"
	// movesEach is the time between two looks at the ledger.
	movesEach = 100 * time.Millisecond
	// unread is how old the last poll of an instance may be when it loses the ledger.
	unread = 3 * stalenessBound
)

// movedAway is in the log line of a feed that an instance refuses, because somebody left the page
// when the instance could no longer learn who.
var movedAway = regexp.MustCompile(`somebody left page (\d+), or it was replaced`)

// moves knows when users left pages, and when layouts were replaced. It judges the feeds that were
// refused for that reason: of another page, no feed may be. It is safe for concurrent use.
type moves struct {
	mu       sync.Mutex
	looked   time.Time               // when the ledger was last read
	left     map[uint32]uint64       // by page: the sequence with which a user last left it
	leaving  map[uint32]bool         // layouts that are being left, by their number of pages
	when     map[uint32][]span       // by page: times in one of which somebody left it
	replaced map[uint32][]span       // by layout: times in which its pages were closed
	refused  map[uint32][]refusedFor // feeds to judge, by page
}

// span is some time between two moments.
type span struct{ from, until time.Time }

// refusedFor is a feed that was refused because somebody left a page after a time, and before the
// answer. text describes it.
type refusedFor struct {
	span

	text string
}

func newMoves() *moves {
	return &moves{
		left: make(map[uint32]uint64), leaving: make(map[uint32]bool), when: make(map[uint32][]span),
		replaced: make(map[uint32][]span), refused: make(map[uint32][]refusedFor),
	}
}

// watch looks at the ledger until ctx ends.
func (m *moves) watch(ctx context.Context, url string) {
	for wait(ctx, movesEach) == nil {
		_ = m.look(ctx, url) // the server may be killed or stopped: then nobody leaves a page
	}
}

// look reads from the ledger who has left which page since the last look.
func (m *moves) look(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	left, err := byPage[uint64](ctx, conn, `SELECT page, left_at FROM pages WHERE left_at > 0`)
	if err != nil {
		return err
	}
	leaving, err := byPage[bool](ctx, conn, `SELECT pages, state = 'leaving' FROM layouts WHERE state = 'leaving'`)
	if err != nil {
		return err
	}
	m.note(left, leaving)
	return nil
}

// byPage reads rows of a number and a value.
func byPage[V any](ctx context.Context, conn *pgx.Conn, sql string) (map[uint32]V, error) {
	all := make(map[uint32]V)
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	var page int64
	var value V
	_, err = pgx.ForEachRow(rows, []any{&page, &value}, func() error {
		all[uint32(page)] = value
		return nil
	})
	return all, err
}

// note notes what the ledger has now.
func (m *moves) note(left map[uint32]uint64, leaving map[uint32]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := span{m.looked, time.Now()}
	m.looked = since.until
	for page, at := range left {
		if at != m.left[page] {
			m.when[page] = append(m.when[page], since)
		}
	}
	for page := range m.left {
		if _, has := left[page]; !has { // the page is gone, and its user with it
			m.when[page] = append(m.when[page], since)
		}
	}
	for layout := range m.leaving {
		m.replaced[layout] = append(m.replaced[layout], since)
	}
	for layout := range leaving {
		m.replaced[layout] = append(m.replaced[layout], since)
	}
	m.left, m.leaving = left, leaving
}

// noteRefused notes a refused feed, to be judged later. It reports whether the log line says that
// somebody left a page.
func (m *moves) noteRefused(logged string, lost, answered time.Time, text string) bool {
	found := movedAway.FindStringSubmatch(logged)
	if found == nil {
		return false
	}
	page, err := strconv.ParseUint(found[1], 10, 32)
	if err != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused[uint32(page)] = append(m.refused[uint32(page)], refusedFor{span{lost.Add(-unread), answered}, text})
	return true
}

// unexplained returns the refused feeds of pages that nobody had left, and that were not replaced.
func (m *moves) unexplained() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for page, feeds := range m.refused {
		times := m.when[page]
		for layout, replaced := range m.replaced {
			if page >= layout && page < 2*layout || page < layout && layout == chaosPages {
				times = append(slices.Clip(times), replaced...)
			}
		}
		for _, f := range feeds {
			if !overlapsAny(times, f.span) {
				all = append(all, fmt.Sprintf("nobody left page %d between %s and %s: %s",
					page, f.from.Format(clock), f.until.Format(clock), f.text))
			}
		}
	}
	return all
}

func overlapsAny(times []span, s span) bool {
	for _, t := range times {
		if t.until.After(s.from) && t.from.Before(s.until) {
			return true
		}
	}
	return false
}

// checkMoves records a violation for each feed that was refused because somebody left a page which
// nobody left.
func (l *chaosLoad) checkMoves() {
	for _, wrong := range l.moves.unexplained() {
		l.tally.violatedf("refused", "%s", wrong)
	}
}
