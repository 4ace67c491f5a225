package grpc

import (
	"fmt"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	pb "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// messageOfPost is a message with the fields of one post, besides its id.
type messageOfPost interface {
	GetAuthor() string
	GetActors() []string
	GetActorRoles() []string
	GetRelated() []string
	GetFacets() []*pb.Facet
	GetText() string
}

// postOf returns the post of a message, without its id. Its fields are called prefix and their name
// in errors.
func postOf(m messageOfPost, prefix string) (feed.Post, error) {
	post := []feed.Post{
		{
			Author:  m.GetAuthor(),
			Actors:  m.GetActors(),
			Roles:   m.GetActorRoles(),
			Related: m.GetRelated(),
			Text:    m.GetText(),
		},
	}
	for i, f := range m.GetFacets() {
		field := fmt.Sprintf("%sfacets[%d]", prefix, i)
		if len(f.GetPosts()) > 0 {
			return feed.Post{}, wire.Refuse(
				activity.CodeOutOfRange, field+".posts", "the request is about one post: leave this out",
			)
		}
		first := make([]uint32, len(f.GetIds())) // all are of the first post
		if err := placeFacet(post, field, f.GetName(), f.GetIds(), first); err != nil {
			return feed.Post{}, err
		}
	}
	return post[0], nil
}

// placeActors gives each post its actors, and their roles if there are any. Actor i belongs to post
// on[i].
func placeActors(posts []feed.Post, actors, roles []string, on []uint32) error {
	if len(roles) != 0 && len(roles) != len(actors) {
		return wire.Refuse(
			activity.CodeOutOfRange, "actor_roles",
			fmt.Sprintf("%d roles for %d actors", len(roles), len(actors)),
		)
	}
	return placeIDs(posts, actors, on, "actor_posts", func(p *feed.Post, from, to int) error {
		p.Actors = actors[from:to:to]
		if len(roles) > 0 {
			p.Roles = roles[from:to:to]
		}
		return nil
	})
}

// placeFacet gives each post its ids of a facet, the field of the message.
func placeFacet(posts []feed.Post, field, name string, ids []string, on []uint32) error {
	facet := activity.Facet(name)
	return placeIDs(posts, ids, on, field+".posts", func(p *feed.Post, from, to int) error {
		if _, twice := p.Facets[facet]; twice {
			return wire.Refuse(
				wire.CodeDuplicateKey, field+".name", fmt.Sprintf("the facet %q occurs twice", name),
			)
		}
		if p.Facets == nil {
			p.Facets = make(map[activity.Facet][]string, 1)
		}
		p.Facets[facet] = ids[from:to:to]
		return nil
	})
}

// placeIDs calls place with each post that has ids, and the range of these. ids[i] belongs to post
// on[i]. field is the name of on in the message.
func placeIDs(
	posts []feed.Post,
	ids []string,
	on []uint32,
	field string,
	place func(p *feed.Post, from, to int) error,
) error {
	if len(ids) != len(on) {
		return wire.Refuse(
			activity.CodeOutOfRange, field, fmt.Sprintf("%d posts for %d ids", len(on), len(ids)),
		)
	}
	for i := 0; i < len(on); {
		post, from := on[i], i
		if int64(post) >= int64(len(posts)) {
			return wire.Refuse(
				activity.CodeOutOfRange, field, fmt.Sprintf("no post has the index %d", post),
			)
		}
		for i < len(on) && on[i] == post {
			i++
		}
		if i < len(on) && on[i] < post {
			return wire.Refuse(
				activity.CodeOutOfRange, field,
				fmt.Sprintf("%d after %d: must be in ascending order", on[i], post),
			)
		}
		if err := place(&posts[post], from, i); err != nil {
			return err
		}
	}
	return nil
}

func degradedOf(kinds []activity.Degraded) (all []*pb.Degraded) {
	for _, d := range kinds {
		all = append(all, &pb.Degraded{Kind: d.Kind, Reason: d.Reason})
	}
	return all
}
