package feed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// looks is how often a viewer's page is looked at again where the ledger says otherwise than the feed did, and
	// the page was changed meanwhile: after firstPause, and each time after twice that.
	looks      = 7
	firstPause = time.Millisecond
	// clockSlack is by how much two processes may differ in what time the ledger has.
	clockSlack = time.Second
	// writeTime is how long a write may take at most from the time that it is recorded with until it is acknowledged,
	// the staleness bound left out: 10 s each in the queue, in the ledger, and on its way to the pages.
	writeTime = 30 * time.Second
)

// comparison compares one feed with the ledger.
//
// What a page has to hold is told by its sequence: the ledger raises it with every change of the page. If the ledger still has
// the page at the sequence at which the feed read it, what the ledger has is exactly what the page had to report, whatever any
// clock says. If it has moved on, the viewer's page is looked at again, as a feed does, until one look meets no
// change: whatever is wrong with a page is wrong then, too. A page that stays behind the ledger for longer than the staleness
// bound is told by the sequences as well. What the second look cannot find any more was being recorded or
// undone while the feed was answered, or has been mended since; that, and nothing else, is judged by the time of
// the record.
type comparison struct {
	sample   *sample
	recorder *activity.Recorder

	misses                          []missed
	falsePositives, late, undecided uint64

	open []opened
}

// missed is something that a feed does not report.
type missed struct {
	kind   activity.Kind
	target string
	since  time.Time
	at     activity.PageAt // what was read
	ledger uint64          // where the ledger has that page
}

// opened is a question whose answer does not agree with the ledger, but was not decided at once.
type opened struct {
	question

	found  finding // at the first look
	ledger uint64  // where the ledger had the page then
}

// finding is what the ledger has of a question.
type finding struct {
	any    bool           // a row, ended or not
	item   *activity.Item // one that has not ended when the feed had its answer; nil: none
	target string         // of item
}

// verdict is what a look says of a question.
type verdict uint8

const (
	agrees verdict = iota
	unsure
	miss
	falsePositive
)

// run compares. After an error what was found before it stands.
func (c *comparison) run(ctx context.Context) error {
	s := c.sample
	truth, rows, err := c.ask(ctx, s.found.at, s.answers)
	if err != nil {
		return err
	}
	for _, q := range s.answers {
		found := c.find(rows, &q, s.found.end)
		if v := judge(q.reported, found, s.found, truth.Same); v != unsure {
			c.count(v, &q, found, s.found, truth.Sequence)
			continue
		}
		c.open = append(c.open, opened{q, found, truth.Sequence})
	}
	for n := range looks {
		if err := c.lookAgain(ctx, firstPause<<n, false); err != nil {
			return err
		}
	}
	err = c.lookAgain(ctx, c.recorder.StalenessBound()+clockSlack, true)
	c.undecided += uint64(len(c.open))
	return err
}

// lookAgain looks at the viewer's page after a pause, as a feed does, for what is open. waited says that the staleness
// bound has passed then since the first look.
func (c *comparison) lookAgain(ctx context.Context, pause time.Duration, waited bool) error {
	if len(c.open) == 0 {
		return nil
	}
	rest := time.NewTimer(pause)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	now := sighting{start: c.recorder.Now()}
	view, err := c.recorder.View(limited, c.sample.viewer, c.sample.kinds, nil)
	if err != nil {
		return fmt.Errorf("look at a page again: %w", err)
	}
	now.at, now.end = view.At(), c.recorder.Now()
	again := make([]question, len(c.open))
	for i, o := range c.open {
		again[i] = o.question
		again[i].reported = c.reports(view, &again[i])
	}
	truth, rows, err := c.ask(ctx, now.at, again)
	if err != nil {
		return err
	}
	open := c.open
	c.open = nil
	for i, q := range again {
		o := &open[i]
		found := c.find(rows, &q, now.end)
		v := judge(q.reported, found, now, truth.Same)
		if v == unsure && waited && now.at.Page == c.sample.found.at.Page && o.stale(&q, found, now) {
			v = miss
		}
		switch v {
		case agrees:
			c.past(o)
		case unsure:
			c.open = append(c.open, *o)
		default:
			c.count(v, &q, found, now, truth.Sequence)
		}
	}
	return nil
}

// judge says what a look that reported something, or not, comes to beside what the ledger has. same says that the ledger
// has what it had then.
func judge(reported bool, found finding, at sighting, same bool) verdict {
	switch {
	case reported && !found.any:
		if same {
			return falsePositive
		}
		return unsure
	case !reported && found.item != nil:
		// One that had ended may be recorded anew without a change of the page; the feed was right then.
		if same && !found.item.Since.After(at.start) {
			return miss
		}
		return unsure
	default:
		return agrees
	}
}

// stale reports whether a look that began when the staleness bound had passed since the first one used the same page as it
// was before the first, and so lacks what has been in the ledger all the time.
func (o *opened) stale(q *question, found finding, now sighting) bool {
	return !q.reported && found.item != nil && o.found.item != nil && *found.item == *o.found.item &&
		now.at.Sequence < o.ledger
}

// past counts what a later look finds well: it has come or gone, or was mended, since the feed.
func (c *comparison) past(o *opened) {
	from := c.sample.found.start
	switch {
	case o.reported || o.found.item == nil:
		c.undecided++ // undone since, or a false positive that is gone
	case o.found.item.Since.After(from.Add(clockSlack)):
		// Recorded when the feed had begun.
	case o.found.item.Since.Before(from.Add(-writeTime - c.recorder.StalenessBound())):
		c.undecided++ // recorded just now with a time long past, or mended
	default:
		c.late++
	}
}

// count counts what was decided.
func (c *comparison) count(v verdict, q *question, found finding, at sighting, ledger uint64) {
	switch v {
	case falsePositive:
		c.falsePositives++
	case miss:
		c.misses = append(c.misses, missed{c.sample.kinds[q.kind], found.target, found.item.Since, at.at, ledger})
	default:
	}
}

// ask asks the ledger about all that the questions are about, each once.
func (c *comparison) ask(ctx context.Context, at activity.PageAt, about []question) (activity.Truth, map[claim]activity.Evidence, error) {
	rows := make(map[claim]activity.Evidence)
	var claims []activity.Claim
	var of []claim
	for i := range about {
		q := &about[i]
		k := c.sample.kinds[q.kind]
		for id := range c.sample.ids(q) {
			key := claim{q.kind, id}
			if _, known := rows[key]; known {
				continue
			}
			rows[key] = activity.Evidence{}
			claims, of = append(claims, activity.Claim{Kind: k, Target: id}), append(of, key)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	truth, err := c.recorder.Truth(ctx, c.sample.viewer, at, claims)
	if err != nil {
		return activity.Truth{}, nil, fmt.Errorf("ask the ledger about %d activities: %w", len(claims), err)
	}
	for i, e := range truth.Evidence {
		rows[of[i]] = e
	}
	return truth, rows, nil
}

// find looks for what rows have of a question.
func (c *comparison) find(rows map[claim]activity.Evidence, q *question, end time.Time) (f finding) {
	for id := range c.sample.ids(q) {
		e := rows[claim{q.kind, id}]
		for _, item := range []*activity.Item{e.Direct, e.Reverse} {
			if item == nil {
				continue
			}
			f.any = true
			if lasts := item.Until.IsZero() || item.Until.After(end.Add(clockSlack)); lasts && f.item == nil {
				f.item, f.target = item, id
			}
		}
	}
	return f
}

// reports says whether the view has what a question is about.
func (c *comparison) reports(view *activity.View, q *question) bool {
	ids := slices.Collect(c.sample.ids(q))
	return slices.ContainsFunc(ids, func(id string) bool { return view.Check(q.kind, id) != activity.None })
}
