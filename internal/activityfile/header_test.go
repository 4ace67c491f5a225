package activityfile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/feedfilter/feedfilter/activity"
)

// firstOf returns the first activity of a file, or its error.
func firstOf(t *testing.T, name, text string) (activity.Activity, error) {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(name, []byte(text), 0o600))
	f, err := Open(name, "", nil)
	must(t, err)
	defer f.Close()
	r, err := NewReader(f, activity.BuiltinKinds().Check, Checkpoint{})
	must(t, err)
	b := r.Batch(1, false)
	if b.Err != nil {
		return activity.Activity{}, errors.Join(b.Bad...)
	}
	if len(b.Bad) > 0 {
		t.Fatalf("%q: a line was skipped: %v", text, b.Bad)
	}
	return b.Activities[0], nil
}

// Columns have names, or the documented order: nobody's block is read the other way round.
func TestHeader(t *testing.T) {
	want := activity.Activity{User: "1", Kind: "block", Target: "2"}
	for text, refused := range map[string]string{
		"1,block,2\n":                                    "",
		"1,block,2,\n":                                   "",
		"user,kind,target\n1,block,2\n":                  "",
		"Target,Kind,User\n2,block,1\n":                  "",
		"TARGET, kind,\tuser \r\n2,block,1\r\n":          "",
		"\n\ntarget,kind,user,op\n2,block,1\n":           "",
		"target,\"kind\",user\n2,block,1\n":              "",
		"followee,block,follower\n2,block,1\n":           `1: ["followee" "block" "follower"] may be a header of other names, or an activity: begin the file with a header, with user,kind,target`,
		"\n\"Blocked user\",block,Blocking-user\n":       `2: ["Blocked user" "block" "Blocking-user"] may be a header`,
		"gefolgt_von,hide,posté,add\n":                   `1: ["gefolgt_von" "hide" "posté" "add"] may be a header`,
		"blocked,kind,blocker\n2,block,1\n":              `1: header: unknown column "blocked": want one with user,kind,target, and optionally op,since,until`,
		"user_id,kind,target\n1,block,2\n":               `1: header: unknown column "user_id"`,
		"target,kind,user,\n2,block,1,\n":                `1: header: unknown column ""`,
		"target,kind\n2,block\n":                         `1: header: missing column "user"`,
		"target,kind,user,kind\n2,block,1,block\n":       `1: header: duplicate column "kind"`,
		"user,block,target\n1,block,2\n":                 `1: header: unknown column "block"`,
		"blocked,how,blocker\n2,block,1\n":               `1: neither a header, with user,kind,target, and optionally op,since,until, nor an activity: kind: there is no kind "how"`,
		"\n2,1,block\n":                                  `2: neither a header`,
		"1,block,\"2\n1,block,2\n":                       `1: neither a header`,
		"user,kind,\"target\n1,block,2\n":                `1: neither a header`,
		"2,block,1,,,\n":                                 `1: neither a header`,
		"user;kind;target\n1;block;2\n":                  "1: no commas",
		"1\tblock\t2\n":                                  "1: no commas",
		strings.Repeat("x", maxRecord) + "\n1,block,2\n": "1: the line is longer",
	} {
		a, err := firstOf(t, "a.csv", text)
		switch {
		case refused == "" && (err != nil || a != want):
			t.Errorf("%.80q is read as %+v, %v", text, a, err)
		case refused != "" && (err == nil || !strings.Contains(err.Error(), "a.csv:"+refused)):
			t.Errorf("%.80q: %+v, error %v, want %q", text, a, err, refused)
		}
	}
}

// Columns are read by their names, in any order, and a file of ids that are words has a header.
func TestHeaderOrders(t *testing.T) {
	want := map[string]string{"user": "bob", "kind": "block", "target": "alice", "op": "remove", "since": "", "until": ""}
	var orders func(left, names []string)
	orders = func(left, names []string) {
		if len(left) > 0 {
			for i, name := range left {
				orders(slices.Delete(slices.Clone(left), i, i+1), append(slices.Clip(names), name))
			}
			return
		}
		fields := make([]string, len(names))
		for i, name := range names {
			fields[i] = want[name]
		}
		text := strings.Join(names, ",") + "\n" + strings.Join(fields, ",") + "\n"
		a, err := firstOf(t, "a.csv", text)
		if remove := slices.Contains(names, "op"); err != nil || a != (activity.Activity{User: "bob", Kind: "block", Target: "alice", Remove: remove}) {
			t.Errorf("%q is read as %+v, %v", text, a, err)
		}
	}
	orders([]string{"user", "kind", "target"}, nil)
	orders(columnNames(), nil)
}

// A line of NDJSON names its fields; one that names others is refused.
func TestNamesInNDJSON(t *testing.T) {
	for text, refused := range map[string]string{
		`{"target":"alice","kind":"block","user":"bob"}`:         "",
		`{"followee":"alice","kind":"block","follower":"bob"}`:   `unknown field "followee"`,
		`{"User":"bob","kind":"block","target":"alice"}`:         `unknown field "User"`,
		`{"user":"bob","user":"eve","kind":"block","target":""}`: `duplicate field "user"`,
		`{"kind":"block","target":"alice"}`:                      "user",
		`["followee","block","follower"]`:                        "not a JSON object",
		"followee,block,follower":                                "not JSON",
	} {
		name := filepath.Join(t.TempDir(), "a.ndjson")
		must(t, os.WriteFile(name, []byte(text), 0o600))
		lines, _, _ := readAll(t, name, Checkpoint{}, 1)
		good := lines[0].activity == activity.Activity{User: "bob", Kind: "block", Target: "alice"}
		if len(lines) != 1 || good != (refused == "") || !strings.Contains(lines[0].problem, refused) {
			t.Errorf("%s is read as %+v, want %q", text, lines, refused)
		}
	}
}

// The columns of a joined file are unknown from its header on.
func TestSecondHeader(t *testing.T) {
	for text, refused := range map[string]string{
		"user,kind,target\n1,block,2\nuser,Kind,target\n1,block,3\n":     "",
		"user,kind,target\n1,block,2\nuser,block,target\n":               "",
		"user,kind,target\n1,block,2\ntarget,kind,user\n3,block,1\n":     `:3: a second header, ["target" "kind" "user"], after columns user,kind,target`,
		"1,block,2\nuser,kind,target\n1,block,3\n":                       ":2: a second header",
		"user,kind,target\n1,block,2\nblocked,kind,blocker\n3,block,1\n": ":3: a second header",
	} {
		name := filepath.Join(t.TempDir(), "a.csv")
		must(t, os.WriteFile(name, []byte(text), 0o600))
		f, err := Open(name, "", nil)
		must(t, err)
		r, err := NewReader(f, activity.BuiltinKinds().Check, Checkpoint{})
		must(t, err)
		b := r.Batch(10, false)
		f.Close()
		bad := errors.Join(b.Bad...)
		switch {
		case refused == "" && (len(b.Activities) != 2 || b.Err != nil || bad != nil):
			t.Errorf("%q: read %+v, error %v, %v", text, b.Activities, b.Err, bad)
		case refused != "" && (len(b.Activities) != 1 || b.Err == nil || bad == nil || !strings.Contains(bad.Error(), refused)):
			t.Errorf("%q: read %+v, error %v, %v, want %q", text, b.Activities, b.Err, bad, refused)
		}
	}
}

// A file in another encoding is refused.
func TestEncoding(t *testing.T) {
	const text = "user,kind,target\n1,block,2\n"
	var little, big, packed bytes.Buffer
	for _, unit := range utf16.Encode([]rune(text)) {
		little.Write([]byte{byte(unit), byte(unit >> 8)})
		big.Write([]byte{byte(unit >> 8), byte(unit)})
	}
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())
	for _, content := range []string{
		"\xff\xfe" + little.String(), "\xfe\xff" + big.String(), little.String(), big.String(), packed.String(),
		"PK\x03\x04\x14\x00", // a spreadsheet
	} {
		for _, name := range []string{"a.csv", "a.ndjson"} {
			if _, err := firstOf(t, name, content); err == nil || !strings.Contains(err.Error(), "not plain text in UTF-8") {
				t.Errorf("%s with %.20q: error %v", name, content, err)
			}
		}
	}
}
