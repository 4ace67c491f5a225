package httpapi_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/inspect"
)

// mapOf is an answer of /v1/ops/pages.
type mapOf struct {
	Pages   int       `json:"pages"`
	OwnFrom int       `json:"own_from"`
	From    int       `json:"from"`
	To      int       `json:"to"`
	Cells   []mapCell `json:"cells"`
}

type mapCell struct {
	From     int     `json:"from"`
	To       int     `json:"to"`
	First    uint32  `json:"first"`
	Last     uint32  `json:"last"`
	Own      bool    `json:"own"`
	Pages    int     `json:"pages"`
	LookedAt int     `json:"looked_at"`
	Keys     int     `json:"keys"`
	Bytes    int     `json:"bytes"`
	Fill     spread  `json:"fill"`
	Collided spread  `json:"collided"`
	RateMax  float64 `json:"rate_max"`

	Behind    int  `json:"behind"`
	Missing   int  `json:"missing"`
	Damaged   int  `json:"damaged"`
	Unused    int  `json:"unused"`
	Unknown   int  `json:"unknown"`
	OldestAge *int `json:"oldest_age_seconds"`
}

type spread struct {
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

func (s *service) mapOf(t *testing.T, query string) (m mapOf) {
	t.Helper()
	a := s.do(t, "GET", "/v1/ops/pages"+query, "")
	if err := json.Unmarshal([]byte(a.Body), &m); a.Status != 200 || err != nil {
		t.Fatalf("%s: %d %s, %v", query, a.Status, a.Body, err)
	}
	return m
}

// TestOpsMap: the map agrees with the pages, for any number of cells.
func TestOpsMap(t *testing.T) {
	s := populated(t, httpapi.Config{})
	s.lookedAt(t)
	one := s.mapOf(t, "?cells=16")
	if one.Pages != 16 || one.OwnFrom != 16 || one.From != 0 || one.To != 16 || len(one.Cells) != 16 {
		t.Fatalf("%+v", one)
	}
	keys, bytes := 0, 0
	for i, c := range one.Cells {
		keys, bytes = keys+c.Keys, bytes+c.Bytes
		p := s.pageOf(t, uint32(i), "")
		if p.Page == nil {
			if c.Unused != 1 || c.Bytes != 0 {
				t.Errorf("page %d is %s, and its cell %+v", i, p.State, c)
			}
			continue
		}
		if c.From != i || c.To != i+1 || c.First != uint32(i) || c.Last != uint32(i) || c.Own || c.Pages != 1 || c.LookedAt != 1 ||
			c.Keys != int(p.Page.Keys) || c.Bytes != p.Page.BitsBytes+p.Page.RegionsBytes || c.Unused+c.Behind+c.Missing+c.Damaged+c.Unknown != 0 ||
			c.OldestAge == nil || *c.OldestAge > 60 {
			t.Errorf("page %+v, and its cell %+v", p.Page, c)
		}
		if !within(c.Fill.Mean, p.Page.Fill) || c.Fill.Max != c.Fill.Mean || !within(c.Collided.Mean, p.Page.CollidedShare) || c.RateMax > p.Page.Rate*1.1 {
			t.Errorf("page %+v, and its cell %+v", p.Page, c)
		}
	}
	if keys != 160 {
		t.Errorf("%d keys, want 160", keys)
	}
	for _, cells := range []int{2, 3, 5, 15} {
		m := s.mapOf(t, fmt.Sprintf("?cells=%d", cells))
		next, sum, total, fullest := 0, 0, 0, 0.0
		for _, c := range m.Cells {
			if c.From != next || c.To-c.From != c.Pages || c.First != uint32(c.From) || c.Last != uint32(c.To-1) {
				t.Errorf("%d cells, after %d: %+v", cells, next, c)
			}
			next, sum, total, fullest = c.To, sum+c.Keys, total+c.Bytes, max(fullest, c.Fill.Max)
			for _, of := range one.Cells[c.From:c.To] {
				if of.Fill.Max > c.Fill.Max {
					t.Errorf("%d cells: %+v has page %+v", cells, c, of)
				}
			}
		}
		if len(m.Cells) > cells || len(m.Cells) < cells/2 || next != 16 || sum != 160 || total != bytes {
			t.Errorf("%d cells: %d, up to %d, %d keys, %d bytes", cells, len(m.Cells), next, sum, total)
		}
	}
	part := s.mapOf(t, "?from=3&to=7")
	if part.From != 3 || part.To != 7 || len(part.Cells) != 4 || !reflect.DeepEqual(part.Cells[1].Keys, one.Cells[4].Keys) || part.Cells[3].Last != 6 {
		t.Errorf("from 3 to 7: %+v", part)
	}
	if end := s.mapOf(t, "?from=15&to=1000"); end.To != 16 || len(end.Cells) != 1 {
		t.Errorf("from 15 on: %+v", end)
	}
}

func within(a, b float64) bool { return a-b < 2e-4 && b-a < 2e-4 }

// TestOpsMapOfDedicatedPages: a dedicated page comes after the shared ones, in another cell.
func TestOpsMapOfDedicatedPages(t *testing.T) {
	s := populated(t, httpapi.Config{})
	var lines []string
	for i := range 2100 {
		lines = append(lines, fmt.Sprintf(`{"user":"heavy","kind":"hide","target":"%d","op":"add"}`, i))
	}
	s.do(t, "POST", "/v1/activities", `{"activities":[`+strings.Join(lines, ",")+`]}`)
	s.await(t, "the heavy user moves", func() error {
		if m := s.mapOf(t, "?cells=2"); m.Pages != 17 || m.Cells[len(m.Cells)-1].Keys != 2100 {
			return fmt.Errorf("%+v", m)
		}
		return nil
	})
	m := s.mapOf(t, "?cells=2")
	if m.OwnFrom != 16 || len(m.Cells) != 2 || m.Cells[0].Pages != 16 || m.Cells[0].Own || !m.Cells[1].Own || m.Cells[1].First != 1<<31 || m.Cells[1].From != 16 {
		t.Errorf("%+v", m)
	}
	if p := s.pageOf(t, 1<<31, ""); !p.Own || p.Ledger.Users != 1 || p.Ledger.Keys != 2100 || !*p.Agrees {
		t.Errorf("%+v", p)
	}
	a := s.do(t, "GET", "/v1/ops/users/heavy", "")
	if a.JSON["page"] != float64(1<<31) || a.JSON["own_page"] != true || a.JSON["page_holds"] != 2100.0 {
		t.Errorf("%s", a.Body)
	}
	if only := s.mapOf(t, "?from=16"); len(only.Cells) != 1 || !only.Cells[0].Own {
		t.Errorf("%+v", only)
	}
}

// TestOpsMapOfLaterLayout: after the number of pages has grown to P, pages have the numbers from P
// on.
func TestOpsMapOfLaterLayout(t *testing.T) {
	s := populated(t, httpapi.Config{})
	if a := s.do(t, "PUT", "/v1/pages", `{"pages":32}`); a.Status != 202 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	s.await(t, "the number of pages has grown", func() error {
		if a := s.do(t, "GET", "/v1/pages", ""); a.JSON["reshaping"] != false || a.JSON["shared_pages"] != 32.0 {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	m := s.mapOf(t, "")
	if m.Pages != 32 || m.OwnFrom != 32 || len(m.Cells) != 32 {
		t.Fatalf("%+v", m)
	}
	for i, c := range m.Cells {
		if c.From != i || c.First != uint32(32+i) || c.Last != c.First || c.Own {
			t.Errorf("position %d: %+v", i, c)
		}
	}
	if a := s.do(t, "GET", "/v1/ops/pages/5", ""); a.Status != 404 || a.Code != "not_found" {
		t.Errorf("a page of the previous layout: %d %s", a.Status, a.Body)
	}
	var u inspect.User
	a := s.do(t, "GET", "/v1/ops/users/0", "")
	if err := json.Unmarshal([]byte(a.Body), &u); err != nil || u.Page < 32 || u.Page > 63 || u.Slot != (u.Page-32)/2 || u.PageHolds != 41 {
		t.Errorf("%s, %v", a.Body, err)
	}
	if p := s.pageOf(t, u.Page, ""); !*p.Agrees || p.Number != u.Page || p.Own {
		t.Errorf("%+v", p)
	}
}

// TestOpsMapOfFaultyPage: a page that cannot be rebuilt shows its state until it is rebuilt.
func TestOpsMapOfFaultyPage(t *testing.T) {
	s := populated(t, httpapi.Config{})
	s.lookedAt(t)
	var page uint32
	for i, c := range s.mapOf(t, "").Cells {
		if c.Keys > 0 {
			page = uint32(i)
		}
	}
	s.ledger.set(failing)
	id := favfilter.PageID{Number: page}
	loaded, err := s.store.Load(t.Context(), []favfilter.PageID{id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Replace(t.Context(), favfilter.Replacement{ID: id, Seen: loaded[0].Version}); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the page is reported missing", func() error {
		if c := s.mapOf(t, "").Cells[page]; c.Missing != 1 || c.Keys != 0 {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	a := s.do(t, "GET", "/v1/ops/health", "")
	if pages, _ := a.JSON["pages"].(map[string]any); a.JSON["status"] != "degraded" || pages["amiss"] != 1.0 {
		t.Errorf("%s", a.Body)
	}
	if a := s.do(t, "GET", fmt.Sprintf("/v1/ops/pages/%d", page), ""); a.Status != 503 || a.Code != "unavailable" {
		t.Errorf("without the ledger: %d %s", a.Status, a.Body)
	}
	if a := s.do(t, "POST", fmt.Sprintf("/v1/ops/pages/%d/rebuild", page), ""); a.Status != 503 || a.Code != "unavailable" {
		t.Errorf("rebuild without the ledger: %d %s", a.Status, a.Body)
	}
	s.ledger.set(sound)
	s.await(t, "the page is rebuilt", func() error {
		if c := s.mapOf(t, "").Cells[page]; c.Missing != 0 || c.Keys == 0 {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}
