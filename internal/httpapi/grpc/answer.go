package grpc

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/feedwire"
)

// feedAnswer is a FilterResponse, encoded in Protobuf.
type feedAnswer struct{ text []byte }

func (a *feedAnswer) appendTo(dst []byte) []byte { return append(dst, a.text...) }

// newFeedAnswer returns the encoded answer to req. dropped: without the kept posts.
func newFeedAnswer(a feed.Answer, req feed.Request, dropped bool) *feedAnswer {
	dst := make([]byte, 0, 64+2*len(a.Kept)+32*len(a.Dropped))
	var scratch []byte
	if !dropped && len(a.Kept) > 0 {
		scratch = appendIndexes(scratch, a.Kept)
		dst = feedwire.AppendPart(dst, feedwire.Kept, scratch)
	}
	for _, d := range a.Dropped {
		scratch = feedwire.AppendNumber(scratch[:0], feedwire.DroppedIndex, uint64(d.At))
		scratch = feedwire.AppendText(scratch, feedwire.DroppedKind, d.Kind)
		scratch = feedwire.AppendText(scratch, feedwire.DroppedActor, d.Actor)
		if d.Unconfirmed {
			scratch = feedwire.AppendNumber(scratch, feedwire.DroppedUnconfirmed, 1)
		}
		scratch = feedwire.AppendText(scratch, feedwire.DroppedTarget, d.Target)
		scratch = feedwire.AppendText(scratch, feedwire.DroppedList, d.List)
		dst = feedwire.AppendPart(dst, feedwire.Dropped, scratch)
	}
	for m, kind := range req.Annotate {
		scratch = feedwire.AppendText(scratch[:0], feedwire.AnnotatedKind, kind)
		if len(a.Annotated[m]) > 0 {
			scratch = feedwire.AppendPart(scratch, feedwire.AnnotatedPosts, appendIndexes(nil, a.Annotated[m]))
		}
		dst = feedwire.AppendPart(dst, feedwire.Annotated, scratch)
	}
	dst = feedwire.AppendNumber(dst, feedwire.Next, uint64(a.Next))
	for _, d := range a.Degraded {
		scratch = feedwire.AppendText(scratch[:0], feedwire.DegradedKind, d.Kind)
		scratch = feedwire.AppendText(scratch, feedwire.DegradedReason, d.Reason)
		dst = feedwire.AppendPart(dst, feedwire.Degraded, scratch)
	}
	return &feedAnswer{dst}
}

// appendIndexes appends the values of a packed list.
func appendIndexes(dst []byte, indexes []int) []byte {
	for _, i := range indexes {
		dst = protowire.AppendVarint(dst, uint64(i))
	}
	return dst
}
