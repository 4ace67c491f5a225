package feed_test

import (
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// judge compares the answers to one request with the model.
type judge struct {
	*life

	req   feed.Request
	drops []activity.Kind
	keeps []activity.Kind
	now   time.Time
}

// look calls each for every key that p is looked up with, in the order of the reasons, until each
// returns false. list is empty for the viewer's keys.
func (j judge) look(p feed.Post, each func(k activity.Kind, list, id string, s state) bool) {
	for _, list := range append([]string{""}, j.req.Lists...) {
		for _, k := range j.drops {
			for _, id := range ids(k, j.req.Viewer, p) {
				if s := j.stateOf(k, list, id); !each(k, list, id, s) {
					return
				}
			}
		}
	}
}

// stateOf is what the model says. Exact feeds know at once what is over of what the ledger keeps.
func (j judge) stateOf(k activity.Kind, list, id string) state {
	s := absent
	switch {
	case list == "":
		s = j.model.state(k, j.req.Viewer, id, j.now)
	case k.InLedger():
		s = j.model.span(k.Name, list, id, j.now)
	}
	if k.InLedger() && j.req.Exact {
		j.exact++
		if k.Reverse != "" {
			j.exact++
		}
		if s == either {
			return absent
		}
	}
	return s
}

// overruled reports whether p is not dropped for a kind with id, because the viewer keeps it. The
// ledger knows at once what is over.
func (j judge) overruled(p feed.Post, drop activity.Kind, list, id string) bool {
	name := drop.Name
	if list != "" {
		name = activity.Lists
	}
	for _, k := range j.keeps {
		if !slices.Contains(k.Over, name) {
			continue
		}
		for _, of := range ids(k, j.req.Viewer, p) {
			applies := k.Target != drop.Target || k.Target == activity.Post || of == id
			if applies && j.model.span(k.Name, j.req.Viewer, of, j.now) == live {
				return true
			}
		}
	}
	return false
}

func (j judge) kept(p feed.Post, annotated func(kind int) bool) {
	j.Helper()
	clean := true
	j.look(p, func(k activity.Kind, list, id string, s state) bool {
		if s == live && j.overruled(p, k, list, id) {
			j.spared++
			s = either // it is not clean
		}
		if s == live {
			j.Fatalf("%s sees %+v in spite of %s with %s (%+v)", j.req.Viewer, p, k.Name, id, j.req)
		}
		clean = clean && s == absent
		return true
	})
	j.countClean(p, clean, false)
	for i, name := range j.req.Annotate {
		k, _ := j.Kinds().Named(name)
		best := absent
		for _, id := range ids(k, j.req.Viewer, p) {
			best = max(best, j.stateOf(k, "", id))
		}
		switch {
		case best == live && !annotated(i):
			j.Fatalf("the %s of %+v by %s is missed", name, p, j.req.Viewer)
		case best == absent && annotated(i) && j.req.Exact:
			j.Fatalf("an exact feed invents that %s does %s %+v", j.req.Viewer, name, p)
		}
	}
}

// dropped checks that nothing stands before the reason given, and that it is one.
func (j judge) dropped(p feed.Post, d feed.Dropped) {
	j.Helper()
	clean, found := true, false
	j.look(p, func(k activity.Kind, list, id string, s state) bool {
		clean = clean && s == absent
		want := feed.Dropped{Kind: k.Name, List: list}
		switch k.Target {
		case activity.User:
			want.Actor = id
		default:
			if k.Target != activity.Post || id != p.ID {
				want.Target = id
			}
		}
		over := j.overruled(p, k, list, id)
		if d.Kind == want.Kind && d.Actor == want.Actor && d.Target == want.Target && d.List == want.List {
			found = true
			if over {
				j.Fatalf("%+v is dropped for %+v, although the viewer keeps it", p, d)
			}
			if j.req.Exact && k.InLedger() && s != live {
				j.Fatalf("an exact feed drops %+v for %+v, which is not so", p, d)
			}
			if d.Unconfirmed != (j.req.Exact && !k.InLedger()) {
				j.Fatalf("%+v", d)
			}
			if s == either {
				j.late++
			}
			return false
		}
		if s == live && !over {
			j.Fatalf("%+v is dropped for %+v before %s with %s", p, d, k.Name, id)
		}
		return true
	})
	if !found {
		j.Fatalf("%+v is dropped for %+v, which was not asked for", p, d)
	}
	j.countClean(p, clean, true)
}

// countClean counts false positives of strangers. Each stranger was never asked for before, so
// their false positives are independent. Exact feeds confirm most of them.
func (j judge) countClean(p feed.Post, clean, dropped bool) {
	if !clean || j.req.Exact || len(j.req.Lists) > 0 || !strings.HasPrefix(p.ID, "s") || slices.Contains(j.model.of(j.req.Viewer).named[activity.Post], p.ID) {
		return
	}
	j.clean++
	if dropped {
		j.wrong++
	}
}
