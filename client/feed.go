package client

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// Post is a candidate for a feed.
type Post struct {
	ID     string
	Author string // required if a checked kind targets users

	// Actors are up to 100 other users on the post, such as those who reposted it, or whom it
	// quotes or mentions.
	Actors []string
	// Roles are what the actors did, such as "repost": Roles[i] is the role of Actors[i]. "", or
	// fewer roles than actors: the role is unknown, so every kind looks at the actor.
	Roles []string

	// Related are up to 16 other ids of the same content, such as that of the post that this one
	// reposts. RecordSeen records the first of them instead of ID.
	Related []string

	// Facets are other ids on the post, by the facet that kinds of the service name as their target,
	// such as {"domain": {"x.example"}}. They look at the first 64 ids of each.
	Facets map[string][]string

	// Text is the post's text, in UTF-8. Kinds of the service with Text look for phrases in its
	// first 5,000 bytes.
	Text string
}

// FilterRequest asks which of Posts a viewer sees.
type FilterRequest struct {
	Viewer string

	// Posts are up to 10,000 candidates in the order of the feed. They have up to 20,000 ids: of
	// posts, related posts, authors, actors and facets, including repeated ones. Texts do not count.
	Posts []Post

	// Kinds are checked in this order. Nil: every kind that drops or keeps; empty: none.
	Kinds []string
	// Annotate names the kinds to annotate kept posts with.
	Annotate []string

	// Lists are up to 20 shared lists: owners whose activities drop posts as if they were the
	// viewer's, by kinds that the ledger keeps.
	Lists []string

	// Limit ends the feed after that many kept posts, 1 to 10,000. 0: no limit.
	Limit      int
	RecordSeen bool // record the kept posts as seen
	Exact      bool // let the ledger confirm what the filter reports

	// After is a position of the app's database that the service follows, such as "0/16B3748": the
	// feed has all that it had committed up to there. If the service has not got there in time, the
	// error has the code "not_yet". "": what was recorded before the call.
	After string
	// Within is a time before the call, of 1 ms to 24 h. The feed has all that the app's database
	// had committed until then. Otherwise the error has the code "not_yet". 0: no time. It needs a
	// service of this version.
	Within time.Duration

	// Answer is what the feed lists: AnswerKept, the default, or AnswerDropped. AnswerDropped needs
	// a service of this version.
	Answer string
}

// What a Feed lists.
const (
	// AnswerKept lists the kept and the dropped posts.
	AnswerKept = "kept"
	// AnswerDropped lists only the dropped posts, by index, and leaves Feed.Posts nil. All other
	// posts before Next are kept.
	AnswerDropped = "dropped"
)

// Feed lists the posts that a viewer sees, and the dropped posts.
type Feed struct {
	Posts   []Kept    `json:"posts"` // in the order of the request
	Dropped []Dropped `json:"dropped"`

	// Annotated is set with AnswerDropped. For each kind of FilterRequest.Annotate, by its name, it
	// has the indexes of the kept posts with an activity of that kind, ascending.
	Annotated map[string][]int `json:"annotated"`

	// Next is set with a limit: the index of the first candidate that was not checked. Request the
	// rest with Posts[Next:]. 0: all candidates were checked.
	Next int `json:"next"`

	// Degraded names kinds that could not be checked: see the package documentation.
	Degraded []Degraded `json:"degraded"`
}

// Kept is a post that the viewer sees.
type Kept struct {
	ID    string          `json:"id"`
	Marks map[string]bool `json:",embed"` // by name of the kinds of FilterRequest.Annotate
}

// Dropped is a post that the viewer does not see, with the first reason.
type Dropped struct {
	ID    string `json:"id"`
	Index int    `json:"index"` // with AnswerDropped: the post's index in the request
	Kind  string `json:"kind"`
	Actor string `json:"actor"` // the user, for kinds that target users
	// Target is the id, for kinds that do not target users, unless it is the post's own.
	Target string `json:"target"`
	List   string `json:"list"` // the list of the request that drops it; "": the viewer does
	// Unconfirmed is set in exact feeds if the kind has a window, which nothing can confirm.
	Unconfirmed bool `json:"unconfirmed"`
}

// Degraded names a kind that could not be checked, and the reason.
type Degraded struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// Filter returns which of the posts a viewer sees.
func (c *Client) Filter(ctx context.Context, req FilterRequest) (Feed, error) {
	var feed Feed
	asked := req
	if c.o.JSON && (req.Answer == "" || req.Answer == AnswerKept) {
		asked.Answer = AnswerDropped // a shorter answer; the request has the rest
	}
	err := c.do(ctx, &call{
		method: http.MethodPost, path: []string{"v1", "feed", "filter"},
		encode: asked.json, into: &feed, once: req.RecordSeen, hedged: !req.RecordSeen,
		sound: func() bool { return feed.answers(&asked) }, procedure: filterProcedure(&req, &feed),
	})
	if err == nil && asked.Answer != req.Answer {
		feed.keep(&req)
	}
	return feed, err
}

// answers reports whether every checked candidate is kept or dropped.
func (f *Feed) answers(req *FilterRequest) bool {
	if req.Answer == AnswerDropped {
		return f.byIndex(req)
	}
	return f.Posts != nil && f.Degraded != nil && len(f.Posts)+len(f.Dropped) == f.looked(req)
}

// looked returns the number of posts that were checked; -1 if Next is none of the others.
func (f *Feed) looked(req *FilterRequest) int {
	if f.Next < 0 || f.Next > 0 && f.Next >= len(req.Posts) {
		return -1
	}
	return cmp.Or(f.Next, len(req.Posts))
}

// byIndex reports whether a feed that lists only the dropped posts fits its request. It sets their
// ids.
func (f *Feed) byIndex(req *FilterRequest) bool {
	looked, at := f.looked(req), -1
	for i := range f.Dropped {
		d := &f.Dropped[i]
		if d.Index <= at || d.Index >= looked {
			return false
		}
		at, d.ID = d.Index, req.Posts[d.Index].ID
	}
	for _, posts := range f.Annotated {
		if slices.ContainsFunc(posts, func(at int) bool { return at < 0 || at >= looked }) {
			return false
		}
	}
	return looked >= 0 && f.Posts == nil && f.Dropped != nil && f.Degraded != nil &&
		len(f.Annotated) == len(req.Annotate)
}

// Explanation says why a feed drops or keeps a post.
type Explanation struct {
	Dropped  bool       `json:"dropped"`
	Reasons  []Reason   `json:"reasons"` // everything that the filter reports, kinds that drop first
	Page     Page       `json:"page"`
	Degraded []Degraded `json:"degraded"`
}

// Reason is one thing that the filter reports about a post.
type Reason struct {
	Kind   string `json:"kind"`
	Effect string `json:"effect"` // "drop", "annotate" or "keep"
	Actor  string `json:"actor"`  // the user, for kinds that target users
	// Target is the id, for kinds that do not target users, unless it is the post's own.
	Target string `json:"target"`
	// InText is where Target stands first in the post's text. Zero: it is an id on the post, or the
	// kind has no text.
	InText    TextRange `json:"in_text"`
	Direction string    `json:"direction"` // whose activity: "by_viewer" or "by_actor"
	// Certainty is "certain", "false" (a false positive) or "unconfirmed".
	Certainty string    `json:"certainty"`
	Since     time.Time `json:"since"` // zero: unknown
	Until     time.Time `json:"until"` // zero: it has no end
	// Parts are the beginnings of the parts of a window that report the post.
	Parts []string `json:"parts"`

	OverruledBy string `json:"overruled_by"` // the kind that keeps the post all the same; "": none
	List        string `json:"list"`         // the list whose activity it is; "": the viewer's
}

// TextRange is a part of a text, in bytes of UTF-8: text[r.Start:r.End].
type TextRange struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Page describes the page of the viewer's activities in the ledger.
type Page struct {
	Number            uint32  `json:"number"`
	Sequence          uint64  `json:"sequence"`
	Keys              int     `json:"keys"`
	Bytes             int     `json:"bytes"`
	FalsePositiveRate float64 `json:"false_positive_rate"` // per key
}

// ExplainRequest asks what a feed of Viewer with Lists does with Post. If Post has no ID, it asks
// for everything between Viewer and the author.
type ExplainRequest struct {
	Viewer string
	Post   Post
	Lists  []string      // as in FilterRequest
	After  string        // as in FilterRequest
	Within time.Duration // as in FilterRequest
}

// Explain returns what a feed does with a post, and why. The service must have a ledger.
func (c *Client) Explain(ctx context.Context, r ExplainRequest) (Explanation, error) {
	asked := &feedfilterv1.ExplainRequest{
		Viewer: r.Viewer,
		Post:   r.Post.message(),
		Lists:  r.Lists,
		After:  r.After,
		Within: within(r.Within),
	}
	var e Explanation
	err := c.do(ctx, &call{
		method: http.MethodPost, path: []string{"v1", "feed", "explain"}, into: &e, hedged: true,
		body: struct {
			Viewer string    `json:"viewer"`
			Post   jsonValue `json:"post"`
			Lists  []string  `json:"lists,omitzero"`
			After  string    `json:"after,omitzero"`
			Within string    `json:"within,omitzero"`
		}{r.Viewer, func(t *jsonText) { t.post(&r.Post) }, r.Lists, r.After, within(r.Within)},
		sound: func() bool { return e.Reasons != nil && e.Degraded != nil },
		procedure: procedureOf(
			feedService, "Explain", asked, new(feedfilterv1.ExplainResponse), e.fill,
		),
	})
	return e, err
}

// message returns the post as a message.
func (p Post) message() *feedfilterv1.Post {
	m := &feedfilterv1.Post{
		Id:         p.ID,
		Author:     p.Author,
		Actors:     p.Actors,
		ActorRoles: p.Roles,
		Related:    p.Related,
		Text:       p.Text,
	}
	for name, ids := range p.Facets {
		m.Facets = append(m.Facets, &feedfilterv1.Facet{Name: name, Ids: ids})
	}
	return m
}

// fill sets the explanation from the message.
func (e *Explanation) fill(m *feedfilterv1.ExplainResponse) {
	p := m.GetPage()
	*e = Explanation{
		Dropped:  m.GetDropped(),
		Reasons:  make([]Reason, len(m.GetReasons())),
		Degraded: degradedOf(m.GetDegraded()),
		Page: Page{
			Number:            p.GetNumber(),
			Sequence:          p.GetSequence(),
			Keys:              int(p.GetKeys()),
			Bytes:             int(p.GetBytes()),
			FalsePositiveRate: p.GetFalsePositiveRate(),
		},
	}
	for i, r := range m.GetReasons() {
		e.Reasons[i] = Reason{
			Kind:        r.GetKind(),
			Effect:      r.GetEffect(),
			Actor:       r.GetActor(),
			Target:      r.GetTarget(),
			InText:      textRangeOf(r.GetInText()),
			Direction:   r.GetDirection(),
			Certainty:   r.GetCertainty(),
			Since:       timeOf(r.GetSince()),
			Until:       timeOf(r.GetUntil()),
			Parts:       r.GetParts(),
			OverruledBy: r.GetOverruledBy(),
			List:        r.GetList(),
		}
	}
}

// textRangeOf returns the part of a text in a message; the zero value if it is not set.
func textRangeOf(m *feedfilterv1.TextRange) TextRange {
	return TextRange{Start: int(m.GetStart()), End: int(m.GetEnd())}
}

// FanoutRequest asks which of Viewers must not get a new post.
type FanoutRequest struct {
	Post    Post     // needs an author; its id may be empty
	Viewers []string // up to 10,000

	// Kinds are checked in this order. Nil: every kind that drops or keeps, and is two-way or has
	// fanout; empty: none.
	Kinds []string
	Exact bool // let the ledger confirm what the filter reports

	After  string        // as in FilterRequest
	Within time.Duration // as in FilterRequest
}

// Fanout lists the viewers who must not get a post. All others may.
type Fanout struct {
	Dropped  []DroppedViewer `json:"dropped"` // in the order of the request
	Degraded []Degraded      `json:"degraded"`
}

// DroppedViewer is a viewer who must not get a post, with the first reason.
type DroppedViewer struct {
	Viewer string `json:"viewer"`
	Kind   string `json:"kind"`
	Actor  string `json:"actor"`  // the author or actor, for kinds that target users
	Target string `json:"target"` // the id, for kinds that do not, unless it is the post's own
}

// Fanout returns which viewers must not get a new post, for apps that write posts into feeds.
func (c *Client) Fanout(ctx context.Context, req FanoutRequest) (Fanout, error) {
	var answer Fanout
	fill := func(m *feedfilterv1.FanoutResponse) { answer.fill(&req, m) }
	err := c.do(ctx, &call{
		method: http.MethodPost, path: []string{"v1", "fanout", "filter"},
		body: req.inJSON(), into: &answer, hedged: true,
		sound: func() bool { return answer.Dropped != nil && answer.Degraded != nil },
		procedure: procedureOf(
			feedService, "Fanout", req.message(), new(feedfilterv1.FanoutResponse), fill,
		),
	})
	return answer, err
}

// inJSON returns the request in JSON.
func (r *FanoutRequest) inJSON() any {
	viewers := r.Viewers
	if viewers == nil {
		viewers = []string{}
	}
	post := r.Post
	var actors jsonValue
	if len(post.Actors)+len(post.Roles) > 0 {
		actors = func(t *jsonText) { t.actors(&post) }
	}
	return struct {
		Post    string              `json:"post,omitzero"`
		Author  string              `json:"author"`
		Actors  jsonValue           `json:"actors,omitzero"`
		Related []string            `json:"related,omitzero"`
		Facets  map[string][]string `json:"facets,omitzero"`
		Text    string              `json:"text,omitzero"`
		Viewers []string            `json:"viewers"`
		Kinds   []string            `json:"kinds,omitzero"`
		Exact   bool                `json:"exact,omitzero"`
		After   string              `json:"after,omitzero"`
		Within  string              `json:"within,omitzero"`
	}{
		post.ID, post.Author, actors, post.Related, post.Facets, post.Text,
		viewers, r.Kinds, r.Exact, r.After, within(r.Within),
	}
}

// message returns the request as a message.
func (r *FanoutRequest) message() *feedfilterv1.FanoutRequest {
	post := r.Post.message()
	m := &feedfilterv1.FanoutRequest{
		Post:       post.GetId(),
		Author:     post.GetAuthor(),
		Actors:     post.GetActors(),
		ActorRoles: post.GetActorRoles(),
		Related:    post.GetRelated(),
		Facets:     post.GetFacets(),
		Text:       post.GetText(),
		Viewers:    r.Viewers,
		Exact:      r.Exact,
		After:      r.After,
		Within:     within(r.Within),
	}
	if r.Kinds != nil {
		m.Kinds = &feedfilterv1.KindNames{Names: r.Kinds}
	}
	return m
}

// fill sets the answer from the message.
func (f *Fanout) fill(req *FanoutRequest, m *feedfilterv1.FanoutResponse) {
	*f = Fanout{
		Dropped:  make([]DroppedViewer, 0, len(m.GetDropped())),
		Degraded: degradedOf(m.GetDegraded()),
	}
	for _, d := range m.GetDropped() {
		if int(d.GetIndex()) >= len(req.Viewers) {
			f.Dropped = nil // the answer does not fit the request
			return
		}
		f.Dropped = append(f.Dropped, DroppedViewer{
			Viewer: req.Viewers[d.GetIndex()],
			Kind:   d.GetKind(),
			Actor:  d.GetActor(),
			Target: d.GetTarget(),
		})
	}
}

// within returns a time as the service takes it.
func within(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
