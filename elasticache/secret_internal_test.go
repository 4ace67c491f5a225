package elasticache

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// manager is a Secrets Manager that answers slowly.
type manager struct {
	mu    sync.Mutex
	value string
	takes time.Duration
	asked int
}

func (m *manager) set(value string, takes time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.value, m.takes = value, takes
}

func (m *manager) times() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

func (m *manager) GetSecretValue(
	ctx context.Context, _ *secretsmanager.GetSecretValueInput, _ ...func(*secretsmanager.Options),
) (*secretsmanager.GetSecretValueOutput, error) {
	m.mu.Lock()
	m.asked++
	value, takes := m.value, m.takes
	m.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &secretsmanager.GetSecretValueOutput{SecretString: &value}, nil
}

// A sign-in waits for the secret until its context ends, but only briefly if an older secret is
// known.
func TestSecretTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{value: "first", takes: time.Hour}
		s := &secret{id: "s", api: m, log: slog.New(slog.DiscardHandler)}
		signIn := func(want string, wantErr error, within time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			_, password, err := s.signIn(ctx)
			if took := time.Since(start); password != want || !errors.Is(err, wantErr) || took > within {
				t.Errorf("%q, %v after %v, want %q, %v within %v", password, err, took, want, wantErr, within)
			}
		}
		signIn("", context.DeadlineExceeded, time.Second)
		time.Sleep(secretTimeout + secretAge) // on the bubble's clock
		m.set("first", 100*time.Millisecond)
		signIn("first", nil, 100*time.Millisecond)
		for range 10 {
			signIn("first", nil, 0) // known and fresh
		}
		m.set("second", 100*time.Millisecond)
		time.Sleep(secretAge)
		signIn("second", nil, 100*time.Millisecond)
		m.set("third", time.Hour)
		time.Sleep(secretAge)
		signIn("second", nil, secretPatience) // the third secret does not arrive in time
		time.Sleep(secretTimeout)
		asked := m.times()
		signIn("second", nil, 0)
		if m.times() != asked {
			t.Error("the secret is read again at once after a failure")
		}
		m.set("third", 0)
		time.Sleep(secretAge)
		signIn("third", nil, 0)
		time.Sleep(secretTimeout) // no read is left
	})
}

// The last description by AWS is saved unchanged. Clients use what is possible without a new
// client.
func TestUpdate(t *testing.T) {
	old := description{Addr: "a:1", Reader: "r:1"}
	for name, c := range map[string]struct{ told, now description }{
		"the same":          {old, old},
		"moved":             {description{Addr: "b:1", Reader: "s:1"}, description{Addr: "b:1", Reader: "s:1"}},
		"without a reader":  {description{Addr: "b:1"}, description{Addr: "b:1", Reader: "r:1"}},
		"another mode":      {description{Cluster: true, Addr: "c:1", Reader: "c:1"}, old},
		"encrypted":         {description{TLS: true, Addr: "b:1", Reader: "s:1"}, old},
		"with a token only": {description{Token: true, Addr: "a:1", Reader: "r:1"}, old},
	} {
		cache := &Cache{config: Config{Name: "g", Region: "r", File: t.TempDir() + "/file"}, log: slog.New(slog.DiscardHandler)}
		cache.use(old)
		for range 2 {
			cache.update(t.Context(), c.told)
		}
		if now := *cache.now.Load(); now.Addr != c.now.Addr || now.Reader != c.now.Reader || now.Cluster != old.Cluster || now.TLS != old.TLS {
			t.Errorf("%s: clients use %+v", name, now)
		}
		if kept, ok := cache.recall(); ok != (c.told != old) || ok && kept != c.told {
			t.Errorf("%s: %+v was saved, %v", name, kept, ok)
		}
	}
}
