package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// queries keeps the queries of entries that a ledger sends to PostgreSQL, and the one that sets a
// session up.
type queries struct {
	mu      sync.Mutex
	all     []pgx.TraceQueryStartData
	session pgx.TraceQueryStartData
}

func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case strings.Contains(data.SQL, "FROM entries"):
		q.all = append(q.all, data)
	case strings.Contains(data.SQL, "set_config(name"):
		q.session = data
	}
	return ctx
}

func (*queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns the queries since the last call.
func (q *queries) take() []pgx.TraceQueryStartData {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.all
	q.all = nil
	return all
}

// plan is a part of what EXPLAIN ANALYZE answers.
type plan struct {
	Relation string  `json:"Relation Name"`          //nolint:tagliatelle // names of PostgreSQL
	Rows     float64 `json:"Actual Rows"`            //nolint:tagliatelle // as above
	Loops    float64 `json:"Actual Loops"`           //nolint:tagliatelle // as above
	Removed  float64 `json:"Rows Removed by Filter"` //nolint:tagliatelle // as above
	Plans    []plan  `json:"Plans"`                  //nolint:tagliatelle // as above
}

// read returns the number of rows that the plan read from tables.
func (p plan) read() (rows float64) {
	if p.Relation != "" {
		rows = (p.Rows + p.Removed) * p.Loops
	}
	for _, part := range p.Plans {
		rows += part.read()
	}
	return rows
}

// rowsRead runs queries again, and returns the number of rows that they read.
func rowsRead(t *testing.T, conn *pgx.Conn, all []pgx.TraceQueryStartData) (rows float64) {
	t.Helper()
	for _, q := range all {
		var text []byte
		httpapitest.Must(t, conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+q.SQL, q.Args...).Scan(&text))
		var plans []struct {
			Plan plan `json:"Plan"` //nolint:tagliatelle // name of PostgreSQL
		}
		httpapitest.Must(t, json.Unmarshal(text, &plans))
		rows += plans[0].Plan.read()
	}
	return rows
}

// TestOthersCostNothing: what others did with a user costs nobody who asks for what the user did,
// and a list of it costs no more than a part of it. A list of a one-way kind reads rows twice: to
// find where it stops, and to read it.
func TestOthersCostNothing(t *testing.T) {
	const others, few = 3 * ledger.MaxLooked, 3000
	q, server := &queries{}, pgtest.Start(t)
	l, err := ledger.Open(t.Context(), server.URL(), ledger.Options{Pages: 4, Tracer: q})
	httpapitest.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	kinds := httpapitest.KindsWith(t, activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "report", Plural: "reports", Target: activity.User, Effect: activity.Annotate})
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}, Kinds: kinds, Passive: true})
	httpapitest.Must(t, err)
	t.Cleanup(r.Close)
	s := &httpapitest.Service{Handler: httpapi.New(httpapi.Config{Activities: r}), Activities: r}
	call := httpapitest.Invokers(t, httpapitest.ServeBoth(t, s))["Connect"]
	s.Want(t, "PUT", "/v1/users/1/hides/p", "", 200, httpapitest.Yes)

	conn, err := pgx.Connect(t.Context(), server.URL())
	httpapitest.Must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	_, err = conn.Exec(t.Context(), q.session.SQL, q.session.Args...)
	httpapitest.Must(t, err)
	hash := int64(pages.UserHash(r.Inside().Identity().Seed, "1") ^ 1<<63) // as the ledger stores it
	for _, statement := range []string{
		`SET statement_timeout = 0`,
		`INSERT INTO entries (hash, owner, kind, target, since)
			SELECT $1::bigint, '1', 'blocked-by', 'b' || n, n FROM generate_series(1, $2::bigint) n`,
		`INSERT INTO entries (hash, owner, kind, target, since, target_hash)
			SELECT n, 'b' || n, 'mute', '1', n, $1::bigint FROM generate_series(1, $2::bigint) n`,
		`ANALYZE entries`,
	} {
		args := []any{hash, others}[:strings.Count(statement, "$")]
		_, err := conn.Exec(t.Context(), statement, args...)
		httpapitest.Must(t, err)
	}
	q.take()
	for _, c := range []struct {
		name string
		most float64 // of the rows that are read
		ask  func() string
		want string // "": any answer
	}{
		{"count", few, func() string { return s.Do(t, "GET", "/v1/users/1", "").Body }, `{"counts":{"block":0,"hide":1,"like":0,"mute":0,"report":0}}`},
		{"count by gRPC", few, func() string {
			var counts feedfilterv1.CountResponse
			httpapitest.Must(t, call(t.Context(), feedfilterv1connect.ActivityServiceCountProcedure, &feedfilterv1.CountRequest{User: "1"}, &counts))
			return fmt.Sprint(counts.GetCounts()["hide"], counts.GetCounts()["block"])
		}, "1 0"},
		{"preview", few, func() string {
			return s.Do(t, "POST", "/v1/users/1/preview", `{"kind":"block","targets":["2","3"]}`).Body
		}, `{"new":2,"present":0,"total":2,"limit":null,"over":false}`},
		{"export", few, func() string {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/users/1/export", nil))
			return fmt.Sprint(strings.Count(w.Body.String(), "\n"), strings.Contains(w.Body.String(), `"target":"p"`))
		}, "1 true"},
		{"list", few, func() string { return s.Do(t, "GET", "/v1/users/1/blocks", "").Body }, `{"items":[]}`},
		{"check", few, func() string { return s.Do(t, "GET", "/v1/users/1/blocks/b7", "").Code }, "no_activity"},
		{"list of others", few, func() string {
			items, _ := s.Do(t, "GET", "/v1/targets/1/blocks?limit=1000", "").JSON["items"].([]any)
			return fmt.Sprint(len(items))
		}, "1000"},
		{"list of others, one-way", 2*ledger.MaxLooked + few, func() string {
			items, _ := s.Do(t, "GET", "/v1/targets/1/mutes?limit=1000", "").JSON["items"].([]any)
			return fmt.Sprint(len(items))
		}, "1000"},
		{"list of others of a rare kind", 2*ledger.MaxLooked + few, func() string {
			a := s.Do(t, "GET", "/v1/targets/1/reports", "")
			return fmt.Sprint(a.JSON["items"], a.JSON["next"] != nil)
		}, "[] true"},
		{"explain", few, func() string {
			return fmt.Sprint(s.Do(t, "POST", "/v1/feed/explain", `{"viewer":"1","post":{"id":"p","author":"3"}}`).JSON["dropped"])
		}, "true"},
	} {
		if got := c.ask(); c.want != "" && got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if rows := rowsRead(t, conn, q.take()); rows > c.most {
			t.Errorf("%s: %.0f rows read, want at most %.0f, with %d others", c.name, rows, c.most, others)
		}
	}
}
