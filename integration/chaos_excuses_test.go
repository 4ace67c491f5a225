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

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

const (
	// refusedBecause is the sentence of docs/RELIABILITY.md that lets feeds of a page be refused.
	refusedBecause = "Feeds of few pages may get 503: of one that a heavy user has just left, or that lacks a write which PostgreSQL took as it went down."
	// excusedFeeds counts the feeds that may have been refused for that reason.
	excusedFeeds = "feeds refused for their page"
	// looksEach is the time between two looks at the ledger.
	looksEach = 100 * time.Millisecond
)

var (
	// movedAway is in the log line of a feed that an instance refuses, because somebody left the
	// page when the instance could no longer learn who.
	movedAway = regexp.MustCompile(`somebody left page (\d+), or it was replaced, since the last poll, (\S+) ago`)
	// isBehind is in the log line of a feed that an instance refuses, because the page lacks a
	// change, and the ledger cannot be read.
	isBehind = regexp.MustCompile(`page (\d+) is behind at`)
)

// excuses knows when users left pages, when layouts were replaced, and which writes were not
// answered. It judges the feeds that were refused for their page: of another page, no feed may be.
// It is safe for concurrent use.
type excuses struct {
	mu       sync.Mutex
	looked   time.Time                  // when the ledger was last read
	seed     uint64                     // of the users' hashes
	left     map[uint32]uint64          // by page: the sequence with which a user last left it
	leaving  map[uint32]bool            // layouts that are being left, by their number of pages
	owners   map[uint32]map[uint64]bool // by dedicated page: the hashes of users who have had it
	when     map[uint32][]span          // by page: times in one of which somebody left it
	replaced map[uint32][]span          // by layout: times in which its pages were closed
	open     []openWrite                // not answered, or with 503
	refused  map[uint32][]refusedFor    // feeds to judge, by page
}

// span is some time between two moments.
type span struct{ from, until time.Time }

// openWrite is a write to pages of the users that was not acknowledged, but may be in the ledger.
type openWrite struct {
	span

	users []string
}

// refusedFor is a feed that was refused because of what happened to a page in a span. text
// describes it.
type refusedFor struct {
	span

	behind bool // the page lacks a change: a write that was open in the span, or a move
	text   string
}

func newExcuses() *excuses {
	return &excuses{
		left: make(map[uint32]uint64), leaving: make(map[uint32]bool), owners: make(map[uint32]map[uint64]bool),
		when: make(map[uint32][]span), replaced: make(map[uint32][]span), refused: make(map[uint32][]refusedFor),
	}
}

// watch looks at the ledger until ctx ends.
func (m *excuses) watch(ctx context.Context, url string) {
	for wait(ctx, looksEach) == nil {
		_ = m.look(ctx, url) // the server may be killed or stopped: then nobody leaves a page
	}
}

// look reads from the ledger who has left which page since the last look.
func (m *excuses) look(ctx context.Context, url string) error {
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
	owners, err := byPage[int64](ctx, conn, `SELECT page, hash FROM owners`)
	if err != nil {
		return err
	}
	seed, err := readSeed(ctx, conn)
	if err != nil {
		return err
	}
	m.noteOwners(owners, seed)
	m.note(left, leaving)
	return nil
}

// readSeed reads the seed of the users' hashes.
func readSeed(ctx context.Context, conn *pgx.Conn) (uint64, error) {
	var text string
	if err := conn.QueryRow(ctx, `SELECT value FROM meta WHERE name = 'seed'`).Scan(&text); err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 10, 64)
}

// noteOwners notes the users of dedicated pages, whose hashes the ledger has with the top bit
// flipped.
func (m *excuses) noteOwners(owners map[uint32]int64, seed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seed = seed
	for page, hash := range owners {
		if m.owners[page] == nil {
			m.owners[page] = make(map[uint64]bool)
		}
		m.owners[page][uint64(hash)^1<<63] = true
	}
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
func (m *excuses) note(left map[uint32]uint64, leaving map[uint32]bool) {
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

// noteOpen notes a write that was not acknowledged, to pages of the users.
func (m *excuses) noteOpen(r reply, users ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = append(m.open, openWrite{span{r.sent, r.done}, users})
}

// noteRefused notes a refused feed, to be judged later. lost is the time in which the instance lost
// the ledger. It reports whether the log line says that the page is the reason.
func (m *excuses) noteRefused(logged string, lost span, r reply, text string) bool {
	var number string
	f := refusedFor{text: text}
	if found := movedAway.FindStringSubmatch(logged); found != nil {
		age, err := time.ParseDuration(found[2])
		if err != nil {
			return false
		}
		number, f.span = found[1], span{r.sent.Add(-age), r.done}
	} else if found := isBehind.FindStringSubmatch(logged); found != nil {
		number, f.span, f.behind = found[1], lost, true
	}
	page, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused[uint32(page)] = append(m.refused[uint32(page)], f)
	return true
}

// unexplained returns the refused feeds of pages that nobody had left, that were not replaced, and
// to which no write was open.
func (m *excuses) unexplained() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for page, feeds := range m.refused {
		moved := m.when[page]
		for layout, replaced := range m.replaced {
			if page >= layout && page < 2*layout || page < layout && layout == chaosPages {
				moved = append(slices.Clip(moved), replaced...)
			}
		}
		var lacks []span
		for _, w := range m.open {
			if slices.ContainsFunc(w.users, func(user string) bool { return m.isOn(user, page) }) {
				lacks = append(lacks, w.span)
			}
		}
		for _, f := range feeds {
			if overlapsAny(moved, f.span) || f.behind && overlapsAny(lacks, f.span) {
				continue
			}
			what := "nobody left it"
			if f.behind {
				what += ", and no write to it was open,"
			}
			all = append(all, fmt.Sprintf("page %d: %s between %s and %s: %s",
				page, what, f.from.Format(clock), f.until.Format(clock), f.text))
		}
	}
	return all
}

// isOn reports whether rows of the user may be on the page.
func (m *excuses) isOn(user string, page uint32) bool {
	hash, id := pages.UserHash(m.seed, user), ledger.Identity{Pages: chaosPages}
	if layout := id.LayoutOf(page); layout != 0 {
		return id.PageIn(layout, hash) == page
	}
	return m.owners[page][hash]
}

func overlapsAny(times []span, s span) bool {
	for _, t := range times {
		if t.until.After(s.from) && t.from.Before(s.until) {
			return true
		}
	}
	return false
}

// checkExcuses records a violation for each feed that was refused for a page to which nothing
// happened.
func (l *chaosLoad) checkExcuses() {
	for _, wrong := range l.excuses.unexplained() {
		l.tally.violatedf("refused", "%s", wrong)
	}
}
