package httpapi_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// TestPages: the number of pages is told, and changed in the background, once at a time; activities stay where they are looked for.
func TestPages(t *testing.T) {
	s := open(t)
	for i := range 40 {
		s.want(t, "PUT", fmt.Sprintf("/v1/users/%d/blocks/x", i), "", 200, yes)
	}
	a := s.do(t, "GET", "/v1/pages", "")
	if a.Status != 200 || a.JSON["pages"] != 16.0 || a.JSON["homes"] != 16.0 || a.JSON["reshaped"] != 16.0 || a.JSON["reshaping"] != false || len(a.JSON) != 8 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := s.do(t, "PUT", "/v1/pages", `{"pages":16}`); a.Status != 200 || a.JSON["reshaped"] != 16.0 {
		t.Errorf("as many as there are: %d %s", a.Status, a.Body)
	}
	s.store.set(failing) // so that it does not get on
	if a := s.do(t, "PUT", "/v1/pages", `{"pages":64}`); a.Status != 202 || a.JSON["pages"] != 64.0 || a.JSON["reshaping"] != true {
		t.Errorf("more: %d %s", a.Status, a.Body)
	}
	if a := s.do(t, "PUT", "/v1/pages", `{"pages":64}`); a.Status != 200 || a.JSON["reshaping"] != true {
		t.Errorf("the same again: %d %s", a.Status, a.Body)
	}
	if a := s.do(t, "PUT", "/v1/pages", `{"pages":32}`); a.Status != 409 || a.Code != "reshaping" {
		t.Errorf("another number: %d %s", a.Status, a.Body)
	}
	s.await(t, "it says what it waits for", func() error {
		if a := s.do(t, "GET", "/v1/pages", ""); a.JSON["trouble"] != "what this call needs is unavailable: pages" || a.JSON["reshaped"] != 0.0 {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	s.store.set(sound)
	s.await(t, "it is done", func() error {
		if a := s.do(t, "GET", "/v1/pages", ""); a.JSON["reshaped"] != 16.0 || a.JSON["reshaping"] != false || a.JSON["shared_pages"] != 64.0 || a.JSON["trouble"] != nil {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	for i := range 40 {
		s.want(t, "POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":"%d","posts":[{"id":"p","author":"x"}]}`, i), 200,
			`{"posts":[],"dropped":[{"id":"p","kind":"block","actor":"x"}],"degraded":[]}`)
	}
}

func (s *service) await(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := servertest.Await(t.Context(), what, func(context.Context) error { return check() }); err != nil {
		t.Error(err)
	}
}
