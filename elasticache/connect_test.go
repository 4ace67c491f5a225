package elasticache_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
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
	must(t, cache.Configure(&o.Options, false))
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

// A client whose token is refused gets the server's error.
func TestIAMRefused(t *testing.T) {
	a := awstest.Start(t)
	front := startIAM(t, a)
	conf := reached(a)
	cache, err := open(t, a, elasticache.Config{Name: "feed", User: "somebody-else", AWS: conf})
	must(t, err)
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
	must(t, err)
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
	asAdmin := func(args ...any) {
		t.Helper()
		must(t, admin.Do(t.Context(), args...).Err())
	}
	asAdmin("ACL", "SETUSER", user, "on", ">first", "~*", "+@all")
	a.PutGroup("feed", awstest.Group{Addr: server.Addr(), Token: true})
	a.PutSecret("arn:secret", `{"username":"`+user+`","password":"first"}`)
	cache, err := open(t, a, elasticache.Config{Name: "feed", Secret: "arn:secret"})
	must(t, err)
	client := (&options{redis.Options{MaxRetries: -1, PoolSize: 4}}).client(t, cache)
	whoami := func() string {
		t.Helper()
		name, err := client.Do(t.Context(), "ACL", "WHOAMI").Text()
		must(t, err)
		return name
	}
	if got := whoami(); got != user {
		t.Fatalf("signed in as %q", got)
	}
	asAdmin("ACL", "SETUSER", user, ">second")
	a.PutSecret("arn:secret", `{"username":"`+user+`","password":"second"}`)
	asked := a.Asked("GetSecretValue")
	eventually(t, func() bool { // new connections may still use the old one for a while
		asAdmin("CLIENT", "KILL", "USER", user, "TYPE", "normal", "SKIPME", "yes")
		_ = client.Ping(t.Context()).Err() // finds the connection closed
		return whoami() == user && a.Asked("GetSecretValue") > asked
	})
	asAdmin("ACL", "SETUSER", user, "<first")
	asAdmin("CLIENT", "KILL", "USER", user, "TYPE", "normal", "SKIPME", "yes")
	_ = client.Ping(t.Context()).Err()
	if got := whoami(); got != user {
		t.Fatalf("signed in as %q", got)
	}
	// While Secrets Manager is unavailable, the last secret is used.
	a.Fail(1000, "InternalServiceError", 500)
	asAdmin("CLIENT", "KILL", "USER", user, "TYPE", "normal", "SKIPME", "yes")
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
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = (&options{redis.Options{MaxRetries: -1}}).client(t, cache).Ping(ctx).Err()
		cancel()
		if err == nil || !strings.Contains(err.Error(), "secret "+id) {
			t.Errorf("%s: %v", id, err)
		}
	}
}
