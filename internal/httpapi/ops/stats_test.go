package ops_test

import (
	"reflect"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

func TestStats(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "PUT", "/v1/users/1/blocks/2", "", 200, httpapitest.Yes)
	s.Do(t, "GET", "/nothing", "")
	a := s.Do(t, "GET", "/v1/stats", "")
	if a.Status != 200 || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	requests, _ := a.JSON["requests"].(map[string]any)
	if len(requests) != 3 || requests["total"] != 3.0 || requests["in_progress"] != 0.0 || requests["shed"] != 0.0 {
		t.Errorf("requests: %v", requests)
	}
	uptime, _ := a.JSON["uptime_seconds"].(float64)
	goroutines, _ := a.JSON["goroutines"].(float64)
	heap, _ := a.JSON["heap_bytes"].(float64)
	recorder, _ := a.JSON["recorder"].(map[string]any)
	if uptime < 0 || uptime > 3600 || goroutines < 2 || heap < 100_000 || len(recorder) == 0 || len(a.JSON) != 8 {
		t.Errorf("stats: %s", a.Body)
	}
	s.Do(t, "PUT", "/v1/users/1/hides/p", "")
	s.Do(t, "PUT", "/v1/users/1/hides/p", "")
	s.Do(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"3"},{"id":"q","author":"2"},{"id":"r","author":"2"},{"id":"s","author":"3"}]}`)
	a = s.Do(t, "GET", "/v1/stats", "")
	recorder, _ = a.JSON["recorder"].(map[string]any)
	feeds := a.JSON["feeds"]
	want := map[string]any{
		"answered": 1.0, "kept": 1.0, "dropped": map[string]any{"block": 2.0, "hide": 1.0, "seen": 0.0},
		"degraded": map[string]any{"block": 0.0, "hide": 0.0, "like": 0.0, "seen": 0.0},
	}
	if !reflect.DeepEqual(feeds, want) || !reflect.DeepEqual(recorder["recorded"], map[string]any{"block": 1.0, "hide": 1.0}) {
		t.Errorf("feeds %v, recorded %v", feeds, recorder["recorded"])
	}
	if head := s.Do(t, "HEAD", "/v1/stats", ""); head.Status != 200 {
		t.Errorf("HEAD: %d", head.Status)
	}
}
