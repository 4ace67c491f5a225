package integration

import (
	"fmt"
	"net/http"
	"strings"
)

// chaosKinds is the file of the kinds besides the built-in ones. The load does not use "ally".
const chaosKinds = `{"facets": {"phrase": {"text": true}},
	"kinds": [{"name": "domain-mute", "target": "domain", "effect": "drop", "fanout": true},
	{"name": "word-mute", "target": "phrase", "effect": "drop", "fanout": true},
	{"name": "repost-mute", "target": "user", "effect": "drop", "roles": ["repost"]},
	{"name": "ally", "plural": "allies", "target": "user", "effect": "drop"},
	{"name": "follow", "target": "user", "effect": "keep", "over": ["domain-mute"], "fanout": true}]}`

// mutedForever has an activity of a kind, which therefore cannot change.
const mutedForever = "muter"

// changeKinds restarts an instance with files in which a kind differs. With a kind that has
// activities the instance must not start. With the other kind it must, and from then on the other
// instances must refuse activities of this kind, because they would record one row and not two.
func changeKinds(w *world) (func() error, error) {
	i := w.instances[w.victim]
	restart := func(file string) error {
		if err := w.writeKinds(i.index, file); err != nil {
			return err
		}
		return i.start()
	}
	ally := func(g *target, method string) reply {
		return g.send(w.t.Context(), method, "/v1/users/ally1/allies/ally2", nil)
	}
	i.kill()
	if restart(strings.Replace(chaosKinds, `"domain", "effect": "drop", "fanout": true`, `"domain", "effect": "drop"`, 1)) == nil {
		w.tally.violatedf("kinds", "instance %d starts with a change of a kind that has activities", i.index)
		i.kill()
	}
	if err := restart(strings.Replace(chaosKinds, `"plural": "allies",`, `"plural": "allies", "two_way": true,`, 1)); err != nil {
		return nil, err
	}
	for _, other := range w.instances {
		if other != i {
			if r := ally(other.target, http.MethodPut); r.err != nil || r.status != http.StatusServiceUnavailable {
				w.tally.violatedf("kinds", "instance %d answers an activity of an outdated kind with %d %s, %v", other.index, r.status, r.body, r.err)
			}
		}
	}
	var answer feedAnswer
	feed := feedRequest{Viewer: "ally2", Posts: []post{{ID: "p", Author: "ally1"}}}
	if r := ally(i.target, http.MethodPut); r.err != nil || r.status != http.StatusOK {
		w.tally.violatedf("kinds", "instance %d answers an activity of its changed kind with %d %s, %v", i.index, r.status, r.body, r.err)
	} else if err := i.send(w.t.Context(), http.MethodPost, "/v1/feed/filter", feed).ok(&answer); err != nil || len(answer.Dropped) != 1 {
		w.tally.violatedf("kinds", "the feed of the other side at instance %d: %+v, %v", i.index, answer, err)
	}
	return func() error {
		if r := ally(i.target, http.MethodDelete); r.err != nil || r.status != http.StatusOK {
			return fmt.Errorf("undo at instance %d: %d %s, %w", i.index, r.status, r.body, r.err)
		}
		i.kill()
		return restart(chaosKinds)
	}, nil
}
