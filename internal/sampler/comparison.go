package sampler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
)

const (
	// looks is how often a viewer's page is read again if feed and ledger disagree and the page has
	// changed meanwhile. The first read is after firstPause, each further one after twice the
	// pause.
	looks      = 7
	firstPause = time.Millisecond
	// clockSlack is by how much two processes' readings of the ledger's clock may differ.
	clockSlack = time.Second
	// writeTime is the maximum time from a write's recorded time to its acknowledgment, without the
	// staleness bound. It is 10 s each in the queue, in the ledger, and in flight to the pages.
	writeTime = 30 * time.Second
)

// errTooLarge says that a comparison would take too much memory.
var errTooLarge = errors.New("the viewer has too many phrases")

// comparison compares one feed with the ledger.
//
// A page's sequence tells what the page must hold, because the ledger raises it with every change
// of the page. If the ledger still has the sequence that the feed read, then the
// ledger has exactly what the page had to report, regardless of clocks. Otherwise the comparison
// reads the viewer's page again, as a feed does, until the page does not change during a read: a
// faulty page is still faulty then. Sequences also reveal a page that is stale for longer than the
// staleness bound.
//
// A disagreement that later reads no longer find has one of two causes: the activity was being
// recorded or undone during the feed, or the page was repaired since. Only these are judged by the
// time of the record.
type comparison struct {
	sample   *sample
	recorder *activity.Recorder

	misses                          []missed
	falsePositives, late, undecided uint64

	open []opened
}

// missed is something that a feed should have reported.
type missed struct {
	kind   activity.Kind
	target string
	since  time.Time
	at     pages.PageAt // the page that was read
	ledger uint64       // the ledger's sequence of that page
}

// opened is a question on which feed and ledger disagree, and which is not decided yet.
type opened struct {
	question

	found  finding // from the first read
	ledger uint64  // the ledger's sequence of the page then
}

// finding is what the ledger has on a question.
type finding struct {
	any bool // there is a row, ended or not
	// item had not ended when the feed was answered; nil: none.
	item   *activity.Item
	target string // the item's
}

// verdict is the result of one read for a question.
type verdict uint8

const (
	agrees verdict = iota
	unsure
	miss
	falsePositive
)

// run runs the comparison. After an error, what was found before remains valid.
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

// lookAgain waits for pause, reads the viewer's page again as a feed does, and judges the open
// questions. waited reports that the staleness bound has passed since the first read.
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
	now := observation{start: c.recorder.Now()}
	view, err := c.recorder.View(limited, c.sample.viewer, c.sample.kinds)
	if err != nil {
		return fmt.Errorf("look at a page again: %w", err)
	}
	now.at, now.end = view.At(), c.recorder.Now()
	again := make([]question, len(c.open))
	for i, o := range c.open {
		again[i] = o.question
		again[i].reported = c.reports(view, &o.question)
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

// judge compares what a read reported with what the ledger has. same reports that the page did not
// change in between.
func judge(reported bool, found finding, at observation, same bool) verdict {
	switch {
	case reported && !found.any:
		if same {
			return falsePositive
		}
		return unsure
	case !reported && found.item != nil:
		// An ended activity may be recorded again without a change of the page. The feed was right
		// then.
		if same && !found.item.Since.After(at.start) {
			return miss
		}
		return unsure
	default:
		return agrees
	}
}

// stale reports whether a read used a page older than the first read's, and so lacks a row that the
// ledger has had all the time. The read must have begun a staleness bound after the first.
func (o *opened) stale(q *question, found finding, now observation) bool {
	return !q.reported && found.item != nil && o.found.item != nil && *found.item == *o.found.item &&
		now.at.Sequence < o.ledger
}

// past counts a question on which feed and ledger agree by now: the activity came or went, or the
// page was repaired.
func (c *comparison) past(o *opened) {
	from := c.sample.found.start
	switch {
	case o.reported || o.found.item == nil:
		c.undecided++ // undone since, or a false positive that has gone
	case o.found.item.Since.After(from.Add(clockSlack)):
		// Recorded when the feed had begun.
	case o.found.item.Since.Before(from.Add(-writeTime - c.recorder.StalenessBound())):
		c.undecided++ // recorded just now with a time long past, or repaired
	default:
		c.late++
	}
}

// count counts a decided question.
func (c *comparison) count(v verdict, q *question, found finding, at observation, ledger uint64) {
	switch v {
	case falsePositive:
		c.falsePositives++
	case miss:
		m := missed{c.sample.kinds[q.kind], found.target, found.item.Since, at.at, ledger}
		c.misses = append(c.misses, m)
	default:
	}
}

// ask asks the ledger about every id of the questions, each once.
func (c *comparison) ask(
	ctx context.Context, at pages.PageAt, about []question,
) (activity.Truth, map[row]activity.Evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	if err := c.readPhrases(ctx, about); err != nil {
		return activity.Truth{}, nil, err
	}
	rows := make(map[row]activity.Evidence)
	var claims []activity.Claim
	var of []row
	for i := range about {
		q := &about[i]
		k := &c.sample.kinds[q.kind]
		for id := range c.sample.claimed(q) {
			key := row{q.kind, id}
			if _, known := rows[key]; known {
				continue
			}
			rows[key] = activity.Evidence{}
			claims = append(claims, activity.Claim{Kind: k, Target: id, Sides: k.Sides()})
			of = append(of, key)
		}
	}
	truth, err := c.recorder.Truth(ctx, c.sample.viewer, at, claims)
	if err != nil {
		err = fmt.Errorf("ask the ledger about %d activities: %w", len(claims), err)
		return activity.Truth{}, nil, err
	}
	for i, e := range truth.Evidence {
		rows[of[i]] = e
	}
	return truth, rows, nil
}

// readPhrases looks for the viewer's phrases in the texts that questions are about. It reads all of
// a kind from the ledger: a page that has lost one does not lead to it.
func (c *comparison) readPhrases(ctx context.Context, about []question) error {
	sets := make(map[int]*activity.PhraseSet)
	for i := range about {
		q := &about[i]
		if !q.inText {
			continue
		}
		set := sets[q.kind]
		if set == nil {
			k := &c.sample.kinds[q.kind]
			all, err := c.recorder.Phrases(ctx, c.sample.viewer, k, maxSampledPhrases+1)
			if err != nil {
				return fmt.Errorf("read the viewer's phrases: %w", err)
			}
			if len(all) > maxSampledPhrases {
				return errTooLarge
			}
			set = activity.NewPhraseSet(all)
			sets[q.kind] = set
		}
		q.phrases = set.In(q.post.Text)
	}
	return nil
}

// find returns what rows have on a question.
func (c *comparison) find(rows map[row]activity.Evidence, q *question, end time.Time) (f finding) {
	for id := range c.sample.claimed(q) {
		e := rows[row{q.kind, id}]
		for _, item := range []*activity.Item{e.Direct, e.Reverse} {
			if item == nil {
				continue
			}
			f.any = true
			lasts := item.Until.IsZero() || item.Until.After(end.Add(clockSlack))
			if lasts && f.item == nil {
				f.item, f.target = item, id
			}
		}
	}
	return f
}

// reports returns whether the view reports what a question is about.
func (c *comparison) reports(view *activity.View, q *question) bool {
	for id := range c.sample.ids(q) {
		if view.Check(q.kind, id) != activity.None {
			return true
		}
	}
	if !q.inText {
		return false
	}
	asserted := func(phrase string) bool { return !c.sample.denied[row{q.kind, phrase}] }
	return slices.ContainsFunc(view.InText(q.kind, q.post.Text), asserted)
}
