package operations_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// TestNotYet: a caller who asks for a position that is far ahead causes no error of the service,
// and hides none.
func TestNotYet(t *testing.T) {
	const callers = 40
	for _, withTokens := range []bool{false, true} {
		log := &httpapitest.LockedBuffer{}
		c := httpapi.Config{Logger: slog.New(slog.NewJSONHandler(log, nil))}
		var s *httpapitest.Service
		var header []string
		if withTokens {
			s, _ = httpapitest.Guarded(t, c, nil)
			header = httpapitest.As("feed")
		} else {
			s = httpapitest.NewService(t, c, nil)
		}
		recorder, _ := s.Activities.(*activity.Recorder)
		_, err := recorder.Follow(t.Context(), "app", "one", []string{"like"}, time.Hour, false)
		httpapitest.Must(t, err)

		var asking sync.WaitGroup
		for range callers {
			asking.Go(func() {
				a := s.Do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[],"after":"7FFFFFFF/0"}`, header...)
				if a.Status != 503 || a.Code != "not_yet" || a.Header.Get("Retry-After") != "1" {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			})
		}
		asking.Wait()
		s.Ledger.Set(httpapitest.Failing)
		if a := s.Do(t, "GET", "/v1/users/1/blocks", "", header...); a.Status != 503 || a.Code != "unavailable" {
			t.Errorf("without a ledger: %d %s", a.Status, a.Body)
		}
		s.Ledger.Set(httpapitest.Sound)

		early, faults := 0, 0
		for text := range strings.Lines(log.String()) {
			var line map[string]any
			httpapitest.Must(t, json.Unmarshal([]byte(text), &line))
			switch {
			case line["code"] == "not_yet" && line["level"] == "INFO" && line["error"] == nil:
				early++
			case line["code"] == "unavailable" && line["level"] == "ERROR" && line["suppressed"] == nil:
				faults++
			default:
				t.Errorf("tokens %v: line %v", withTokens, line)
			}
		}
		if early < 10 || early == callers || faults != 1 {
			t.Errorf("tokens %v: %d lines of %d callers who are early, and %d of one fault", withTokens, early, callers, faults)
		}
		if withTokens {
			header = httpapitest.As("ops")
		}
		text := s.Do(t, "GET", "/metrics", "", header...).Body
		if want := "\nfeedfilter_http_requests_not_yet_total 40\n"; !strings.Contains(text, want) {
			t.Errorf("tokens %v: the metrics lack %s", withTokens, strings.TrimSpace(want))
		}
	}
}
