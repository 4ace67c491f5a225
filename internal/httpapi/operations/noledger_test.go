package operations_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// TestWithoutLedger: without a ledger, calls that need none work, and the others are answered 501.
func TestWithoutLedger(t *testing.T) {
	s := httpapitest.OpenWithoutLedger(t)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.No)
	s.Want(t, "PUT", "/v1/users/1/likes/p9", "", 200, httpapitest.Yes)
	s.Want(t, "POST", "/v1/users/1/seen", `{"posts":["p1","p2"]}`, 200, `{"recorded":2}`)
	history := func(kind string, age time.Duration) string {
		since := time.Now().Add(-age).Format(time.RFC3339)
		return fmt.Sprintf(`{"activities":[{"user":"1","kind":%q,"target":"p","op":"add","since":%q}]}`, kind, since)
	}
	s.Want(t, "POST", "/v1/activities", history("seen", httpapitest.SightedLongAgo), 200, `{"results":[`+httpapitest.No+`]}`)
	s.Want(t, "POST", "/v1/activities", history("seen", httpapitest.SightedRecently), 200, `{"results":[`+httpapitest.Yes+`]}`)
	if a := s.Do(t, "POST", "/v1/activities", history("hide", httpapitest.SightedRecently)); a.Status != 501 || a.Code != "no_ledger" ||
		a.Field != "activities[0].since" {
		t.Errorf("a beginning of an activity that needs a ledger: %d %s", a.Status, a.Body)
	}
	s.Want(t, "POST", "/v1/activities", httpapitest.Lines(`{"user":"1","kind":"hide","target":"p7","op":"add"}`), 200, `{"results":[`+httpapitest.Yes+`,`+httpapitest.Yes+`]}`)
	feed := `{"viewer":"1","posts":[{"id":"p1","author":"3"},{"id":"p7","author":"3"},{"id":"p8","author":"2"},{"id":"p9","author":"3"}],"annotate":["like"]`
	kept := `{"posts":[{"id":"p9","like":true}],"dropped":[{"id":"p1","kind":"seen"},{"id":"p7","kind":"hide"},{"id":"p8","kind":"block","actor":"2"}],"degraded":[]}`
	s.Want(t, "POST", "/v1/feed/filter", feed+`}`, 200, kept)
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"2","posts":[{"id":"x","author":"1"}],"limit":1,"record_seen":true}`, 200,
		`{"posts":[],"dropped":[{"id":"x","kind":"block","actor":"1"}],"degraded":[]}`)
	if a := s.Do(t, "GET", "/readyz", ""); a.Status != 200 || !strings.Contains(a.Body, `"ready"`) {
		t.Errorf("readyz: %d %s", a.Status, a.Body)
	}
	for request, body := range map[string]string{
		"GET /v1/users/1/blocks": "", "GET /v1/users/1": "", "DELETE /v1/users/1": "", "GET /v1/users/1/block/2": "", "GET /v1/targets/1/blocks": "",
		"PUT /v1/users/1/hides/p3?until=2100-01-01T00:00:00Z": "",
		"POST /v1/users/1/preview":                            `{"kind":"block","targets":["5"]}`,
		"GET /v1/pages":                                       "", "PUT /v1/pages": `{"pages":16}`,
		"POST /v1/feed/explain": `{"viewer":"1","post":{"id":"p8","author":"2"}}`,
		"POST /v1/feed/filter":  `{"viewer":"1","posts":[],"exact":true}`,
	} {
		method, path, _ := strings.Cut(request, " ")
		a := s.Do(t, method, path, body)
		message := fmt.Sprint(a.JSON["error"])
		if a.Status != 501 || a.Code != "no_ledger" || !strings.Contains(message, "needs a ledger, and there is none") {
			t.Errorf("%s: %d %s", request, a.Status, a.Body)
		}
	}
	s.Want(t, "POST", "/v1/feed/filter", feed+`}`, 200, kept)
	s.Want(t, "DELETE", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Want(t, "DELETE", "/v1/users/1/blocks/2", "", 200, httpapitest.No)
}

// TestStuck: an undo that is impossible without a ledger is answered as an error.
func TestStuck(t *testing.T) {
	s := httpapitest.PlainService(t, 0.3)
	for i := range 20_000 { // of 200 activities in a crowded page, some are stuck
		post := fmt.Sprintf("p%d", i)
		s.Do(t, "PUT", "/v1/users/1/hides/"+post, "")
		if i < 200 {
			continue
		}
		a := s.Do(t, "DELETE", fmt.Sprintf("/v1/users/1/hides/p%d", i-200), "")
		if a.Status == 200 {
			continue
		}
		if a.Status != 409 || a.Code != "stuck" {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		f := s.Do(t, "POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":"1","posts":[{"id":"p%d"}],"kinds":["hide"]}`, i-200))
		if !strings.Contains(f.Body, `"posts":[]`) {
			t.Errorf("stuck, but the feed is %s", f.Body)
		}
		return
	}
	t.Error("nothing is stuck")
}

// TestProceduresWithoutLedger: procedures that need a ledger are answered as the routes are.
func TestProceduresWithoutLedger(t *testing.T) {
	conn := httpapitest.DialGRPC(t, httpapitest.ServeBoth(t, httpapitest.OpenWithoutLedger(t)))
	for procedure, req := range map[string]proto.Message{
		feedfilterv1connect.ActivityServiceListProcedure:  &feedfilterv1.ListRequest{User: "1", Plural: "blocks"},
		feedfilterv1connect.ActivityServiceCountProcedure: &feedfilterv1.CountRequest{User: "1"},
	} {
		err := conn.Invoke(t.Context(), procedure, req, new(feedfilterv1.CountResponse))
		if got := status.Convert(err); got.Code() != codes.Unimplemented || !strings.Contains(got.Message(), "needs a ledger, and there is none") {
			t.Errorf("%s: %v", procedure, err)
		}
	}
}
