package feed

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// sample is what a feed answered about the viewer, without its lists. It shares no memory with
// request and answer.
type sample struct {
	viewer  string
	posts   []Post          // posts that were checked
	kinds   []activity.Kind // kinds that the ledger keeps
	answers []question
	// denied has what the page reported, and what counted for no post: because the ledger did not
	// have it, or because a kind that keeps overruled it.
	denied map[claim]bool
	found  sighting
	ctx    context.Context //nolint:containedctx // its values are for the log
	attrs  []slog.Attr
}

// sighting is when and in which page answers were found.
type sighting struct {
	start, end time.Time // by the ledger's clock
	at         pages.PageAt
}

// question is one statement of an answer: whether the viewer has a kind with an id.
type question struct {
	kind     int
	post     *Post
	target   string // id it was found with; "": any on the post
	reported bool
}

// ids yields the ids that the question is about, except those that the ledger was asked about
// already. An activity with one of these may have ended and been recorded again since, which
// changes no sequence.
func (s *sample) ids(q *question) func(yield func(id string) bool) {
	return func(yield func(id string) bool) {
		if q.target != "" {
			yield(q.target)
			return
		}
		for _, id := range q.post.targets(&s.kinds[q.kind], s.viewer) {
			if !s.denied[claim{0, q.kind, id}] && !yield(id) {
				return
			}
		}
	}
}

// sample copies the part of the feed that is compared. It returns nil if that is too much.
func (f *Sampled) sample(ctx context.Context, attrs []slog.Attr) *sample {
	posts := f.req.Posts
	if f.answer.Next > 0 {
		posts = posts[:f.answer.Next]
	}
	posts, viewer := clonePosts(posts, f.req.Viewer)
	if posts == nil {
		return nil
	}
	s := &sample{
		viewer: viewer, posts: posts, found: sighting{f.start, f.end, f.at}, ctx: ctx, attrs: attrs,
		denied: make(map[claim]bool),
	}
	var marks []int // for each kind, its index in Answer.Annotated; negative: it drops
	for i, k := range f.checks.all[:f.checks.marks] {
		if k.InLedger() {
			s.kinds, marks = append(s.kinds, k), append(marks, i-f.checks.drops)
			s.deny(f.claims, i)
			s.askOverruled(f.overruled, i)
		}
	}
	dropped := f.answer.Dropped
	for i := range posts {
		if len(dropped) > 0 && dropped[0].At == i {
			s.askDropped(&posts[i], dropped[0])
			dropped = dropped[1:]
			continue
		}
		for n := range s.kinds { // all kinds that may drop or annotate the post
			reported := marks[n] >= 0 && contains(f.answer.Annotated[marks[n]], i)
			s.answers = append(s.answers, question{kind: n, post: &posts[i], reported: reported})
		}
	}
	return s
}

func contains(ascending []int, n int) bool {
	_, found := slices.BinarySearch(ascending, n)
	return found
}

// deny notes the denied claims of the i-th kind of the request, which is the sample's last so far.
func (s *sample) deny(claims map[claim]confirmation, i int) {
	for c, said := range claims {
		if c.v == 0 && c.i == i && said == denied {
			s.denied[claim{0, len(s.kinds) - 1, strings.Clone(c.id)}] = true
		}
	}
}

// askOverruled adds questions about the claims of the i-th kind of the request, which is the
// sample's last so far, for which posts were not dropped. No further question is about their ids.
func (s *sample) askOverruled(all []overruled, i int) {
	last := len(s.kinds) - 1
	for _, o := range all {
		if o.v > 0 || o.i != i || o.at >= len(s.posts) {
			continue
		}
		id := strings.Clone(o.id)
		s.answers = append(s.answers, question{kind: last, post: &s.posts[o.at], target: id, reported: true})
		s.denied[claim{0, last, id}] = true
	}
}

// askDropped adds a question about the reason why a post was dropped.
func (s *sample) askDropped(p *Post, d Dropped) {
	i := slices.IndexFunc(s.kinds, func(k activity.Kind) bool { return k.Name == d.Kind })
	if i < 0 || d.List != "" {
		return // nothing can tell
	}
	q := question{kind: i, post: p, reported: true}
	for _, id := range p.targets(&s.kinds[i], s.viewer) {
		if actor, target := p.named(s.kinds[i].Target, id); actor == d.Actor && target == d.Target {
			q.target = id // not that of d, whose memory is the request's
		}
	}
	s.answers = append(s.answers, q)
}
