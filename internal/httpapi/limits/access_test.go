package limits_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// ratedCall returns a request whose token has a rate of ten a second, and access control.
func ratedCall(t *testing.T, ctx context.Context) (*limits.Access, *wire.Call) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.json")
	text := `{"tokens":[{"name":"a","hash":"` + access.HashToken("a") + `","scopes":["activity:write"],"rate":10,"burst":10}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := access.OpenTokens(access.TokensConfig{File: file})
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokens.Check([]string{"Bearer a"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/activities", http.NoBody)
	return &limits.Access{Tokens: tokens}, &wire.Call{Context: echo.New().NewContext(r, httptest.NewRecorder()), Token: token}
}

// TestPace: a stream proceeds at the rate of its token.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, k := ratedCall(t, ctx)
		start := time.Now()
		for i, want := range []time.Duration{0, 2 * time.Second, 102 * time.Second} { // chunks of 10, 20 and 1,000 lines
			if err := s.Pace(k, []int{10, 20, 1000}[i]); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start).Round(time.Millisecond); took != want {
				t.Errorf("chunk %d waited %v, want %v", i, took, want)
			}
		}
		// A client that leaves ends the wait.
		time.AfterFunc(time.Second, cancel)
		if err := s.Pace(k, 1000); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if took := time.Since(start).Round(time.Millisecond); took != 103*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}
