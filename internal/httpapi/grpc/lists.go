package grpc

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// Long lists of a FilterRequest and, last, of a FanoutRequest.
const (
	fieldPosts      = 2
	fieldAuthors    = 3
	fieldActors     = 4
	fieldActorRoles = 13
	fieldViewers    = 4
)

// splitLists reads a message, and returns the fields that add does not take. It calls add with each
// field that has a length, and add reports whether it took the field. For a long list, add also
// takes the values that follow, with the methods of the reader. So the strings of long lists share
// the memory of text. The generated code would allocate each of them, which takes longer than the
// answer. splitLists reports false for an invalid or an unusual message, or if add reports false.
func splitLists(
	text string, add func(r *messageReader, field uint64, s string) (took, ok bool),
) (rest []byte, ok bool) {
	for r := (messageReader{text: text}); r.at < len(text); {
		from := r.at
		tag, ok := r.number()
		if !ok {
			return nil, false
		}
		took := false
		switch protowire.Type(tag & 7) {
		case protowire.VarintType:
			_, ok = r.number()
		case protowire.BytesType:
			var s string
			if s, ok = r.bytes(); ok {
				took, ok = add(&r, tag>>3, s)
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
		if !took {
			rest = append(rest, text[from:r.at]...)
		}
	}
	return rest, true
}

// messageReader reads the fields of a message in order. Each of its methods reports whether it
// succeeded. Do not use the reader after a failure.
type messageReader struct {
	text string
	at   int // index of the next byte
}

// strings appends s, and the values of the same field that follow it. It fails if the list gets
// longer than most.
func (r *messageReader) strings(list []string, field uint64, s string, most int) ([]string, bool) {
	for ok := true; ok && len(list) <= most; s, ok = r.more(field) {
		list = append(list, s)
	}
	return list, len(list) <= most
}

// more reads the next value of a field below 16, if there is one and it is shorter than 128 bytes.
// It is small enough to be inlined: a feed has a thousand ids.
func (r *messageReader) more(field uint64) (s string, ok bool) {
	from := r.at + 2
	if from > len(r.text) || r.text[r.at] != byte(field<<3)|byte(protowire.BytesType) {
		return "", false
	}
	end := from + int(r.text[r.at+1])
	if end >= from+0x80 || end > len(r.text) {
		return "", false
	}
	r.at = end
	return r.text[from:end], true
}

// number reads a varint below 2^28. Most have one byte.
func (r *messageReader) number() (n uint64, ok bool) {
	if r.at < len(r.text) && r.text[r.at] < 0x80 {
		r.at++
		return uint64(r.text[r.at-1]), true
	}
	for shift := 0; shift < 28 && r.at < len(r.text); shift += 7 {
		b := r.text[r.at]
		r.at++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, true
		}
	}
	return 0, false
}

// bytes reads a length and that many bytes.
func (r *messageReader) bytes() (string, bool) {
	n, ok := r.number()
	if !ok || n > uint64(len(r.text)-r.at) {
		return "", false
	}
	from := r.at
	r.at += int(n)
	return r.text[from:r.at], true
}

// listLengths has the lengths of the lists in a message, by the numbers of their fields.
type listLengths struct {
	lengths map[protowire.Number]int
	// of fields that hold one message, which may come in parts
	within map[protowire.Number]*listLengths
}

// check adds an encoded part of a message to the lengths, and returns an error if one exceeds
// [maxListed].
func (l *listLengths) check(data []byte, of protoreflect.MessageDescriptor) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeField(data)
		if n < 0 {
			return wire.Refuse(wire.CodeMalformedMessage, "", "the message is not valid Protobuf")
		}
		part, f := data[:n], of.Fields().ByNumber(number)
		data = data[n:]
		if f == nil {
			continue
		}
		if f.IsList() && (f.IsPacked() || kind == protowire.BytesType) {
			if l.lengths == nil {
				l.lengths = make(map[protowire.Number]int)
			}
			l.lengths[number]++
			if most := maxListed(f, kind); l.lengths[number] > most {
				return wire.TooManyValues(string(f.Name()), strconv.Itoa(most))
			}
		}
		if kind != protowire.BytesType || f.Message() == nil || !hasLists(f.Message()) {
			continue
		}
		_, _, tag := protowire.ConsumeTag(part)
		value, _ := protowire.ConsumeBytes(part[tag:])
		if err := l.one(f).check(value, f.Message()); err != nil {
			return activity.Within(string(f.Name())+".", err)
		}
	}
	return nil
}

// one returns the lengths in the next value of a field.
func (l *listLengths) one(f protoreflect.FieldDescriptor) *listLengths {
	if f.IsList() {
		return new(listLengths)
	}
	if l.within == nil {
		l.within = make(map[protowire.Number]*listLengths)
	}
	if l.within[f.Number()] == nil {
		l.within[f.Number()] = new(listLengths)
	}
	return l.within[f.Number()]
}

// hasLists reports whether messages of a type have lists.
func hasLists(of protoreflect.MessageDescriptor) bool {
	for i := range of.Fields().Len() {
		if of.Fields().Get(i).IsList() {
			return true
		}
	}
	return false
}

// maxParts is the maximum number of parts in which a packed list may come. Encoders write one. The
// generated code copies a list for each part.
const maxParts = 16

// maxListed returns how many values of a list, or parts of a packed one, a message may have. No
// valid request has more.
func maxListed(f protoreflect.FieldDescriptor, kind protowire.Type) int {
	switch {
	case kind == protowire.BytesType && f.IsPacked():
		return maxParts
	case f.IsPacked():
		return feed.MaxIDs
	}
	switch f.FullName() {
	case "feedfilter.v1.FilterRequest.posts", "feedfilter.v1.FilterRequest.authors",
		"feedfilter.v1.FilterRequest.texts":
		return feed.MaxPosts
	case "feedfilter.v1.FilterRequest.actors", "feedfilter.v1.FilterRequest.actor_roles",
		"feedfilter.v1.FilterRequest.related",
		"feedfilter.v1.Facet.ids":
		return feed.MaxIDs
	case "feedfilter.v1.FanoutRequest.viewers":
		return feed.MaxViewers
	case "feedfilter.v1.RecordBatchRequest.activities":
		return operations.MaxBatch
	case "feedfilter.v1.RecordStreamRequest.activities":
		return operations.MaxChunk
	default:
		return wire.MaxTexts
	}
}
