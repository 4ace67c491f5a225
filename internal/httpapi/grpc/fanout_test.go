package grpc

import (
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// fanoutMessageAgrees fails t unless a message means the same as to the generated code, which also
// refuses ids that are not UTF-8. It reports whether the message is valid.
func fanoutMessageAgrees(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string) bool {
	t.Helper()
	var want feedfilterv1.FanoutRequest
	wantErr := readMessage([]byte(text), &want)
	in := fanoutMessage{text}
	got, err := in.decode(wire.NewBuffer())
	if wantErr != nil {
		if err == nil && utf8.ValidString(strings.Join(got.GetViewers(), "")) {
			t.Fatalf("%q is read as %v, want it refused: %v", text, got, wantErr)
		}
		return false
	}
	if err != nil || !proto.Equal(got, &want) {
		t.Fatalf("%q is read as\n%v, %v\nwant\n%v", text, got, err, &want)
	}
	return true
}

func fanoutMessages() []string {
	text := func(m *feedfilterv1.FanoutRequest) string { return string(marshaled(m)) }
	all := &feedfilterv1.FanoutRequest{
		Author: "2", Actors: []string{"5", "6"}, ActorRoles: []string{"", "repost"}, Viewers: []string{"1", "", "\u00e9", strings.Repeat("x", 200), "3"},
		Kinds: &feedfilterv1.KindNames{Names: []string{"block"}}, Exact: true, Post: "p", Related: []string{"q"},
		Facets: []*feedfilterv1.Facet{{Name: "tag", Ids: []string{"x"}}},
	}
	return []string{
		"", text(all), text(all) + text(all), text(&feedfilterv1.FanoutRequest{Viewers: make([]string, feed.MaxViewers)}),
		text(&feedfilterv1.FanoutRequest{Viewers: make([]string, feed.MaxViewers+1)}),
		"\x20\x00" + text(&feedfilterv1.FanoutRequest{Viewers: make([]string, feed.MaxViewers)}), // viewers have no varints
		"\x22", "\x22\x02\xff\xff", "\x22\x01", "\x20\x01", "\x0d\x00\x00\x00\x00",
	}
}

// TestReadFanoutMessage reads messages, and with each byte of the short ones changed or left out.
func TestReadFanoutMessage(t *testing.T) {
	valid := 0
	for _, text := range fanoutMessages() {
		fanoutMessageAgrees(t, text)
		if len(text) > 1000 {
			continue
		}
		for at := range text {
			fanoutMessageAgrees(t, text[:at]+text[at+1:])
			for _, c := range []byte("\x00\x01\x02\x08\x22\x20\x7f\x80\xff") {
				if fanoutMessageAgrees(t, text[:at]+string([]byte{c})+text[at+1:]) {
					valid++
				}
			}
		}
	}
	if valid == 0 {
		t.Error("no changed message was valid")
	}
}

func FuzzReadFanoutMessage(f *testing.F) {
	for _, text := range fanoutMessages() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { fanoutMessageAgrees(t, text) })
}
