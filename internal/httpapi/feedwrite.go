package httpapi

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/feed"
)

// appendFeed appends a as JSON: {"posts":[{"id":"p9","like":true}],"dropped":[{"id":"p8","kind":"block","actor":"2"}],"degraded":[]}.
// A post that is kept has a field for each of the kinds to annotate.
func appendFeed(dst []byte, a feed.Answer, annotate []string) []byte {
	dst = append(dst, `{"posts":[`...)
	for i, k := range a.Kept {
		dst = appendField(between(dst, i), `{"id":`, k.ID)
		for n, kind := range annotate {
			dst = append(appendField(dst, ",", kind), ':')
			dst = strconv.AppendBool(dst, k.Marks[n])
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"dropped":[`...)
	for i, d := range a.Dropped {
		dst = appendField(between(dst, i), `{"id":`, d.ID)
		dst = appendField(dst, `,"kind":`, d.Kind)
		if d.Actor != "" {
			dst = appendField(dst, `,"actor":`, d.Actor)
		}
		if d.Unconfirmed {
			dst = append(dst, `,"unconfirmed":true`...)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if a.Next != 0 {
		dst = strconv.AppendInt(append(dst, `,"next":`...), int64(a.Next), 10)
	}
	dst = append(dst, `,"degraded":[`...)
	for i, d := range a.Degraded {
		dst = appendField(between(dst, i), `{"kind":`, d.Kind)
		dst = append(appendField(dst, `,"reason":`, d.Reason), '}')
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

// appendField appends s as a string of JSON, behind what comes before it.
func appendField(dst []byte, before, s string) []byte {
	dst = append(dst, before...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			// Ids and kinds are in UTF-8: there is nothing that it could refuse.
			dst, _ = jsontext.AppendQuote(dst, s)
			return dst
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
