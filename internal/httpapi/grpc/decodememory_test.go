//go:build !race

package grpc

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// allocated returns how many bytes a function allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// part returns a field of a message.
func part(number protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value))
}

// TestDecodedMemory: whatever a body of 1 MiB is made of, decoding it allocates a bounded multiple
// of its length.
func TestDecodedMemory(t *testing.T) {
	const length, most = 1 << 20, 32 << 20
	times := func(n int, text string) string { return strings.Repeat(text, n) }
	fill := func(before, each, after string) string {
		return before + strings.TrimSuffix(times((length-len(before)-len(after))/len(each), each), ",") + after
	}
	posts := times(feed.MaxPosts, part(2, ""))
	messages := map[string]string{
		"facets":               fill(posts, part(12, ""), ""),
		"named facets":         fill(posts, part(12, part(1, "a")), ""),
		"ten thousand facets":  posts + times(10_000, part(12, "")),
		"facets of a post":     fill(posts, part(12, part(2, "")+part(3, "\x00")), ""),
		"ids of a facet":       posts + part(12, times(length/3, part(2, ""))+part(3, times(length/3, "\x00"))),
		"a facet of each post": posts + part(12, times(feed.MaxPosts, part(2, ""))+part(3, string(ascending(feed.MaxPosts)))),
		"posts":                fill("", part(2, ""), ""),
		"authors":              fill(posts, part(3, ""), ""),
		"actors":               fill(posts, part(4, ""), ""),
		"posts of actors":      fill(posts, part(5, "\x00"), ""),
		"parts of a facet":     posts + part(12, times(length/3, part(3, "\x00"))),
		"parts of kinds":       fill(posts, part(6, part(1, "")), ""),
		"packed":               posts + part(5, times(length, "\x00")),
		"kinds":                posts + part(6, times(length/2, part(1, ""))),
		"annotate":             fill(posts, part(7, ""), ""),
		"roles":                fill(posts, part(13, ""), ""),
		"related":              fill(posts, part(14, ""), ""),
		"lists":                fill(posts, part(15, ""), ""),
		"no such field":        fill(posts, part(99, ""), ""),
	}
	measure := func(name, body string, do func()) {
		t.Helper()
		if got := allocated(do); got > most {
			t.Errorf("%s: %d bytes allocate %d MiB", name, len(body), got>>20)
		}
	}
	for name, text := range messages {
		measure("feed message, "+name, text, func() { _, _, _ = (&feedMessage{text}).decode(wire.NewBuffer()) })
		measure("feed message, "+name+", generated", text, func() {
			_, _, _ = generatedRequest(text)
		})
	}
	post := map[string]string{
		"facets": part(4, ""), "actors": part(3, ""), "roles": part(5, ""), "related": part(6, ""), "ids of facets": part(4, part(2, "")),
		"ids of a facet": part(4, times(length/2, part(2, ""))),
	}
	for name, one := range post {
		text := part(2, fill("", one, ""))
		measure("explain message, "+name, text, func() {
			var m incoming[feedfilterv1.ExplainRequest]
			m.read([]byte(text))
			if m.err == nil {
				_, _ = postOf(m.message.GetPost(), "")
			}
		})
	}
	text := fill("", part(2, part(4, "")), "")
	measure("explain message, parts of the post", text, func() { var m incoming[feedfilterv1.ExplainRequest]; m.read([]byte(text)) })
	for number := range protowire.Number(12) {
		name, text := strconv.Itoa(int(number)), fill("", part(number+1, ""), "")
		measure("fan-out message, field "+name, text, func() {
			if m, err := (&fanoutMessage{text}).decode(wire.NewBuffer()); err == nil {
				_, _ = postOf(m, "")
			}
		})
	}
	for name, one := range map[string]string{"empty": part(1, ""), "times": part(1, part(5, "")+part(6, ""))} {
		text := fill("", one, "")
		measure("batch message, "+name, text, func() { var m incoming[feedfilterv1.RecordBatchRequest]; m.read([]byte(text)) })
		measure("stream message, "+name, text, func() { var m incoming[feedfilterv1.RecordStreamRequest]; m.read([]byte(text)) })
	}
	text = fill("", part(3, ""), "")
	measure("posts message", text, func() { var m incoming[feedfilterv1.RecordPostsRequest]; m.read([]byte(text)) })
}

// ascending returns the varints of 0 to n-1.
func ascending(n int) (list []byte) {
	for i := range n {
		list = protowire.AppendVarint(list, uint64(i))
	}
	return list
}
