package feed_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// state is whether a user has an activity.
type state uint8

const (
	absent state = iota
	either       // it is over, and may not be forgotten yet
	live
)

// span is when an activity of a kind that the ledger keeps was recorded, and when it ends.
type span struct{ since, until time.Time }

func (s span) over(now time.Time) bool { return !s.until.IsZero() && !s.until.After(now) }

// account is what one user has done, by kind and target. Activities that have ended stay in it
// until the user undoes them.
type account struct {
	kept     map[string]map[string]span
	windows  map[string]map[string]time.Time // when it was recorded last
	named    map[activity.Facet][]string     // ids named so far, the latest last
	distinct map[string]bool
}

// model is what a Recorder has to say, in plain maps.
type model struct {
	kinds    *activity.Kinds
	accounts map[string]*account
}

func newModel(kinds *activity.Kinds) *model {
	return &model{kinds: kinds, accounts: make(map[string]*account)}
}

func (m *model) of(user string) *account {
	a := m.accounts[user]
	if a == nil {
		a = &account{
			kept: make(map[string]map[string]span), windows: make(map[string]map[string]time.Time), distinct: make(map[string]bool),
			named: make(map[activity.Facet][]string),
		}
		for _, k := range m.kinds.All() {
			a.kept[k.Name], a.windows[k.Name] = make(map[string]span), make(map[string]time.Time)
		}
		m.accounts[user] = a
	}
	return a
}

// record makes the change and says what is to become of it. Of kinds with a window nobody can tell.
func (m *model) record(a activity.Activity, now time.Time) activity.Outcome {
	k, _ := m.kinds.Named(a.Kind)
	account := m.of(a.User)
	account.remember(k, a.Target)
	if !k.InLedger() {
		account.windows[k.Name][a.Target] = now
		return activity.Changed
	}
	spans := account.kept[k.Name]
	was, found := spans[a.Target]
	there := found && !was.over(now)
	switch {
	case a.Remove:
		delete(spans, a.Target)
		if !there {
			return activity.Unchanged
		}
	case there:
		if was.until.Equal(a.Until) {
			return activity.Unchanged
		}
		spans[a.Target] = span{was.since, a.Until}
	case k.Limit > 0 && m.count(a.User, k.Name, now) >= int(k.Limit):
		return activity.OverLimit
	default:
		since := a.Since
		if since.IsZero() {
			since = now
		}
		spans[a.Target] = span{since, a.Until}
	}
	return activity.Changed
}

// remember notes what the user has named, so that it comes up again.
func (a *account) remember(k activity.Kind, target string) {
	if key := string(k.Target) + ":" + target; !a.distinct[key] {
		a.distinct[key] = true
		a.named[k.Target] = append(a.named[k.Target], target)
	}
}

// saw records that the user was shown posts.
func (m *model) saw(user string, posts []string, now time.Time) {
	k, _ := m.kinds.Named("seen")
	for _, id := range posts {
		m.of(user).remember(k, id)
		m.of(user).windows[k.Name][id] = now
	}
}

func (m *model) count(user, kind string, now time.Time) (n int) {
	for _, s := range m.of(user).kept[kind] {
		if !s.over(now) {
			n++
		}
	}
	return n
}

// state is how a kind of the viewer's stands with id, in both directions of one that has two.
func (m *model) state(k activity.Kind, viewer, id string, now time.Time) state {
	if k.InLedger() {
		s := m.span(k.Name, viewer, id, now)
		if k.Reverse != "" {
			s = max(s, m.span(k.Name, id, viewer, now))
		}
		return s
	}
	last, found := m.of(viewer).windows[k.Name][id]
	switch age := now.Sub(last); {
	case !found:
		return absent
	case age < k.Window:
		return live
	case age < k.Window+k.Window/time.Duration(cmp.Or(k.Parts, 6)):
		return either
	default:
		return absent
	}
}

func (m *model) span(kind, user, target string, now time.Time) state {
	a := m.accounts[user]
	if a == nil {
		return absent
	}
	switch s, found := a.kept[kind][target]; {
	case !found:
		return absent
	case s.over(now):
		return either
	default:
		return live
	}
}

func (m *model) preview(user, kind string, targets []string, now time.Time) activity.Preview {
	k, _ := m.kinds.Named(kind)
	p := activity.Preview{Limit: k.Limit}
	for i, target := range targets {
		switch {
		case slices.Contains(targets[:i], target):
		case m.span(kind, user, target, now) == live:
			p.Present++
		default:
			p.New++
		}
	}
	p.Total = m.count(user, kind, now) + p.New
	p.Over = k.Limit > 0 && p.New > 0 && p.Total > int(k.Limit)
	return p
}

func (m *model) counts(user string, now time.Time) map[string]int {
	counts := make(map[string]int)
	for _, k := range m.kinds.All() {
		if k.InLedger() {
			counts[k.Name] = m.count(user, k.Name, now)
		}
	}
	return counts
}

func (m *model) list(user, kind string, now time.Time) []activity.Item {
	items := []activity.Item{}
	for target, s := range m.of(user).kept[kind] {
		if !s.over(now) {
			items = append(items, activity.Item{Target: target, Since: s.since, Until: s.until})
		}
	}
	slices.SortFunc(items, func(a, b activity.Item) int {
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Target, b.Target))
	})
	return items
}

// forgetOver takes out what is over, and returns it as activities to be undone.
func (m *model) forgetOver(now time.Time) (over []activity.Activity) {
	for user, a := range m.accounts {
		for kind, spans := range a.kept {
			for target, s := range spans {
				if s.over(now) {
					over = append(over, activity.Activity{User: user, Kind: kind, Target: target, Remove: true})
					delete(spans, target)
				}
			}
		}
	}
	return over
}

// ids are what a kind is looked for with on a post.
func ids(k activity.Kind, viewer string, p feed.Post) (ids []string) {
	switch k.Target {
	case activity.Post:
		return append([]string{p.ID}, p.Related...)
	case activity.User:
		roles := append([]string{"author"}, p.Roles...)
		for n, id := range append([]string{p.Author}, p.Actors...) {
			all := len(k.Roles) == 0 || n >= len(roles) || roles[n] == ""
			if p.Author == viewer && k.Effect == activity.Drop && n < len(roles) && slices.Contains([]string{"mention", "quote"}, roles[n]) {
				continue // the viewer named them
			}
			if id != viewer && (all || slices.Contains(k.Roles, roles[n])) {
				ids = append(ids, id)
			}
		}
		return ids
	default:
		return p.Facets[k.Target]
	}
}
