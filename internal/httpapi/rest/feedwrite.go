package rest

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/feed"
)

// appendFeed appends a as JSON, with a field for each kind to annotate in each kept post:
//
//	{"posts":[{"id":"p9","like":true}],
//	 "dropped":[{"id":"p8","kind":"block","actor":"2"}],"degraded":[]}
func appendFeed(dst []byte, a feed.Answer, req feed.Request) []byte {
	annotated := slices.Clone(a.Annotated)
	dst = append(dst, "{"+keyPosts+"["...)
	for i, at := range a.Kept {
		dst = appendField(between(dst, i), "{"+keyID, req.Posts[at].ID)
		for n, kind := range req.Annotate {
			found := len(annotated[n]) > 0 && annotated[n][0] == at
			if found {
				annotated[n] = annotated[n][1:]
			}
			dst = append(appendField(dst, ",", kind), ':')
			dst = strconv.AppendBool(dst, found)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, "],"+keyDropped+"["...)
	for i, d := range a.Dropped {
		dst = appendReason(appendField(between(dst, i), "{"+keyID, req.Posts[d.At].ID), d)
	}
	return appendRest(append(dst, ']'), a)
}

// appendDropped appends a as JSON without the kept posts. It names posts by their index in the
// request. "annotated" has a list of kept posts for each kind to annotate:
//
//	{"dropped":[{"index":1,"kind":"block","actor":"2"}],"annotated":{"like":[0]},"degraded":[]}
func appendDropped(dst []byte, a feed.Answer, annotate []string) []byte {
	dst = append(dst, "{"+keyDropped+"["...)
	for i, d := range a.Dropped {
		dst = strconv.AppendInt(append(between(dst, i), "{"+keyIndex...), int64(d.At), 10)
		dst = appendReason(dst, d)
	}
	dst = append(dst, ']')
	for m, kind := range annotate {
		before := "," + keyAnnotated + "{"
		if m > 0 {
			before = ","
		}
		dst = append(appendField(dst, before, kind), ":["...)
		for i, at := range a.Annotated[m] {
			dst = strconv.AppendInt(between(dst, i), int64(at), 10)
		}
		dst = append(dst, ']')
	}
	if len(annotate) > 0 {
		dst = append(dst, '}')
	}
	return appendRest(dst, a)
}

// appendReason appends the reason of a dropped post, after its id or index.
func appendReason(dst []byte, d feed.Dropped) []byte {
	dst = appendField(dst, ","+keyKind, d.Kind)
	if d.Actor != "" {
		dst = appendField(dst, ","+keyActor, d.Actor)
	}
	if d.Target != "" {
		dst = appendField(dst, ","+keyTarget, d.Target)
	}
	if d.List != "" {
		dst = appendField(dst, ","+keyList, d.List)
	}
	if d.Unconfirmed {
		dst = append(dst, ","+keyUnconfirmed+"true"...)
	}
	return append(dst, '}')
}

// appendRest appends the end of an answer, which is the same in both forms.
func appendRest(dst []byte, a feed.Answer) []byte {
	if a.Next != 0 {
		dst = strconv.AppendInt(append(dst, ","+keyNext...), int64(a.Next), 10)
	}
	dst = append(dst, ","+keyDegraded+"["...)
	for i, d := range a.Degraded {
		dst = appendField(between(dst, i), "{"+keyKind, d.Kind)
		dst = append(appendField(dst, ","+keyReason, d.Reason), '}')
	}
	return append(dst, "]}"...)
}

// between appends the comma in front of the i-th value of an array.
func between(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// appendField appends before, and then s as a JSON string. s must be valid UTF-8, as ids and kinds
// are.
func appendField(dst []byte, before, s string) []byte {
	dst = append(dst, before...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			dst, _ = jsontext.AppendQuote(dst, s)
			return dst
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
