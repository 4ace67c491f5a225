//go:build !race

package rest

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// allocated returns how many bytes a function allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDecodedMemory: whatever a body of 1 MiB is made of, decoding it allocates a bounded multiple
// of its length.
func TestDecodedMemory(t *testing.T) {
	const length, most = 1 << 20, 32 << 20
	times := func(n int, text string) string { return strings.Repeat(text, n) }
	fill := func(before, each, after string) string {
		return before + strings.TrimSuffix(times((length-len(before)-len(after))/len(each), each), ",") + after
	}
	measure := func(name, body string, do func()) {
		t.Helper()
		if got := allocated(do); got > most {
			t.Errorf("%s: %d bytes allocate %d MiB", name, len(body), got>>20)
		}
	}
	feeds := map[string]string{
		"posts":              fill(`{"posts":[`, `{},`, `]}`),
		"actors":             fill(`{"posts":[{"actors":[`, `"",`, `]}]}`),
		"actors of posts":    fill(`{"posts":[`, `{"actors":["","","","","","","","","","","","","","","","","","","",""]},`, `]}`),
		"objects":            fill(`{"posts":[{"actors":[`, `{},`, `]}]}`),
		"objects of posts":   fill(`{"posts":[`, `{"actors":[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]},`, `]}`),
		"facets":             fill(`{"posts":[`, `{"facets":{}},`, `]}`),
		"a facet of posts":   fill(`{"posts":[`, `{"facets":{"":[]}},`, `]}`),
		"ids of a facet":     fill(`{"posts":[{"facets":{"":[`, `"",`, `]}}]}`),
		"related":            fill(`{"posts":[`, `{"related":[""]},`, `]}`),
		"kinds":              fill(`{"posts":[],"kinds":[`, `"",`, `]}`),
		"lists":              fill(`{"posts":[],"lists":[`, `"",`, `]}`),
		"names":              fill(`{"posts":[{"facets":{`, `"a":[],`, `}}]}`),
		"distinct names":     `{"posts":[{"facets":{` + distinct(length) + `}}]}`,
		"depth":              times(length, `[`),
		"escapes":            fill(`{"posts":[`, `{"id":"\u0061"},`, `]}`),
		"escapes of actors":  fill(`{"posts":[{"actors":[`, `"\u0061",`, `]}]}`),
		"unfinished escapes": fill(`{"viewer":"`, `\"`, ``),
	}
	for name, body := range feeds {
		measure("feed, "+name, body, func() { readFeed(body, wire.NewBuffer()) })
		measure("feed, "+name+", strict", body, func() {
			var decoded filterRequest
			if json.UnmarshalRead(bytes.NewReader([]byte(body)), &decoded, strict()) == nil {
				_, _ = decoded.request()
			}
		})
	}
	fanouts := map[string]string{
		"viewers": fill(`{"viewers":[`, `"",`, `]}`), "actors": fill(`{"viewers":[],"actors":[`, `{},`, `]}`),
		"facets": `{"viewers":[],"facets":{` + distinct(length) + `}}`,
	}
	for name, body := range fanouts {
		measure("fan-out, "+name, body, func() { readFanout(body, wire.NewBuffer()) })
		measure("fan-out, "+name+", strict", body, func() {
			var decoded fanoutRequest
			if json.UnmarshalRead(bytes.NewReader([]byte(body)), &decoded, strict()) == nil {
				_, _ = decoded.request(nil)
			}
		})
	}
	for name, body := range map[string]string{"lines": fill(`{"activities":[`, `{},`, `]}`), "texts": fill(`{"activities":[`, `{"since":"","until":""},`, `]}`)} {
		measure("batch, "+name, body, func() { var m batchRequest; _ = json.Unmarshal([]byte(body), &m, strict()) })
	}
	body := fill(`{"kind":"hide","targets":[`, `"",`, `]}`)
	measure("preview", body, func() { var m previewRequest; _ = json.Unmarshal([]byte(body), &m, strict()) })
	measure("posts", body, func() {
		var m postsRequest
		_ = json.Unmarshal([]byte(strings.Replace(body, `"kind":"hide","targets"`, `"posts"`, 1)), &m, strict())
	})
}

// distinct returns members of an object with different short names and empty arrays.
func distinct(length int) string {
	var b strings.Builder
	for i := 0; b.Len() < length; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + string(rune('0'+i%64)) + string(rune('0'+i/64%64)) + string(rune('0'+i/4096%64)) + string(rune(0x4e00+i/262144)) + `":[]`)
	}
	return b.String()
}
