package access_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/access"
)

func entry(name, token, scopes string) string {
	return fmt.Sprintf(`{"name":%q,"hash":%q,"scopes":[%s]}`, name, access.HashToken(token), scopes)
}

func fileOf(entries ...string) string { return `{"tokens":[` + strings.Join(entries, ",") + `]}` }

func TestParseFile(t *testing.T) {
	good := entry("renderer", "a", `"feed:read"`)
	full := strings.TrimSuffix(entry("app", "b", `"feed:read","activity:write","ops:read"`), "}") +
		`,"expires":"2027-01-01T00:00:00+01:00","rate":0.5,"burst":20}`
	f, err := access.ParseFile([]byte(fileOf(good, full)))
	must(t, err)
	if len(f.Tokens) != 2 || f.Tokens[0].Name != "renderer" || !f.Tokens[0].Expires.IsZero() || f.Tokens[0].Rate != nil {
		t.Errorf("first of %+v", f)
	}
	if e := f.Tokens[1]; !e.Expires.Equal(time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)) || *e.Rate != 0.5 || *e.Burst != 20 || len(e.Scopes) != 3 {
		t.Errorf("second: %+v", e)
	}
	with := func(field string) string { return strings.TrimSuffix(good, "}") + "," + field + "}" }
	for text, wants := range map[string][]string{
		"":                                 {"invalid JSON"},
		"null":                             {"null"},
		"{}":                               {"tokens: 0, not 1 to 1000"},
		`{"tokens":[]}`:                    {"tokens: 0, not 1 to 1000"},
		`{"tokens":[],"tokens":[]}`:        {"duplicate name"},
		`{"token":[]}`:                     {"/token: unknown field"},
		fileOf(good) + "x":                 {"invalid JSON at byte"},
		fileOf(with(`"scope":1`)):          {"/tokens/0/scope: unknown field"},
		fileOf(with(`"expires":null`)):     {"/tokens/0/expires: null is not allowed"},
		fileOf(with(`"expires":"never"`)):  {"/tokens/0/expires: wrong type of value"},
		fileOf(with(`"rate":"1"`)):         {"/tokens/0/rate: wrong type of value"},
		fileOf(with(`"rate":0`)):           {"tokens[0].rate: 0 a second is not above 0 and up to 1000000"},
		fileOf(with(`"rate":1000001`)):     {"tokens[0].rate:"},
		fileOf(with(`"burst":5`)):          {"tokens[0].burst: needs a rate"},
		fileOf(with(`"rate":1,"burst":0`)): {"tokens[0].burst: 0 is less than 1"},
		fileOf(good, entry("renderer", "c", `"ops:read"`)): {"tokens[1].name: duplicate of tokens[0]"},
		fileOf(good, entry("other", "a", `"ops:read"`)):    {"tokens[1].hash: duplicate of tokens[0]"},
		fileOf(entry("r", "", `"ops:read"`)):               {"tokens[0].hash: is the hash of an empty token"},
		// All mistakes at once.
		fileOf(`{"name":"a b","hash":"sha256:00","scopes":["feed:write","ops:read","ops:read"],"burst":1}`, `{"name":"","hash":"","scopes":[]}`): {
			"tokens[0].name: not 1 to 64", "tokens[0].hash: must be sha256:", "tokens[0].scopes[0]: not one of", "tokens[0].scopes[2]: duplicate scope ops:read",
			"tokens[0].burst: needs a rate", "tokens[1].name:", "tokens[1].hash:", "tokens[1].scopes: empty",
		},
	} {
		_, err := access.ParseFile([]byte(text))
		if err == nil {
			t.Errorf("%s: accepted", text)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
	many := make([]string, 1001)
	for i := range many {
		many[i] = entry(fmt.Sprint(i), fmt.Sprint(i), `"ops:read"`)
	}
	if _, err := access.ParseFile([]byte(fileOf(many[:1000]...))); err != nil {
		t.Errorf("1000 tokens: %v", err)
	}
	if _, err := access.ParseFile([]byte(fileOf(many...))); err == nil {
		t.Error("1001 tokens are accepted")
	}
}

// TestParseFileShowsNoSecret checks that a token in place of its hash does not appear in the log.
func TestParseFileShowsNoSecret(t *testing.T) {
	const secret = "ff_RECOGNIZABLE"
	for _, text := range []string{
		`{"tokens":[{"name":"a","hash":"` + secret + `","scopes":["feed:read"]}]}`,
		`{"tokens":[{"name":"` + secret + ` ","hash":"x","scopes":["` + secret + `"]}]}`,
		`{"tokens":[{"name":"a","hash":"x","scopes":"` + secret + `"}]}`,
		`{"tokens":[{"name":"a","expires":"` + secret + `"}]}`,
		`{"tokens":"` + secret + `"}`, `"` + secret + `"`, secret, `{"` + secret, `{"tokens":[` + secret,
		`{"` + "\xff" + secret + `":1}`,
	} {
		if _, err := access.ParseFile([]byte(text)); err == nil || strings.Contains(err.Error(), "RECOGNIZABLE") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzTokenFile(f *testing.F) {
	f.Add([]byte(fileOf(entry("a", "a", `"feed:read"`))))
	f.Add([]byte(fileOf(strings.TrimSuffix(entry("a", "a", `"feed:read"`), "}")+`,"expires":"2027-01-01T00:00:00Z","rate":1e3,"burst":7}`, entry("b", "b", `"ops:read"`))))
	f.Add([]byte(`{"tokens":[{"name":null}]}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := access.ParseFile(text)
		if err != nil {
			if len(err.Error()) > 1000*(1+len(text)) {
				t.Errorf("an error of %d bytes for %d", len(err.Error()), len(text))
			}
			return
		}
		if err := file.Check(); err != nil {
			t.Fatalf("accepted, but refused again: %v", err)
		}
		names, hashes := make(map[string]bool), make(map[string]bool)
		for _, e := range file.Tokens {
			names[e.Name], hashes[strings.ToLower(e.Hash)] = true, true
			if len(e.Scopes) == 0 || e.Name == "" || len(e.Name) > 64 || strings.ContainsAny(e.Name, " \n\"\x00") || len(e.Hash) != 7+64 {
				t.Fatalf("accepted: %+v", e)
			}
			if e.Rate != nil && !(*e.Rate > 0) || e.Burst != nil && *e.Burst < 1 {
				t.Fatalf("accepted: %+v", e)
			}
		}
		if n := len(file.Tokens); n == 0 || len(names) != n || len(hashes) != n {
			t.Fatalf("%d tokens, %d names, %d hashes", n, len(names), len(hashes))
		}
	})
}
