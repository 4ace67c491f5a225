package elasticache_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/awstest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const user, password = "feed-user", "of the server alone"

// startIAM returns a replication group that clients sign in to with IAM, in front of a real server.
func startIAM(t *testing.T, a *awstest.AWS) *awstest.Front {
	t.Helper()
	server := redistest.Start(t)
	acl := []any{"ACL", "SETUSER", user, "on", ">" + password, "~fav:*", "-@all", "+@read", "+@write", "+@connection"}
	for _, command := range [][]any{acl, {"ACL", "SETUSER", "default", "off"}} {
		if err := server.Client().Do(t.Context(), command...).Err(); err != nil && !strings.Contains(err.Error(), "NOPERM") {
			t.Fatal(err)
		}
	}
	front := awstest.StartFront(t, "feed", false, server.Addr(), user, password)
	a.PutGroup("feed", awstest.Group{TLS: true, Addr: front.Addr(), Reader: front.Addr()})
	return front
}

type options struct{ redis.Options }

func (o *options) client(t *testing.T, cache *elasticache.Cache) *redis.Client {
	t.Helper()
	if err := cache.Configure(&o.Options, false); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&o.Options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func trusting(front *awstest.Front) *options {
	return &options{redis.Options{
		TLSConfig:             &tls.Config{RootCAs: front.Roots(), MinVersion: tls.VersionTLS12},
		ContextTimeoutEnabled: true, MaxRetries: 2, DialerRetries: 1, PoolSize: 8,
	}}
}

// The server accepts only fresh tokens, and closes all connections repeatedly. No command fails.
func TestIAM(t *testing.T) {
	t.Parallel()
	a := awstest.Start(t)
	front := startIAM(t, a)
	cache, err := open(t, a, elasticache.Config{Name: "feed", User: user})
	if err != nil {
		t.Fatal(err)
	}
	client := trusting(front).client(t, cache)
	redisstore.Guard(client, nil)
	const cuts, workers = 12, 8
	done := make(chan struct{})
	var rounds [workers]atomic.Int64
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key, value := fmt.Sprint("fav:", w), fmt.Sprint(i)
				if err := client.Set(t.Context(), key, value, 0).Err(); err != nil {
					t.Errorf("set: %v", err)
					return
				}
				if got, err := client.Get(t.Context(), key).Result(); err != nil || got != value {
					t.Errorf("get: %q, %v", got, err)
					return
				}
				rounds[w].Add(1)
			}
		})
	}
	// Each cut waits until every worker has completed 10 more rounds. So no command is cut off more
	// often than the client retries it.
	for range cuts {
		var before [workers]int64
		for w := range rounds {
			before[w] = rounds[w].Load()
		}
		eventually(t, func() bool {
			for w := range rounds {
				if rounds[w].Load() < before[w]+10 {
					return t.Failed()
				}
			}
			return true
		})
		front.Cut()
	}
	close(done)
	running.Wait()
	taken, refused := front.SignIns()
	t.Logf("%d cuts, %d connections", cuts, taken)
	if taken < 2*cuts || len(refused) > 0 {
		t.Errorf("%d tokens taken, refused: %v", taken, refused)
	}
}

// A client whose token is refused gets the server's error.
func TestIAMRefused(t *testing.T) {
	a := awstest.Start(t)
	front := startIAM(t, a)
	conf := reached(a)
	cache, err := open(t, a, elasticache.Config{Name: "feed", User: "somebody-else", AWS: conf})
	if err != nil {
		t.Fatal(err)
	}
	err = trusting(front).client(t, cache).Ping(t.Context()).Err()
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("%v", err)
	}
}

// A client refuses a certificate of an unknown authority, and does not send a token to that server.
func TestUnknownCertificate(t *testing.T) {
	t.Parallel()
	a := awstest.Start(t)
	front := startIAM(t, a)
	cache, err := open(t, a, elasticache.Config{Name: "feed", User: user})
	if err != nil {
		t.Fatal(err)
	}
	err = (&options{}).client(t, cache).Ping(t.Context()).Err()
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("%v", err)
	}
	if taken, refused := front.SignIns(); taken != 0 || refused != nil {
		t.Errorf("%d tokens were taken, %v", taken, refused)
	}
}

// The token in a secret is rotated under load, in the order that the AWS documents describe. First
// the cache accepts both tokens. Then the secret has the new one. Last, the cache accepts only the
// new one. No command fails.
func TestSecretRotated(t *testing.T) {
	t.Parallel()
	a := awstest.Start(t)
	server := redistest.Start(t)
	admin := server.Client()
	must := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	must("ACL", "SETUSER", user, "on", ">first", "~*", "+@all")
	a.PutGroup("feed", awstest.Group{Addr: server.Addr(), Token: true})
	a.PutSecret("arn:secret", `{"username":"`+user+`","password":"first"}`)
	cache, err := open(t, a, elasticache.Config{Name: "feed", Secret: "arn:secret"})
	if err != nil {
		t.Fatal(err)
	}
	client := (&options{redis.Options{MaxRetries: -1, PoolSize: 4}}).client(t, cache)
	whoami := func() string {
		t.Helper()
		name, err := client.Do(t.Context(), "ACL", "WHOAMI").Text()
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	if got := whoami(); got != user {
		t.Fatalf("signed in as %q", got)
	}
	must("ACL", "SETUSER", user, ">second")
	a.PutSecret("arn:secret", `{"username":"`+user+`","password":"second"}`)
	asked := a.Asked("GetSecretValue")
	eventually(t, func() bool { // new connections may still use the old one for a while
		must("CLIENT", "KILL", "USER", user, "TYPE", "normal", "SKIPME", "yes")
		_ = client.Ping(t.Context()).Err() // finds the connection closed
		return whoami() == user && a.Asked("GetSecretValue") > asked
	})
	must("ACL", "SETUSER", user, "<first")
	must("CLIENT", "KILL", "USER", user, "TYPE", "normal", "SKIPME", "yes")
	_ = client.Ping(t.Context()).Err()
	if got := whoami(); got != user {
		t.Fatalf("signed in as %q", got)
	}
	// While Secrets Manager is unavailable, the last secret is used.
	a.Fail(1000, "InternalServiceError", 500)
	must("CLIENT", "KILL", "USER", user, "TYPE", "normal", "SKIPME", "yes")
	_ = client.Ping(t.Context()).Err()
	if got := whoami(); got != user {
		t.Fatalf("signed in as %q", got)
	}
}

// If the secret is missing or invalid, the error names it.
func TestSecretMissing(t *testing.T) {
	a := awstest.Start(t)
	a.PutGroup("feed", awstest.Group{Addr: redistest.Start(t).Addr(), Token: true})
	a.PutSecret("empty", "")
	for _, id := range []string{"none", "empty"} {
		cache, err := open(t, a, elasticache.Config{Name: "feed", Secret: id})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = (&options{redis.Options{MaxRetries: -1}}).client(t, cache).Ping(ctx).Err()
		cancel()
		if err == nil || !strings.Contains(err.Error(), "secret "+id) {
			t.Errorf("%s: %v", id, err)
		}
	}
}
