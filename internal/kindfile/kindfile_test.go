package kindfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// withBuiltin returns the built-in kinds with changes, and more kinds.
func withBuiltin(change func(name string, k *activity.Kind), more ...activity.Kind) []activity.Kind {
	all := slices.Clone(activity.BuiltinKinds().All())
	for i := range all {
		change(all[i].Name, &all[i])
	}
	return append(all, more...)
}

func TestParse(t *testing.T) {
	asIs := func(string, *activity.Kind) {}
	limited := func(name string, k *activity.Kind) {
		switch name {
		case "block":
			k.Limit = 5000
		case "seen":
			k.Window, k.Parts, k.Most = 36*time.Hour, 6, 500
		}
	}
	for name, c := range map[string]struct {
		file string
		want []activity.Kind
	}{
		"none": {`{"kinds": []}`, withBuiltin(asIs)},
		"one-way": {
			`{"kinds":[{"name":"mute","target":"user","effect":"drop","limit":7}]}`,
			withBuiltin(asIs, activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Limit: 7}),
		},
		"not both": {
			`{"kinds":[{"name":"mute","target":"user","effect":"drop","two_way":false}]}`,
			withBuiltin(asIs, activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop}),
		},
		"two-way": {
			`{"kinds":[{"two_way":true,"effect":"annotate","target":"user","comment":"why","name":"ally","plural":"allies"}]}`,
			withBuiltin(asIs, activity.Kind{
				Name: "ally", Plural: "allies", Target: activity.User, Effect: activity.Annotate, Reverse: "ally-by",
			}),
		},
		"roles": {
			`{"kinds":[{"name":"no-repost","target":"user","effect":"drop","roles":["repost","author"]}]}`,
			withBuiltin(asIs, activity.Kind{
				Name: "no-repost", Plural: "no-reposts", Target: activity.User, Effect: activity.Drop, Roles: []string{"repost", "author"},
			}),
		},
		"over": {
			`{"kinds":[{"name":"follow","target":"user","effect":"keep","over":["mutes","hide"]},{"name":"mute","target":"user","effect":"drop"}]}`,
			withBuiltin(asIs,
				activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
				activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"mute", "hide"}}),
		},
		"roll-up": {
			`{"facets":{"url":{"rollup":"path","fold":"lower"},"domain":{"rollup":"domain"}},"kinds":[
				{"name":"a","target":"url","effect":"drop"},{"name":"b","target":"domain","effect":"annotate"}]}`,
			withBuiltin(asIs,
				activity.Kind{
					Name: "a", Plural: "as", Target: "url", Effect: activity.Drop, Fold: activity.FoldLower, Rollup: activity.RollupPath,
				},
				activity.Kind{Name: "b", Plural: "bs", Target: "domain", Effect: activity.Annotate, Rollup: activity.RollupDomain}),
		},
		"fold": {
			`{"facets":{"domain":{"fold":"domain"},"tag":{"fold":"lower"},"thread":{}},"kinds":[
				{"name":"a","target":"domain","effect":"drop"},{"name":"b","target":"domain","effect":"annotate"},
				{"name":"c","target":"tag","effect":"keep","over":["a"]},{"name":"d","target":"thread","effect":"drop"}]}`,
			withBuiltin(asIs,
				activity.Kind{Name: "a", Plural: "as", Target: "domain", Effect: activity.Drop, Fold: activity.FoldDomain},
				activity.Kind{Name: "b", Plural: "bs", Target: "domain", Effect: activity.Annotate, Fold: activity.FoldDomain},
				activity.Kind{Name: "d", Plural: "ds", Target: "thread", Effect: activity.Drop},
				activity.Kind{Name: "c", Plural: "cs", Target: "tag", Effect: activity.Keep, Over: []string{"a"}, Fold: activity.FoldLower}),
		},
		"text": {
			`{"facets":{"phrase":{"text":true},"tag":{"text":false}},"kinds":[
				{"name":"a","target":"phrase","effect":"drop"},{"name":"b","target":"tag","effect":"drop"}]}`,
			withBuiltin(asIs,
				activity.Kind{Name: "a", Plural: "as", Target: "phrase", Effect: activity.Drop, Fold: activity.FoldText},
				activity.Kind{Name: "b", Plural: "bs", Target: "tag", Effect: activity.Drop}),
		},
		"fan-out": {
			`{"kinds":[{"name":"mute","target":"user","effect":"drop","fanout":true}]}`,
			withBuiltin(asIs, activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Fanout: true}),
		},
		"window": {
			`{"kinds":[{"name":"glimpse","target":"post","effect":"annotate","window":"1d12h","parts":64,"most":100000}]}`,
			withBuiltin(asIs, activity.Kind{
				Name: "glimpse", Plural: "glimpses", Target: activity.Post, Effect: activity.Annotate, Window: 36 * time.Hour, Parts: 64,
				Most: 100_000,
			}),
		},
		"two of them, escaped": {
			`{"kinds":[{"name":"\u0061","target":"post","effect":"drop"},
				{"name":"b","plural":"c","target":"post","effect":"drop"}]}`,
			withBuiltin(asIs,
				activity.Kind{Name: "a", Plural: "as", Target: activity.Post, Effect: activity.Drop},
				activity.Kind{Name: "b", Plural: "c", Target: activity.Post, Effect: activity.Drop}),
		},
		"built-in kinds": {
			`{"kinds":[{"name":"block","limit":5000},{"name":"seen","window":"36h","parts":6,"most":500},
				{"name":"like","comment":"as it is","plural":"likes","target":"post","effect":"annotate","two_way":false}]}`,
			withBuiltin(limited),
		},
		"a built-in kind said again": {
			`{"kinds":[{"name":"block","plural":"blocks","target":"user","effect":"drop","two_way":true,"limit":5000},
				{"name":"seen","plural":"seen","target":"post","effect":"drop","window":"1d12h","parts":6,"most":500}]}`,
			withBuiltin(limited),
		},
	} {
		t.Run(name, func(t *testing.T) {
			kinds, err := Parse([]byte(c.file))
			if err != nil {
				t.Fatal(err)
			}
			if got := kinds.All(); !slices.EqualFunc(got, c.want, activity.Kind.Equal) {
				t.Errorf("%s:\nread as %+v\nwant    %+v", c.file, got, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const form = `not of the form {"kinds": [{...}, ...]}`
	const name32 = "abcdefghijklmnopqrstuvwxyzabcdef"
	// kind returns a file with one valid kind and more fields.
	kind := func(more string) string {
		return `{"kinds":[{"name":"mute","target":"user","effect":"drop"` + more + `}]}`
	}
	post := func(name string) string { return `{"kinds":[{"name":"` + name + `","target":"post","effect":"drop"}]}` }
	for _, c := range []struct{ file, want string }{
		{``, "line 1: not JSON: unexpected EOF"},
		{`nope`, "line 1: not JSON: "},
		{"{\n\"kinds\":[\n{]}", "line 3: not JSON: "},
		{`{"kinds":[]} {}`, "line 1: not JSON: invalid character '{' after top-level value"},
		{`{"kinds":[]`, "line 1: not JSON: unexpected EOF"},
		{"{\"kinds\":[],\n\"k\":1}", `unknown field "k", want kinds or facets`},
		{`{"kinds":[],"kinds":[]}`, `line 1: not JSON: duplicate field "kinds"`},
		{`{"Kinds":[]}`, `unknown field "Kinds", want kinds or facets`},
		{`{}`, form},
		{`null`, form},
		{`[]`, form},
		{`{"kinds":null}`, form},
		{`{"kinds":{}}`, form},
		{`{"kinds":[` + strings.Repeat("1,", maxKinds) + `1]}`, "101 kinds, at most 100"},

		{
			`{"kinds":[null,1,{}]}`,
			"kind number 1: not an object\nkind number 2: not an object\nkind number 3: name: missing, target: missing, effect: missing",
		},
		{`{"kinds":[{"name":1}]}`, "kind number 1: name: not text, target: missing, effect: missing"},
		{kind(`,"name":"n"`), `line 1: not JSON: duplicate field "name"`},
		{kind(`,"limit":1,"limit":1`), `line 1: not JSON: duplicate field "limit"`},
		{kind(`,"Limit":1`), `kind "mute": unknown field "Limit"`},
		{kind(`,"b":1,"a":null`), `kind "mute": unknown field "a", unknown field "b"`},
		{kind(`,"limit":null`), `kind "mute": limit: not a whole number from 1 to 4294967295`},
		{kind(`,"limit":0`), `kind "mute": limit: 0 is not 1 or more`},
		{kind(`,"limit":-1`), `kind "mute": limit: not a whole number from 1 to 4294967295`},
		{kind(`,"limit":4294967296`), `kind "mute": limit: not a whole number from 1 to 4294967295`},
		{kind(`,"limit":1.5`), `kind "mute": limit: not a whole number from 1 to 4294967295`},
		{kind(`,"limit":"1"`), `kind "mute": limit: not a whole number from 1 to 4294967295`},
		{kind(`,"over":["hide"]`), `kind "mute": only a kind that keeps overrules others (over)`},
		{kind(`,"fanout":1`), `kind "mute": fanout: not true or false`},
		{kind(`,"fanout":true,"two_way":true`), `kind "mute": fan-out is for one-way kinds without a window`},
		{kind(`,"over":null`), `kind "mute": over: not a list of texts`},
		{`{"kinds":[{"name":"f","target":"user","effect":"keep"}]}`, `kind "f": a kind that keeps needs the kinds that it overrules (over)`},
		{`{"kinds":[{"name":"f","target":"user","effect":"keep","over":["block"]}]}`, `kind "f": over: "block" is two-way`},
		{`{"kinds":[{"name":"f","target":"user","effect":"keep","over":["x"]}]}`, `kind "f": over: there is no kind "x"`},
		{`{"kinds":[{"name":"f","target":"user","effect":"keep","over":["like"]}]}`, `kind "f": over: "like" does not drop posts`},
		{`{"kinds":[{"name":"f","target":"post","effect":"keep","over":["seen"],"window":"1d"}]}`, `kind "f": a kind that keeps is one-way and has no window`},
		{kind(`,"roles":null`), `kind "mute": roles: not a list of texts`},
		{kind(`,"roles":"repost"`), `kind "mute": roles: not a list of texts`},
		{kind(`,"roles":[1]`), `kind "mute": roles: not a list of texts`},
		{kind(`,"roles":[]`), `kind "mute": 0 roles, want 1 to 16`},
		{kind(`,"roles":["a","a"]`), `kind "mute": role "a" is named twice`},
		{kind(`,"roles":["Repost"]`), `kind "mute": role "Repost": only lower-case letters and dashes`},
		{kind(`,"roles":["` + strings.Join(strings.Split("abcdefghijklmnopq", ""), `","`) + `"]`), `kind "mute": 17 roles, want 1 to 16`},
		{`{"kinds":[{"name":"m","target":"post","effect":"drop","roles":["repost"]}]}`, `kind "m": only a kind with users as targets has roles`},
		{`{"kinds":[{"name":"block","roles":["repost"]}]}`, `kind "block": a built-in kind can set only its limit, or its window, parts and most`},
		{`{"facets":null,"kinds":[]}`, `facets: not an object`},
		{`{"facets":[],"kinds":[]}`, `facets: not an object`},
		{`{"facets":{"tag":null},"kinds":[]}`, `facet "tag": not an object`},
		{`{"facets":{"tag":{"fold":null}},"kinds":[]}`, `facet "tag": fold: not text`},
		{`{"facets":{"tag":{"Fold":"lower"}},"kinds":[]}`, `facet "tag": unknown field "Fold"`},
		{`{"facets":{"tag":{"fold":"lower"}},"kinds":[]}`, `facet "tag": no kind has this target`},
		{`{"facets":{"user":{"fold":"lower"}},"kinds":[]}`, `facet "user": ids of users and posts are compared as they are`},
		{`{"facets":{"tag":{"fold":"upper"}},"kinds":[{"name":"a","target":"tag","effect":"drop"}]}`, `kind "a": fold "upper" is not case, host, lower or domain`},
		{`{"facets":{"tag":{"text":"yes"}},"kinds":[]}`, `facet "tag": text: not true or false`},
		{`{"facets":{"tag":{"text":true,"fold":"case"}},"kinds":[]}`, `facet "tag": text has a fold of its own: leave out fold`},
		{`{"facets":{"tag":{"fold":"text"}},"kinds":[]}`, `facet "tag": fold: write "text": true`},
		{`{"facets":{"tag":{"text":true,"rollup":"path"}},"kinds":[{"name":"a","target":"tag","effect":"drop"}]}`, `kind "a": phrases that are found in text have no roll-up`},
		{`{"facets":{"tag":{"text":true}},"kinds":[{"name":"a","target":"tag","effect":"drop","window":"1d"}]}`, `kind "a": a kind with a window cannot have phrases as targets`},
		{`{"facets":{"post":{"text":true}},"kinds":[]}`, `facet "post": ids of users and posts are compared as they are`},
		{`{"facets":{"tag":{"rollup":1}},"kinds":[]}`, `facet "tag": rollup: not text`},
		{`{"facets":{"tag":{"rollup":"up"}},"kinds":[{"name":"a","target":"tag","effect":"drop"}]}`, `kind "a": roll-up "up" is not domain or path`},
		{`{"facets":{"url":{"rollup":"path","fold":"domain"}},"kinds":[{"name":"a","target":"url","effect":"drop"}]}`, `kind "a": the fold domain is not for paths`},
		{kind(`,"parts":0`), `kind "mute": parts: 0 is not 1 or more`},
		{kind(`,"parts":null`), `kind "mute": parts: not a whole number`},
		{kind(`,"parts":3`), `kind "mute": 3 parts: 1 to 64, and only with a window`},
		{kind(`,"window":"1d","parts":65`), `kind "mute": 65 parts: 1 to 64, and only with a window`},
		{kind(`,"most":0`), `kind "mute": most: 0 is not 1 or more`},
		{kind(`,"most":null`), `kind "mute": most: not a whole number`},
		{kind(`,"most":1.5`), `kind "mute": most: not a whole number`},
		{kind(`,"most":3`), `kind "mute": most 3: 1 to 100000, and only with a window`},
		{kind(`,"window":"1d","most":100001`), `kind "mute": most 100001: 1 to 100000, and only with a window`},
		{kind(`,"window":"1d","most":-1`), `kind "mute": most -1: 1 to 100000, and only with a window`},
		{
			`{"kinds":[{"name":"block","most":5}]}`,
			`kind "block": a built-in kind can set only its limit, or its window, parts and most`,
		},
		{kind(`,"window":"1d","parts":-1`), `kind "mute": -1 parts: 1 to 64, and only with a window`},
		{kind(`,"window":"1d","limit":1`), `kind "mute": a kind with a window has no limit`},
		{kind(`,"window":"1d"`), `kind "mute": a kind with a window cannot have users as targets`},
		{kind(`,"window":"1d","two_way":true`), `kind "mute": a two-way kind has no window`},
		{kind(`,"window":"0d"`), `kind "mute": window: "0d" is not a duration such as 30d, 12h or 1d12h`},
		{kind(`,"window":""`), `kind "mute": window: "" is not a duration`},
		{kind(`,"window":30`), `kind "mute": window: not text`},
		{kind(`,"window":null`), `kind "mute": window: not text`},
		{kind(`,"window":"999ms"`), `kind "mute": window 999ms is not in 1 s to 100 years`},
		{kind(`,"window":"36501d"`), `kind "mute": window 876024h0m0s is not in 1 s to 100 years`},
		{kind(`,"comment":null`), `kind "mute": comment: not text`},
		{kind(`,"two_way":1`), `kind "mute": two_way: not true or false`},
		{kind(`,"two_way":null`), `kind "mute": two_way: not true or false`},
		{kind(`,"plural":null`), `kind "mute": plural: not text`},
		{kind(`,"plural":""`), `kind "mute": name "": not 1 to 32 bytes`},
		{kind(`,"plural":"blocks"`), `kind "mute": the name "blocks" is taken by the kind "block"`},
		{kind(`,"plural":"like"`), `kind "mute": the name "like" is taken by the kind "like"`},
		{post("hides"), `kind "hides": the name "hides" is taken by the kind "hide"`},
		{post("list"), `kind "list": the name is taken: by a field of requests or answers, or by a route`}, // its plural
		{
			`{"kinds":[{"name":"a","plural":"b","target":"post","effect":"drop"},{"name":"b","plural":"a","target":"post","effect":"drop"}]}`,
			`kind "b": the name "b" is taken by the kind "a"`,
		},
		{
			`{"kinds":[{"name":"f","target":"user","effect":"keep","over":["hides","hide"]}]}`,
			`kind "f": over: "hide" is named twice`,
		},
		{kind(`,"plural":"preview"`), `kind "mute": the name is taken: by a field of requests or answers, or by a route`},
		{kind(`,"plural":"a/b"`), `kind "mute": name "a/b": only lower-case letters and dashes`},
		{kind(`,"comment":"` + "\xff" + `"`), "line 1: not JSON: invalid UTF-8"},
		{
			`{"kinds":[{"name":"mute","target":"author","effect":null}]}`,
			`kind "mute": target: "author": the facet of people is called "user", effect: not text`,
		},
		{
			`{"kinds":[{"name":"mute","target":1,"effect":"Drop"}]}`,
			`kind "mute": target: not text, effect: "Drop" is not drop, annotate or keep`,
		},
		{
			`{"kinds":[{"name":"report","target":"post","effect":"drop","two_way":true}]}`,
			`kind "report": a two-way kind needs users as targets`,
		},
		{post("id"), `kind "id": the name is taken: by a field of requests or answers, or by a route`},
		{post(""), `kind "": name "": not 1 to 32 bytes`},
		{post(name32 + "g"), `kind "` + name32 + `g": name "` + name32 + `g": not 1 to 32 bytes`},
		{post(name32), `kind "` + name32 + `": name "` + name32 + `s": not 1 to 32 bytes`}, // its plural
		{post("Mute"), `kind "Mute": name "Mute": only lower-case letters and dashes`},
		{post("a b"), `kind "a b": name "a b": only lower-case letters and dashes`},
		{post("blocked-by"), `kind "blocked-by": the name "blocked-by" is taken`},
		{
			`{"kinds":[{"name":"a","target":"user","effect":"drop","two_way":true},{"name":"a-by","target":"post","effect":"drop"}]}`,
			`kind "a-by": the name "a-by" is taken`,
		},
		{
			`{"kinds":[{"name":"a-by","target":"post","effect":"drop"},{"name":"a","target":"user","effect":"drop","two_way":true}]}`,
			`kind "a": the name "a-by" is taken`,
		},
		{`{"kinds":[{"name":"block","limit":1},{"name":"block","limit":2}]}`, `kind "block": duplicate kind`},
		{
			`{"kinds":[{"name":"block","window":"1d"}]}`,
			`kind "block": a built-in kind can set only its limit, or its window, parts and most`,
		},
		{`{"kinds":[{"name":"block","two_way":false}]}`, `kind "block": a built-in kind can set only`},
		{`{"kinds":[{"name":"hide","effect":"annotate"}]}`, `kind "hide": a built-in kind can set only`},
		{`{"kinds":[{"name":"hide","target":"user"}]}`, `kind "hide": a built-in kind can set only`},
		{`{"kinds":[{"name":"like","plural":"liked"}]}`, `kind "like": a built-in kind can set only`},
		{`{"kinds":[{"name":"like","parts":2}]}`, `kind "like": a built-in kind can set only`},
		{`{"kinds":[{"name":"seen","limit":2}]}`, `kind "seen": a kind with a window has no limit`},
	} {
		kinds, err := Parse([]byte(c.file))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.200s:\nread as %v, error %v\nwant error %s", c.file, kinds, err, c.want)
		}
	}
}

// All mistakes are reported at once, each with its kind.
func TestParseNamesEveryMistake(t *testing.T) {
	_, err := Parse([]byte(`{"kinds":[
		{"name":"good","target":"post","effect":"drop"},
		{"name":"mute","target":"users","effect":"none","two_way":"yes","window":"1e9d","parts":0,"limit":0,"until":1},
		{"name":"block","limit":0,"effect":"annotate"},
		{"name":"x","target":"user","effect":"drop","plural":"goods"},
		{"target":"post","effect":"drop"},
		{"name":"seen","limit":3},
		{"name":"good","target":"post","effect":"drop"},
		{"name":"y","target":"post","effect":"drop","plural":"likes"}]}`))
	want := strings.Join([]string{
		`kind "mute": ` + strings.Join([]string{
			`target: "users": the facet of people is called "user"`, `effect: "none" is not drop, annotate or keep`, "two_way: not true or false",
			`window: "1e9d" is not a duration such as 30d, 12h or 1d12h`, "parts: 0 is not 1 or more", "limit: 0 is not 1 or more",
			`unknown field "until"`,
		}, ", "),
		`kind "block": limit: 0 is not 1 or more, a built-in kind can set only its limit, or its window, parts and most`,
		`kind "x": the name "goods" is taken by the kind "good"`,
		`kind number 5: name: missing`,
		`kind "seen": a kind with a window has no limit`,
		`kind "good": duplicate kind`,
		`kind "y": the name "likes" is taken by the kind "like"`,
	}, "\n")
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParseDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "12h": 12 * time.Hour, "1d12h": 36 * time.Hour, "0d1s": time.Second, "1d0s": day,
		"1d1h1m1s": day + time.Hour + time.Minute + time.Second,
		"65535d":   65535 * day, "1.5h": 90 * time.Minute, "": 0, "d": 0, "0d": 0, "0": 0, "-1d": 0, "+1d": 0, "1d-1h": 0, "1d-12h": 0, "-12h": 0,
		"1e9d": 0, "65536d": 0, "99999999999999999999d": 0, "65535d2562047h": 0, "2562048h": 0,
		"1.5d": 0, "1d1d": 0, "12h1d": 0, "1D": 0, " 1d": 0,
		"1d ": 0, "1": 0, "1 d": 0, "1w": 0, "1d1": 0, "\u0663d": 0,
	} {
		got, err := parseDays(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

// Any file gives valid kinds, the built-in ones first, or an error.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"kinds":[{"name":"mute","target":"user","effect":"drop","two_way":true,"limit":7},{"name":"seen","window":"1d12h","parts":3}]}`,
		`{"kinds":[{"name":"a","plural":"b","target":"post","effect":"annotate","window":"7d","comment":"\u00e4"},null,1]}`,
		`{"kinds":[{"name":"a","name":"b"}]}`, `{"kinds":{}} x`, `{"kinds":[{"name":"a-by"},{"name":"a","two_way":true}]}`,
	} {
		f.Add([]byte(seed))
	}
	builtin := activity.BuiltinKinds().All()
	f.Fuzz(func(t *testing.T, file []byte) {
		kinds, err := Parse(file)
		if err != nil {
			return
		}
		all := kinds.All()
		if _, err := activity.NewKinds(all...); err != nil {
			t.Errorf("read, but invalid: %v", err)
		}
		for i, was := range builtin {
			k := all[i]
			k.Limit, k.Window, k.Parts = was.Limit, was.Window, was.Parts
			if !k.Equal(was) || all[i].InLedger() != was.InLedger() {
				t.Errorf("%s became %+v", was.Name, all[i])
			}
		}
	})
}
