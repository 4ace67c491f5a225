package ledger_test

import (
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// TestPosition: what a position says is read as it was written.
func TestPosition(t *testing.T) {
	p := ledger.Position("00000003:0/16B3748").With("tables", "1f2e").With("reading", "").With("last", "a=b")
	if p != "00000003:0/16B3748 tables=1f2e reading last=a=b" {
		t.Errorf("the position is %q", p)
	}
	var fields []string
	for name, value := range p.Fields() {
		fields = append(fields, name+" is "+value)
		if len(fields) == 3 {
			break // the last one, and no more are yielded
		}
	}
	if want := []string{"tables is 1f2e", "reading is ", "last is a=b"}; !slices.Equal(fields, want) {
		t.Errorf("fields %q, want %q", fields, want)
	}
	if at, ok := p.Log(); !ok || at != (ledger.LogPosition{Timeline: 3, Byte: 0x16B3748}) {
		t.Errorf("it is at %v, %v", at, ok)
	}
	for _, none := range []ledger.Position{"", "events/2 tables=1"} {
		if at, ok := none.Log(); ok {
			t.Errorf("%q is at %v", none, at)
		}
	}
	for range ledger.Position("0/1").Fields() {
		t.Error("a position of one word has fields")
	}
}

// A position of a log is read as it was written. Any other text is none.
func TestLogPosition(t *testing.T) {
	for text, want := range map[string]ledger.LogPosition{
		"0/0":                        {},
		"0/16B3748":                  {Byte: 0x16B3748},
		"A/1":                        {Byte: 0xA00000001},
		"00000003:0/16B3748":         {Timeline: 3, Byte: 0x16B3748},
		"FFFFFFFF:FFFFFFFF/FFFFFFFF": {Timeline: 1<<32 - 1, Byte: 1<<64 - 1},
	} {
		if p, ok := ledger.ParseLogPosition(text); !ok || p != want || p.String() != text {
			t.Errorf("%q: %+v, %v, %q", text, p, ok, p)
		}
	}
	if p, ok := ledger.ParseLogPosition("3:0/16b3748"); !ok || p != (ledger.LogPosition{Timeline: 3, Byte: 0x16B3748}) {
		t.Errorf("short and in lower case: %+v, %v", p, ok)
	}
	for _, text := range []string{"", "0", "/", "0/", "/1", "0/1 x", "0:0/1", ":0/1", "1:2:0/1", "100000000:0/1", "100000000/1", "0/-1", "x/1"} {
		if p, ok := ledger.ParseLogPosition(text); ok {
			t.Errorf("%q is read as %v", text, p)
		}
	}
}
