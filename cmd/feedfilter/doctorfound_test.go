package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// The user that doctor asks for may do what the Terraform module lets its user do, but for what is of no use.
func TestDoctorRuleIsTheModules(t *testing.T) {
	text, err := os.ReadFile("../../infra/terraform/access.tf")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("access_string = join("))
	text, _, _ = bytes.Cut(text, []byte("\n  ))"))
	commands := func(text string) []string {
		all := regexp.MustCompile(`\+[a-z|]+`).FindAllString(text, -1)
		slices.Sort(all)
		return slices.DeleteFunc(all, func(c string) bool { return c == "+client|setinfo" }) // Redis 7.0 does not know it
	}
	if got, want := commands(aclRule("feed")), commands(string(text)); !slices.Equal(got, want) || len(want) < 20 {
		t.Errorf("doctor asks for %q, the module gives %q", got, want)
	}
}

// Whatever servers say, the report is JSON, and moves no cursor.
func TestDoctorPrintsWhatServersSay(t *testing.T) {
	for _, asJSON := range []bool{true, false} {
		out := &bytes.Buffer{}
		r := &doctorReport{out: out, json: asJSON}
		if err := r.add("server", finding{found: "a\xffb\x1b[31mc\nd", todo: "e\x00\u202ef"}, 0); err != nil {
			t.Fatal(err)
		}
		_ = r.end(false)
		if bytes.ContainsAny(out.Bytes(), "\x1b\x00") || !utf8.Valid(out.Bytes()) || !strings.Contains(out.String(), "a?b?[31mc?d") {
			t.Errorf("%q", out)
		}
		if asJSON && !json.Valid(out.Bytes()) {
			t.Errorf("not JSON: %s", out)
		}
	}
}

// A user of PostgreSQL who may not make the ledger, or not change it, is told apart from one who may.
func TestDoctorPostgresRights(t *testing.T) {
	server := pgtest.Start(t)
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	do := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE ROLE reader LOGIN`)
	do(`REVOKE CREATE ON DATABASE postgres FROM PUBLIC`)
	url := server.Schema()
	_, rest, _ := strings.Cut(url, "@")
	asReader := "postgres://reader@" + rest
	if _, err := ledger.Inspect(t.Context(), url); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("who may make it: %v", err)
	}
	if _, err := ledger.Inspect(t.Context(), asReader); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "reader may not make") {
		t.Errorf("who may not make it: %v", err)
	}
	l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, schema, _ := strings.Cut(url, "search_path=")
	schema, _, _ = strings.Cut(schema, "&")
	do(`GRANT USAGE ON SCHEMA ` + schema + ` TO reader`)
	do(`GRANT SELECT ON ALL TABLES IN SCHEMA ` + schema + ` TO reader`)
	for name, c := range map[string]struct {
		url    string
		denied bool
	}{"owner": {url, false}, "reader": {asReader, true}} {
		i, err := ledger.Inspect(t.Context(), c.url)
		if err != nil || i.Denied != c.denied {
			t.Errorf("%s: denied %v, %v", name, i.Denied, err)
		}
		if got := judgeInspection(i).verdict; (got == verdictFail) != c.denied {
			t.Errorf("%s: %v", name, got)
		}
	}
}
