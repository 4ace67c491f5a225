package httpapi

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// answerForm is what the answer to a feed lists.
type answerForm uint8

const (
	formKept    answerForm = iota // the kept and the dropped candidates
	formDropped                   // the dropped ones alone, by index
)

// formOf returns the form that a message asks for.
func formOf(a feedfilterv1.Answer) (answerForm, error) {
	switch a {
	case feedfilterv1.Answer_ANSWER_UNSPECIFIED, feedfilterv1.Answer_ANSWER_KEPT:
		return formKept, nil
	case feedfilterv1.Answer_ANSWER_DROPPED:
		return formDropped, nil
	default:
		return 0, badForm()
	}
}

// formNamed returns the form that JSON names so, and whether there is one.
func formNamed(name string) (form answerForm, ok bool) {
	switch name {
	case "kept":
		return formKept, true
	case "dropped":
		return formDropped, true
	default:
		return 0, false
	}
}

func badForm() error {
	return refuse(activity.CodeOutOfRange, "answer", `neither "kept" nor "dropped"`)
}

// feedAnswer is a FilterResponse in the encoding of Protobuf.
type feedAnswer struct{ text []byte }

func (a *feedAnswer) appendTo(dst []byte) []byte { return append(dst, a.text...) }

// Fields of a FilterResponse, and of the messages in it.
const (
	fieldKept protowire.Number = iota + 1
	fieldDropped
	fieldAnnotated
	fieldNext
	fieldDegraded
)

// newFeedAnswer returns a FilterResponse.
func newFeedAnswer(a feed.Answer, req feed.Request, form answerForm) *feedAnswer {
	dst := make([]byte, 0, 64+2*len(a.Kept)+32*len(a.Dropped))
	var scratch []byte
	if form == formKept && len(a.Kept) > 0 {
		scratch = appendIndexes(scratch, a.Kept)
		dst = appendPart(dst, fieldKept, scratch)
	}
	for _, d := range a.Dropped {
		scratch = appendNumber(scratch[:0], 1, d.At)
		scratch = appendText(scratch, 2, d.Kind)
		scratch = appendText(scratch, 3, d.Actor)
		if d.Unconfirmed {
			scratch = appendNumber(scratch, 4, 1)
		}
		dst = appendPart(dst, fieldDropped, scratch)
	}
	for m, kind := range req.Annotate {
		scratch = appendText(scratch[:0], 1, kind)
		if len(a.Annotated[m]) > 0 {
			scratch = appendPart(scratch, 2, appendIndexes(nil, a.Annotated[m]))
		}
		dst = appendPart(dst, fieldAnnotated, scratch)
	}
	dst = appendNumber(dst, fieldNext, a.Next)
	for _, d := range a.Degraded {
		scratch = appendText(appendText(scratch[:0], 1, d.Kind), 2, d.Reason)
		dst = appendPart(dst, fieldDegraded, scratch)
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

// appendPart appends a field that is a message, or a list of numbers.
func appendPart(dst []byte, field protowire.Number, part []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), part)
}

// appendText appends a field that is a string, unless that is empty.
func appendText(dst []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), s)
}

// appendNumber appends a field that is a number of 0 or more, unless that is 0.
func appendNumber(dst []byte, field protowire.Number, n int) []byte {
	if n == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), uint64(n))
}
