package rest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// fanoutsRead returns valid and invalid bodies of fan-outs. True: readFanout must accept the body.
func fanoutsRead() map[string]bool {
	return map[string]bool{
		`{"post":"p","author":"2","actors":["5",{"id":"6","role":"repost"}],"related":["q"],"facets":{"tag":["x","y"]},` +
			`"viewers":["1","\u0033",""],"kinds":["block"],"exact":true}`: true,
		"{ \t\"viewers\" :\r\n[ \"1\" , \"2\" ] \n}": true,
		`{"viewers":[]}`: true, `{"viewers":[],"kinds":[],"actors":[],"related":[],"facets":{},"exact":false,"post":""}`: true,
		``: false, `{}`: false, `[]`: false, `{"author":"2"}`: false, `{"viewers":null}`: false, `{"viewers":[null]}`: false,
		`{"viewers":[1]}`: false, `{"viewers":"1"}`: false, `{"viewers":["1",]}`: false, `{"viewers":["1"}`: false, `{"viewers":[]}}`: false,
		`{"viewers":[],"viewers":[]}`: false, `{"viewers":[],"post":"1","post":"1"}`: false, `{"viewers":[],"x":1}`: false,
		`{"Viewers":[]}`: false, `{"viewers":[],"exact":1}`: false, `{"viewers":[],"facets":null}`: false, "{\"viewers\":[\"\xff\"]}": false,
		`{"viewers":[` + strings.TrimSuffix(strings.Repeat(`"",`, feed.MaxViewers), ",") + `]}`:   true,
		`{"viewers":[` + strings.TrimSuffix(strings.Repeat(`"",`, feed.MaxViewers+1), ",") + `]}`: false,
	}
}

// fanoutAgrees fails t unless readFanout and the strict decoder agree on a body that readFanout
// accepts. It reports whether readFanout accepted the body.
func fanoutAgrees(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, body string) bool {
	t.Helper()
	got, ok := readFanout(body, wire.NewBuffer())
	if !ok {
		return false
	}
	var decoded fanoutRequest
	err := json.Unmarshal([]byte(body), &decoded, strict())
	want, missing := decoded.request(nil)
	if err != nil || missing != nil {
		t.Fatalf("%q is read as %+v, want it refused: %v, %v", body, got, err, missing)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q is read as\n%#v\nwant\n%#v", body, got, want)
	}
	return true
}

// TestReadFanout reads bodies, and with each byte of the short ones changed, added or left out.
func TestReadFanout(t *testing.T) {
	taken := 0
	for body, want := range fanoutsRead() {
		if took := fanoutAgrees(t, body); took != want {
			t.Errorf("%.200q: accepted %v, want %v", body, took, want)
		}
		if !want || len(body) > 1000 {
			continue
		}
		for at := range body {
			fanoutAgrees(t, body[:at]+body[at+1:])
			for _, c := range []byte("\x00\t \"\\{}[],:0a1-ntf\x7f\x80\xc3\xff") {
				if fanoutAgrees(t, body[:at]+string([]byte{c})+body[at+1:]) {
					taken++
				}
				fanoutAgrees(t, body[:at]+string([]byte{c})+body[at:])
			}
		}
	}
	if taken == 0 {
		t.Error("no changed body was accepted")
	}
}

func FuzzReadFanout(f *testing.F) {
	for body := range fanoutsRead() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) { fanoutAgrees(t, body) })
}
