// Package feedwire encodes feeds for the service and the client, faster than generated code and
// reflection. For Protobuf it has the numbers of the fields, and functions that append a field.
package feedwire

import (
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of a FilterRequest.
const (
	Viewer = iota + 1
	Posts
	Authors
	Actors
	ActorPosts
	Kinds
	Annotate
	Limit
	RecordSeen
	Exact
	Answer
	Facets
	ActorRoles
	Related
	Lists
	RelatedPosts
)

// Viewers is a field of a FanoutRequest.
const Viewers = 4

// Fields of a Facet.
const (
	FacetName = iota + 1
	FacetIDs
	FacetPosts
)

// KindNames is the only field of a KindNames.
const KindNames = 1

// Fields of a FilterResponse.
const (
	Kept = iota + 1
	Dropped
	Annotated
	Next
	Degraded
)

// Fields of a Dropped.
const (
	DroppedIndex = iota + 1
	DroppedKind
	DroppedActor
	DroppedUnconfirmed
	DroppedTarget
	DroppedList
)

// Fields of an Annotated.
const (
	AnnotatedKind = iota + 1
	AnnotatedPosts
)

// Fields of a Degraded.
const (
	DegradedKind = iota + 1
	DegradedReason
)

// AppendText appends a string field, unless the string is empty.
func AppendText(dst []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), s)
}

// AppendNumber appends a numeric field, unless the number is 0.
func AppendNumber(dst []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), n)
}

// AppendPart appends a field that is a message or a packed list. part is its encoding.
func AppendPart(dst []byte, field protowire.Number, part []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), part)
}

// AppendJSON appends before, and then s as a JSON string. It fails if s is not valid UTF-8.
func AppendJSON(dst []byte, before, s string) ([]byte, error) {
	dst = append(dst, before...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return jsontext.AppendQuote(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), nil
}
