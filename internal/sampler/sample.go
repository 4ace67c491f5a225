package sampler

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/feed"
)

// sample is what a feed answered about the viewer, without its lists. It shares no memory with
// request and answer.
type sample struct {
	viewer  string
	posts   []feed.Post     // posts that were checked
	kinds   []activity.Kind // kinds that the ledger keeps
	answers []question
	// denied has what the page reported, and what counted for no post: because the ledger did not
	// have it, or because a kind that keeps overruled it.
	denied map[row]bool
	found  observation
	ctx    context.Context //nolint:containedctx // its values are for the log
	attrs  []slog.Attr
}

// row is a statement that the viewer has a kind of a sample with an id.
type row struct {
	kind int
	id   string
}

// observation is when and in which page answers were found.
type observation struct {
	start, end time.Time // by the ledger's clock
	at         pages.PageAt
}

// question is one statement of an answer: whether the viewer has a kind with an id.
type question struct {
	kind     int
	post     *feed.Post
	target   string // id it was found with; "": any on the post
	reported bool
	inText   bool     // the kind looks for phrases in the text of the post
	phrases  []string // those that the ledger had when it was asked last, and the text has
}

// ids yields the ids that the question is about, except those that the ledger was asked about
// already. An activity with one of these may have ended and been recorded again since, which
// changes no sequence. Phrases in a text are none of them.
func (s *sample) ids(q *question) iter.Seq[string] {
	return func(yield func(id string) bool) {
		if q.target != "" {
			yield(q.target)
			return
		}
		k := &s.kinds[q.kind]
		for id := range q.post.Targets(k, s.viewer) {
			if k.InText() {
				id = k.Fold.ID(id) // ids of other kinds have that form
			}
			if id != "" && !s.denied[row{q.kind, id}] && !yield(id) {
				return
			}
		}
	}
}

// claimed yields the ids of the question, and the phrases that text and ledger have.
func (s *sample) claimed(q *question) iter.Seq[string] {
	return func(yield func(id string) bool) {
		for id := range s.ids(q) {
			if !yield(id) {
				return
			}
		}
		for _, phrase := range q.phrases {
			if !s.denied[row{q.kind, phrase}] && !yield(phrase) {
				return
			}
		}
	}
}

// sample copies the part of the feed that is compared. It returns nil if that is too much.
func (f *Sampled) sample(ctx context.Context, attrs []slog.Attr) *sample {
	req, answer := &f.feed.Request, &f.feed.Answer
	checked := req.Posts
	if answer.Next > 0 {
		checked = checked[:answer.Next]
	}
	posts, viewer := clonePosts(checked, req.Viewer)
	if posts == nil {
		return nil
	}
	s := &sample{
		viewer: viewer,
		posts:  posts,
		found:  observation{f.start, f.end, f.feed.At()},
		ctx:    ctx,
		attrs:  attrs,
		denied: make(map[row]bool),
	}
	for _, k := range f.feed.Kinds() {
		names := func(d activity.Degraded) bool { return d.Kind == k.Name }
		unread := k.InText() && slices.ContainsFunc(answer.Degraded, names)
		if k.InLedger() && !unread {
			s.kinds = append(s.kinds, k)
		}
	}
	if slices.ContainsFunc(s.kinds, activity.Kind.InText) && !cloneTexts(posts, checked) {
		s.kinds = slices.DeleteFunc(s.kinds, activity.Kind.InText)
	}
	for kind, id := range f.feed.Denied() {
		if r, ok := s.row(kind, id); ok {
			s.denied[r] = true
		}
	}
	for _, o := range f.feed.Overruled() { // no further question is about their ids
		if r, ok := s.row(o.Kind.Name, o.ID); ok && o.List == "" {
			post := &s.posts[o.Candidate]
			q := question{kind: r.kind, post: post, target: r.id, reported: true}
			s.answers = append(s.answers, q)
			s.denied[r] = true
		}
	}
	dropped := answer.Dropped
	for i := range posts {
		if len(dropped) > 0 && dropped[0].At == i {
			s.askDropped(&posts[i], dropped[0])
			dropped = dropped[1:]
			continue
		}
		for n := range s.kinds { // all kinds that may drop or annotate the post
			mark := slices.Index(req.Annotate, s.kinds[n].Name)
			reported := mark >= 0 && contains(answer.Annotated[mark], i)
			inText := posts[i].LooksInText(&s.kinds[n], viewer)
			q := question{kind: n, post: &posts[i], reported: reported, inText: inText}
			s.answers = append(s.answers, q)
		}
	}
	return s
}

func contains(ascending []int, n int) bool {
	_, found := slices.BinarySearch(ascending, n)
	return found
}

// row returns the row of a kind and an id. It is of no kind of the sample if ok is false.
func (s *sample) row(kind, id string) (r row, ok bool) {
	n := slices.IndexFunc(s.kinds, func(k activity.Kind) bool { return k.Name == kind })
	return row{n, strings.Clone(id)}, n >= 0
}

// askDropped adds a question about the reason why a post was dropped.
func (s *sample) askDropped(p *feed.Post, d feed.Dropped) {
	r, ok := s.row(d.Kind, cmp.Or(d.Actor, d.Target, p.ID))
	if ok && d.List == "" { // otherwise nothing can tell
		s.answers = append(s.answers, question{kind: r.kind, post: p, target: r.id, reported: true})
	}
}

// clonePosts copies posts and viewer into new memory, all ids into one string. It returns nil if
// they are too many.
func clonePosts(posts []feed.Post, viewer string) (cloned []feed.Post, of string) {
	ids, bytes := 0, len(viewer)
	for i := range posts {
		each(&posts[i], func(id string) { ids, bytes = ids+1, bytes+len(id) })
	}
	if ids > maxSampledIDs || bytes > maxSampledBytes {
		return nil, ""
	}
	var text strings.Builder
	text.Grow(bytes)
	clone := func(id string) string {
		from := text.Len()
		text.WriteString(id)
		return text.String()[from:]
	}
	cloned = make([]feed.Post, len(posts))
	all := make([]string, 0, ids) // ids in lists
	list := func(ids []string) []string {
		from := len(all)
		for _, id := range ids {
			all = append(all, clone(id))
		}
		return all[from:len(all):len(all)]
	}
	for i, p := range posts {
		to := feed.Post{
			ID:      clone(p.ID),
			Author:  clone(p.Author),
			Actors:  list(p.Actors),
			Roles:   list(p.Roles),
			Related: list(p.Related),
		}
		if len(p.Facets) > 0 {
			to.Facets = make(map[activity.Facet][]string, len(p.Facets))
		}
		for facet, ids := range p.Facets {
			to.Facets[activity.Facet(strings.Clone(string(facet)))] = list(ids)
		}
		cloned[i] = to
	}
	return cloned, clone(viewer)
}

// cloneTexts copies the texts of posts into new memory. It returns false if they are too long.
func cloneTexts(to, of []feed.Post) bool {
	bytes := 0
	for i := range of {
		bytes += len(of[i].Text)
	}
	if bytes > maxSampledBytes {
		return false
	}
	for i := range of {
		to[i].Text = strings.Clone(of[i].Text)
	}
	return true
}

// each calls do with every id and role on the post, that of the author even if it is empty.
func each(p *feed.Post, do func(id string)) {
	do(p.ID)
	do(p.Author)
	for _, list := range [...][]string{p.Actors, p.Roles, p.Related} {
		for _, id := range list {
			do(id)
		}
	}
	for _, ids := range p.Facets {
		for _, id := range ids {
			do(id)
		}
	}
}
