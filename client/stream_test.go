package client_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/feedfilter/feedfilter/client"
)

// TestStreamsCutOff: a stream or export that ends early, or lacks results, is an error.
func TestStreamsCutOff(t *testing.T) {
	add := []client.Activity{{User: "1", Kind: "hide", Target: "a", Op: client.Add}, {User: "1", Kind: "hide", Target: "b", Op: client.Add}}
	for name, c := range map[string]struct {
		body io.ReadCloser
		got  int
		is   error
	}{
		"between lines": {cutOff(`{"changed":true}` + "\n"), 1, client.ErrUnavailable},
		"within a line": {cutOff(`{"changed":true}` + "\n" + `{"chan`), 1, client.ErrUnavailable},
		"no line's end": {io.NopCloser(strings.NewReader(`{"changed":true}` + "\n" + `{"changed":true}`)), 1, client.ErrUnavailable},
		"too few":       {io.NopCloser(strings.NewReader(`{"changed":true}` + "\n")), 1, client.ErrUnavailable},
		"nonsense":      {io.NopCloser(strings.NewReader(`{"changed":true}` + "\n{}\n")), 1, client.ErrForeign},
		"too long":      {io.NopCloser(strings.NewReader(`{"changed":true}` + "\n" + strings.Repeat(" ", 5000) + "\n")), 1, client.ErrForeign},
		"whole":         {io.NopCloser(strings.NewReader(`{"changed":true}` + "\n" + `{"changed":false}` + "\n")), 2, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			service, _ := over(t, client.Options{MaxAnswerBytes: 1000}, func(r *http.Request, _ int) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, r.Body)
				res := answered(r, 200, "", "Content-Type", "application/x-ndjson")
				res.Body = c.body
				return res, nil
			})
			got, failed := 0, error(nil)
			for _, err := range service.Stream(t.Context(), slices.Values(add)) {
				if err != nil {
					failed = err
					continue
				}
				got++
			}
			if got != c.got || !errors.Is(failed, c.is) || (failed == nil) != (c.is == nil) {
				t.Errorf("%s: %d results, %v", name, got, failed)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // a service that refuses a stream need not read it
		service, _ := over(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
			_ = r.Body.Close()
			return answered(r, 503, overloaded), nil
		})
		for _, err := range service.Stream(t.Context(), slices.Values(add)) {
			if !errors.Is(err, client.ErrOverloaded) {
				t.Errorf("refused: %v", err)
			}
		}
		for _, err := range service.Export(t.Context(), "1") {
			if !errors.Is(err, client.ErrOverloaded) {
				t.Errorf("refused: %v", err)
			}
		}
	})
}

// TestStreamIsReadInPieces: a read of a stream's body returns all waiting activities, whole or in
// parts.
func TestStreamIsReadInPieces(t *testing.T) {
	const many = 100
	for _, piece := range []int{1 << 20, 7} {
		synctest.Test(t, func(t *testing.T) {
			waiting := make(chan struct{})
			reads, sent := 0, 0
			service, _ := over(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
				<-waiting
				p := make([]byte, piece)
				for n, err := r.Body.Read(p); err == nil; n, err = r.Body.Read(p) {
					sent += bytes.Count(p[:n], []byte("\n"))
					reads++
				}
				return answered(r, 200, strings.Repeat(`{"changed":true}`+"\n", many), "Content-Type", "application/x-ndjson"), nil
			})
			got := 0
			for _, err := range service.Stream(t.Context(), func(yield func(client.Activity) bool) {
				defer close(waiting)
				for range many {
					if !yield(client.Activity{User: "1", Kind: "hide", Target: "a", Op: client.Add}) {
						return
					}
				}
			}) {
				if err != nil {
					t.Error(err)
				}
				got++
			}
			if got != many || sent != many || piece > many && reads != 1 {
				t.Errorf("pieces of %d: %d results of %d activities in %d reads", piece, got, sent, reads)
			}
		})
	}
}

// TestErrorsOfActivities: the error of one activity has a code but no status. It matches the same
// errors as a call with that code.
func TestErrorsOfActivities(t *testing.T) {
	all := []error{
		client.ErrUnavailable, client.ErrOverloaded, client.ErrInvalid, client.ErrDenied, client.ErrLimitReached, client.ErrNoLedger, client.ErrForeign,
	}
	for code, want := range map[string][]error{
		"unavailable":       {client.ErrUnavailable},
		"internal":          {client.ErrUnavailable},
		"audit_unavailable": {client.ErrUnavailable},
		"overloaded":        {client.ErrUnavailable, client.ErrOverloaded},
		"rate_limited":      {client.ErrUnavailable, client.ErrOverloaded},
		"unauthenticated":   {client.ErrDenied},
		"forbidden":         {client.ErrDenied},
		"limit_reached":     {client.ErrLimitReached},
		"no_ledger":         {client.ErrNoLedger},
		"stuck":             nil,
		"followed":          nil,
		"invalid_id":        {client.ErrInvalid},
		"self_block":        {client.ErrInvalid},
	} {
		service, _ := over(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return answered(r, 200, `{"error":{"code":"`+code+`","message":"m"}}`+"\n", "Content-Type", "application/x-ndjson"), nil
		})
		for result, err := range service.Stream(t.Context(), slices.Values([]client.Activity{{User: "1", Kind: "hide", Target: "a", Op: client.Add}})) {
			if err != nil || result.Err == nil || result.Err.Code != code {
				t.Errorf("%s: %+v, %v", code, result, err)
				continue
			}
			for _, target := range all {
				if got := errors.Is(result.Err, target); got != slices.Contains(want, target) {
					t.Errorf("%s matches %q: %v", code, target, got)
				}
			}
		}
	}
}
