package rest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

func TestBatch(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "POST", "/v1/activities", `{"activities":[`+strings.Join([]string{
		httpapitest.ActivityLine("1", "block", "2", "add"),
		httpapitest.ActivityLine("1", "block", "2", "add"),
		httpapitest.ActivityLine("1", "hide", "p", "remove"),
		httpapitest.ActivityLine("1", "seen", "s", "add"),
		httpapitest.ActivityLine("1", "block", "2", "remove"),
		httpapitest.ActivityLine("1", "like", "l", "add"),
		httpapitest.ActivityLine("2", "block", "1", "add"),
	}, ",")+`]}`, 200, `{"results":[`+strings.Join([]string{httpapitest.Yes, httpapitest.No, httpapitest.No, httpapitest.Yes, httpapitest.Yes, httpapitest.Yes, httpapitest.Yes}, ",")+`]}`)
	s.Want(t, "GET", "/v1/users/1/blocks", "", 200, `{"items":[]}`)
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"s","author":"3"},{"id":"l","author":"3"},{"id":"x","author":"2"}],"annotate":["like"]}`, 200,
		`{"posts":[{"id":"l","like":true}],"dropped":[{"id":"s","kind":"seen"},{"id":"x","kind":"block","actor":"2"}],"degraded":[]}`)
}

// TestLongLargestBatch sends the largest batch in a body of the default length, with ids of 20
// bytes, with and without the spaces that some encoders insert.
func TestLongLargestBatch(t *testing.T) { largeBatch(t, 10_000) }

// Under the race detector, a transaction of 10,000 may exceed the ledger's timeout.
func TestLargeBatch(t *testing.T) { largeBatch(t, 2000) }

func largeBatch(t *testing.T, size int) {
	t.Helper()
	s := httpapitest.NewService(t, httpapi.Config{Timeout: time.Minute}, nil)
	for op, sep := range map[string][2]string{"add": {",", ":"}, "remove": {", ", ": "}} {
		var all []string
		for i := range size {
			l := httpapitest.ActivityLine(fmt.Sprintf("user-%015d", i), "block", fmt.Sprintf("other-%014d", i), op)
			all = append(all, strings.ReplaceAll(strings.ReplaceAll(l, ",", sep[0]), ":", sep[1]))
		}
		a := s.Do(t, "POST", "/v1/activities", `{"activities"`+sep[1]+`[`+strings.Join(all, sep[0])+`]}`)
		if a.Status != 200 {
			t.Fatalf("%s: %d %.300s", op, a.Status, a.Body)
		}
		if got := len(a.JSON["results"].([]any)); got != size {
			t.Errorf("%s: %d results", op, got)
		}
	}
}
