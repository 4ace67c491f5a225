package ops_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// TestPages: the number of pages is reported, and raised in the background. Activities are still
// found. Fewer pages are refused.
func TestPages(t *testing.T) {
	s := httpapitest.Open(t)
	for i := range 40 {
		s.Want(t, "PUT", fmt.Sprintf("/v1/users/%d/blocks/x", i), "", 200, httpapitest.Yes)
	}
	a := s.Do(t, "GET", "/v1/pages", "")
	if a.Status != 200 || a.JSON["pages"] != 16.0 || a.JSON["homes"] != 16.0 || a.JSON["reshaped"] != 16.0 || a.JSON["reshaping"] != false || len(a.JSON) != 8 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := s.Do(t, "PUT", "/v1/pages", `{"pages":16}`); a.Status != 200 || a.JSON["reshaped"] != 16.0 {
		t.Errorf("the same number: %d %s", a.Status, a.Body)
	}
	wantFewerRefused(t, s, 8, 16)
	s.Store.Set(httpapitest.Failing) // so that the change stalls
	if a := s.Do(t, "PUT", "/v1/pages", `{"pages":64}`); a.Status != 202 || a.JSON["pages"] != 64.0 || a.JSON["reshaping"] != true {
		t.Errorf("more pages: %d %s", a.Status, a.Body)
	}
	if a := s.Do(t, "PUT", "/v1/pages", `{"pages":64}`); a.Status != 200 || a.JSON["reshaping"] != true {
		t.Errorf("the same request again: %d %s", a.Status, a.Body)
	}
	s.Await(t, "the trouble is reported", func() error {
		if a := s.Do(t, "GET", "/v1/pages", ""); a.JSON["trouble"] != "unavailable: pages" ||
			a.JSON["reshaped"] != 0.0 || a.JSON["shared_pages"] != 16.0 {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	wantFewerRefused(t, s, 16, 64) // although 16 pages are in use
	s.Store.Set(httpapitest.Sound)
	s.Await(t, "the reshape is done", func() error {
		if a := s.Do(t, "GET", "/v1/pages", ""); a.JSON["reshaped"] != 16.0 || a.JSON["reshaping"] != false || a.JSON["shared_pages"] != 64.0 || a.JSON["trouble"] != nil {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	for i := range 40 {
		s.Want(t, "POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":"%d","posts":[{"id":"p","author":"x"}]}`, i), 200,
			`{"posts":[],"dropped":[{"id":"p","kind":"block","actor":"x"}],"degraded":[]}`)
	}
	wantFewerRefused(t, s, 16, 64)
}

// wantFewerRefused requests fewer pages than there are.
func wantFewerRefused(t *testing.T, s *httpapitest.Service, pages, there int) {
	t.Helper()
	a := s.Do(t, "PUT", "/v1/pages", fmt.Sprintf(`{"pages":%d}`, pages))
	message := fmt.Sprintf("%d is fewer than the %d there are: the number only grows", pages, there)
	if a.Status != 400 || a.Code != "out_of_range" || a.Field != "pages" || !strings.Contains(a.Body, message) {
		t.Errorf("%d pages of %d: %d %s", pages, there, a.Status, a.Body)
	}
}

// TestPagesForced: a number far above the pages that are due is refused, with both numbers, unless
// forced.
func TestPagesForced(t *testing.T) {
	s := httpapitest.NewOfPages(t, 256, httpapi.Config{}, nil, nil)
	s.Want(t, "PUT", "/v1/users/1/blocks/x", "", 200, httpapitest.Yes)
	for _, body := range []string{`{"pages":524288}`, `{"pages":524288,"force":false}`} {
		a := s.Do(t, "PUT", "/v1/pages", body)
		if a.Status != 422 || a.Code != "too_many_pages" || a.Field != "pages" || !strings.Contains(a.Body, "524288 pages, at most 262144 without force") {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	for _, body := range []string{`{"pages":512,"force":null}`, `{"pages":512,"force":1}`} {
		if a := s.Do(t, "PUT", "/v1/pages", body); a.Status != 400 || a.Field != "force" {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if a := s.Do(t, "GET", "/v1/pages", ""); a.JSON["pages"] != 256.0 || a.JSON["reshaping"] != false {
		t.Errorf("a refused request changed something: %s", a.Body)
	}
	if a := s.Do(t, "PUT", "/v1/pages", `{"pages":524288,"force":true}`); a.Status != 202 || a.JSON["pages"] != 524288.0 {
		t.Fatalf("forced: %d %s", a.Status, a.Body)
	}
	s.Await(t, "the reshape is in progress", func() error {
		if a := s.Do(t, "GET", "/v1/pages", ""); a.JSON["reshaped"] == 0.0 {
			return errors.New(a.Body)
		}
		return nil
	})
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"x"}]}`, 200,
		`{"posts":[],"dropped":[{"id":"p","kind":"block","actor":"x"}],"degraded":[]}`)
}
