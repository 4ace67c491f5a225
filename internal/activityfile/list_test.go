package activityfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
)

// listOf is a list of a kind whose ids have a fold.
func listOf(fold activity.Fold) List {
	return List{"us", activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Fold: fold}}
}

// readList returns the activities of a file, such as "x.example" or "x.example until 2900".
func readList(t testing.TB, name, text string, list List) (all []string, err error) {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(name, []byte(text), 0o600))
	f, err := Open(name, "", nil)
	must(t, err)
	defer f.Close()
	err = ReadList(f, list, func(a activity.Activity) error {
		if a.User != list.User || a.Kind != list.Kind.Name || a.Remove {
			t.Errorf("%q: an activity of another list: %+v", text, a)
		}
		id := a.Target
		if !a.Since.IsZero() {
			id += " since " + a.Since.Format("2006")
		}
		if !a.Until.IsZero() {
			id += " until " + a.Until.Format("2006")
		}
		all = append(all, id)
		return activity.CheckID(a.Target, "target")
	})
	return all, err
}

func TestReadList(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string // ids, separated by "|"
	}{
		// Mastodon's exports for a user: of domains, blocked, muted and followed accounts.
		{"domain_blocks.csv", "x.example\ny.example\n", "x.example|y.example"},
		{"blocked_accounts.csv", "a@x.example\nb@y.example", "a@x.example|b@y.example"},
		{"muted_accounts.csv", "Account address,Hide notifications\na@x.example,true\n", "a@x.example"},
		{"following_accounts.csv", "Account address,Show boosts,Notify on new posts,Languages\n" +
			"a@x.example,true,false,\"en, de\"\nb@y.example,true,false,\n", "a@x.example|b@y.example"},
		// Those for a server's admin, and lists that others make of them.
		{"blocks.csv", "#domain,#severity,#reject_media,#reject_reports,#public_comment,#obfuscate\n" +
			"x.example,suspend,true,true,\"spam, and\n\"\"more\"\"\",false\ny.example,silence,,,,\n", "x.example|y.example"},
		{"blocks.csv", "#domain\nx.example\n", "x.example"},
		{"blocks.csv", "domain,severity\r\nx.example,suspend\r\n", "x.example"},
		{"blocks.csv", "severity,Domain\nsuspend,x.example\n", "x.example"},
		// CSV of our own.
		{"a.csv", "target\nx.example\ntarget.example\n", "x.example|target.example"},
		{"a.csv", "until,target,since\n2900-01-01T00:00:00Z,x.example,2020-01-01T00:00:00Z\n,y.example,\n", "x.example since 2020 until 2900|y.example"},
		{"a.csv", "user,kind,target,op\nus,domain-mute,x.example,add\nus,domain-mutes,y.example,\n", "x.example|y.example"},
		{"a.csv", "\ufefftarget\nx.example\n", "x.example"},
		{"a.csv", "\n\n x.example \n  \ny.example", "x.example|y.example"},
		{"a.csv", "target\nx.example\ntarget\ny.example\n", "x.example|y.example"}, // two files, joined
		{"a.csv", "\"x.example\"\n\"y,\"\"z\"\n", "x.example|y,\"z"},
		{"a.csv", "", ""},
		{"a.csv", "#domain,#severity\n", ""},
		// Text.
		{"a.txt", "x.example\n\n  y.example\t\r\nz.example", "x.example|y.example|z.example"},
		{"a.txt", "# who\n#\n#x.example\ny.example\n", "y.example"},
		{"a.txt", "a,\"b\n", "a,\"b"},
		{"a.txt", "\ufeffx.example\n", "x.example"},
		{"a.txt", "", ""},
		// NDJSON.
		{"a.ndjson", `{"target":"x.example"}` + "\n\n" + `{"user":"us","kind":"domain-mutes","target":" y ","op":"add","since":"2020-01-01T00:00:00Z","until":"2900-01-01T00:00:00Z"}`,
			"x.example| y  since 2020 until 2900"},
	} {
		got, err := readList(t, c.name, c.text, listOf(activity.FoldHost))
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q is read as %q, %v; want %q", c.name, c.text, got, err, c.want)
		}
	}
}

// In a column of phrases, what is a header elsewhere is a phrase, but for target. Beside other
// columns it is a header.
func TestReadListOfPhrases(t *testing.T) {
	for text, want := range map[string][]string{
		"domain\nspoiler\n":                         {"domain", "spoiler"},
		"#domain\ndomain\n":                         {"#domain", "domain"},
		"Account address\nspoiler\n":                {"Account address", "spoiler"},
		"target\ndomain\n":                          {"domain"},
		"domain,severity\nspoiler,x\n":              {"spoiler"},
		"Account address,Show boosts\na@x.y,true\n": {"a@x.y"},
	} {
		if got, err := readList(t, "a.csv", text, listOf(activity.FoldText)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is read as %q, %v; want %q", text, got, err, want)
		}
	}
}

// A line that begins with # is a comment only where it is unlikely to be an id.
func TestReadListComments(t *testing.T) {
	const text = "# a list\n#\n#go\n"
	for fold, want := range map[activity.Fold][]string{
		activity.AsIs: {"#go"}, activity.FoldCase: {"#go"}, activity.FoldHost: nil, activity.FoldDomain: nil,
	} {
		if got, err := readList(t, "a.txt", text, listOf(fold)); err != nil || !slices.Equal(got, want) {
			t.Errorf("with fold %q, it reads %q, %v; want %q", fold, got, err, want)
		}
	}
	if got, err := readList(t, "a.csv", "#go\n# x\n", listOf(activity.AsIs)); err != nil || !slices.Equal(got, []string{"#go", "# x"}) {
		t.Errorf("in CSV, it reads %q, %v", got, err)
	}
}

func TestReadListRefuses(t *testing.T) {
	long := strings.Repeat("x", maxRecord)
	for _, c := range []struct {
		name, text string
		want       string
	}{
		{"a.txt", "<!DOCTYPE html>\n<title>502</title>\n", "1: the file is HTML or XML, and no list"},
		{"a.csv", "\ufeff\n <html>\n", "1: the file is HTML or XML, and no list"},
		{"a.ndjson", "<html>\n", "1: the file is HTML or XML"},
		{"a.csv", `{"error":"gone"}`, "1: the file is JSON: give --format ndjson"},
		{"a.txt", `{"target":"x.example"}`, "1: the file is JSON: give --format ndjson"},
		{"a.txt", "404: Not Found", `1: target: "404: Not Found" is no domain`},
		{"a.csv", "x.example\ntoo many requests\n", `2: target: "too many requests" is no domain`},
		{"a.csv", "PK\x03\x04\x00\x00", "1: the file is not plain text in UTF-8"},
		{"a.csv", "\x1f\x8b\xff\xff", "1: the file is not plain text in UTF-8"},
		{"a.csv", "x.example,suspend\n", "1: 2 columns, and 0 of ids: want a header with one column target, domain or Account address"},
		{"a.csv", "Friends,a@x.example\n", "1: 2 columns, and 0 of ids"},
		{"a.csv", "domain,target\nx.example,y\n", "1: 2 columns, and 2 of ids"},
		{"a.csv", "target,ends\nx.example,\n", `1: header: unknown column "ends"`},
		{"a.csv", "target,since,since\nx.example,,\n", `1: header: duplicate column "since"`},
		{"a.csv", "domain,severity\nx.example\n", "2: 1 fields, want 2"},
		{"a.csv", "x.example\ny.example,suspend\n", "2: 2 fields, want 1"},
		{"a.csv", "domain,severity\n,suspend\n", "2: target: the id is empty or missing"},
		{"a.csv", "x.example\n\"y.example\n", `2: extraneous or missing " in quoted-field`},
		{"a.csv", "target,until\nx.example,soon\n", `2: until: "soon" is not a time`},
		{"a.csv", "target,since\nx.example,2900-01-01T00:00:00Z\n", `2: since: "2900-01-01T00:00:00Z" is in the future`},
		{"a.csv", "target,op\nx.example,remove\n", "2: op: remove is not for a list, which says what there is"},
		{"a.csv", "target,op\nx.example,ad\n", `2: op: "ad" is neither add nor remove`},
		{"a.csv", "user,target\nthem,x.example\n", `2: user: "them" is not "us", whose list it is`},
		{"a.csv", "kind,target\nblock,x.example\n", `2: kind: "block" is not domain-mute, the kind of the list`},
		{"a.ndjson", `{"target":"x.example"}` + "\n" + `{"user":"","target":"y.example"}`, `2: user: "" is not "us"`},
		{"a.ndjson", `{"target":"x.example","op":"remove"}`, "1: op: remove is not for a list"},
		{"a.ndjson", `{"target":"x.example"`, "1: not JSON"},
		{"a.ndjson", `{"targets":"x.example"}`, `1: unknown field "targets"`},
		{"a.ndjson", `{}`, "1: target: the id is empty or missing"},
		{"a.txt", "x.example\n" + long + "\ny.example\n", "2: the line is longer than 65535 bytes"},
		{"a.txt", "x.example\n\xff\n", "2: target: "},
	} {
		_, err := readList(t, c.name, c.text, listOf(activity.FoldHost))
		bad, ok := errors.AsType[*LineError](err)
		if !ok || !strings.HasPrefix(fmt.Sprintf("%d: %v", bad.Line, bad.Err), c.want) {
			t.Errorf("%s: %.80q is refused with %v; want %q", c.name, c.text, err, c.want)
		}
	}
}

// FuzzReadList reads anything without a panic, and refuses it with the number of a line, or passes
// on valid ids.
func FuzzReadList(f *testing.F) {
	for _, text := range []string{"x.example\n#y\n", "target,until\nx,\n", `{"target":"x"}`, "\"a\nb\",c\n", "\ufeff#domain\n"} {
		f.Add(text, "a.csv")
		f.Add(text, "a.txt")
		f.Add(text, "a.ndjson")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		if FormatOf(name) == "" || strings.ContainsAny(name, "/\x00") || len(name) > 20 {
			return
		}
		_, err := readList(t, name, text, listOf(activity.FoldHost))
		if bad, ok := errors.AsType[*LineError](err); err != nil && (!ok || bad.Line < 1) {
			t.Errorf("%q is refused without a line: %v", text, err)
		}
	})
}
