package elasticache_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
	"github.com/feedfilter/feedfilter/internal/awstest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// reached returns the configuration with which a test reaches AWS. The SDK makes three attempts,
// without its usual pauses.
func reached(a *awstest.AWS) *aws.Config {
	return &aws.Config{
		Region:       awstest.Region,
		BaseEndpoint: aws.String(a.URL()),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: awstest.KeyID, SecretAccessKey: awstest.Secret}, nil
		}),
	}
}

// open opens a cache with the AWS and the deadline of the test.
func open(t *testing.T, a *awstest.AWS, c elasticache.Config) (*elasticache.Cache, error) {
	t.Helper()
	if c.AWS == nil {
		c.AWS = reached(a)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cache, err := elasticache.Open(ctx, c)
	if err == nil {
		t.Cleanup(cache.Close)
	}
	return cache, err
}

// The description that AWS returns determines the options of clients.
func TestOpen(t *testing.T) {
	a := awstest.Start(t)
	a.PutGroup("plain", awstest.Group{Addr: "primary.test:6379", Reader: "reader.test:6379"})
	a.PutGroup("tls", awstest.Group{TLS: true, Addr: "primary.test:6379", Reader: "reader.test:6379"})
	a.PutGroup("cluster", awstest.Group{Cluster: true, TLS: true, Addr: "config.test:6379"})
	a.PutGroup("busy", awstest.Group{Status: "modifying", Addr: "primary.test:6379"})
	a.PutGroup("both", awstest.Group{TLS: true, TLSMode: "preferred", Addr: "primary.test:6379"})
	a.PutServerless("less", awstest.Serverless{Addr: "less.test:6379", Reader: "less.test:6380"})
	for name, want := range map[string]struct {
		config       elasticache.Config
		cluster, tls bool
		addr, reader string
	}{
		"plain":            {elasticache.Config{Name: "plain"}, false, false, "primary.test:6379", "reader.test:6379"},
		"tls":              {elasticache.Config{Name: "tls"}, false, true, "primary.test:6379", "reader.test:6379"},
		"cluster":          {elasticache.Config{Name: "cluster"}, true, true, "config.test:6379", "config.test:6379"},
		"being changed":    {elasticache.Config{Name: "busy"}, false, false, "primary.test:6379", ""},
		"TLS not required": {elasticache.Config{Name: "both"}, false, false, "primary.test:6379", ""},
		"TLS for IAM":      {elasticache.Config{Name: "both", User: "u"}, false, true, "primary.test:6379", ""},
		"serverless":       {elasticache.Config{Name: "less", Serverless: true}, true, true, "less.test:6379", "less.test:6380"},
	} {
		t.Run(name, func(t *testing.T) {
			cache, err := open(t, a, want.config)
			must(t, err)
			if cache.ClusterMode() != want.cluster || cache.TLS() != want.tls || cache.Addr() != want.addr {
				t.Errorf("cluster %v, tls %v, at %s", cache.ClusterMode(), cache.TLS(), cache.Addr())
			}
			for reader, addr := range map[bool]string{false: want.addr, true: want.reader} {
				single, cluster := &redis.Options{}, &redis.ClusterOptions{}
				err, other := cache.Configure(single, reader), cache.ConfigureCluster(cluster, reader)
				got := single.Addr
				if want.cluster {
					err, other = other, err
					got = strings.Join(cluster.Addrs, ",")
					if cluster.ReadOnly != reader {
						t.Errorf("replicas are read: %v", cluster.ReadOnly)
					}
				}
				if got != addr || (err == nil) != (addr != "") {
					t.Errorf("reader %v: configured for %q, %v", reader, got, err)
				}
				if !errors.Is(other, elasticache.ErrConfig) {
					t.Errorf("configured for the other mode: %v", other)
				}
			}
		})
	}
}

// Open reports the reason of a failure, and does so at once if waiting would not help.
func TestOpenFails(t *testing.T) {
	a := awstest.Start(t)
	a.PutGroup("plain", awstest.Group{Addr: "primary.test:6379"})
	a.PutGroup("token", awstest.Group{TLS: true, Token: true, Addr: "primary.test:6379"})
	a.PutGroup("going", awstest.Group{Status: "deleting", Addr: "primary.test:6379"})
	a.PutGroup("failed", awstest.Group{Status: "create-failed", NoEndpoints: true})
	nowhere := reached(a)
	nowhere.Region = ""
	for name, c := range map[string]struct {
		config elasticache.Config
		code   string // of AWS' answers
		want   error
		says   string
	}{
		"no such group":       {config: elasticache.Config{Name: "other"}, want: elasticache.ErrNotFound, says: "replication group other in eu-test-1"},
		"no such cache":       {config: elasticache.Config{Name: "other", Serverless: true}, want: elasticache.ErrNotFound, says: "serverless cache other"},
		"IAM without TLS":     {config: elasticache.Config{Name: "plain", User: "u"}, want: elasticache.ErrNoTLS, says: "user u"},
		"no token":            {config: elasticache.Config{Name: "token"}, want: elasticache.ErrConfig, says: "name the secret"},
		"being deleted":       {config: elasticache.Config{Name: "going"}, want: elasticache.ErrNotAvailable, says: `"deleting"`},
		"never made":          {config: elasticache.Config{Name: "failed"}, want: elasticache.ErrNotAvailable, says: `"create-failed"`},
		"denied":              {config: elasticache.Config{Name: "plain"}, code: "AccessDenied", want: elasticache.ErrAccessDenied, says: "elasticache:Describe"},
		"expired":             {config: elasticache.Config{Name: "plain"}, code: "ExpiredToken", want: elasticache.ErrAccessDenied, says: "credentials"},
		"refused, unheard of": {config: elasticache.Config{Name: "plain"}, code: "Unheard", want: elasticache.ErrAccessDenied, says: "Unheard"},
		"no name":             {config: elasticache.Config{}, want: elasticache.ErrConfig},
		"user and secret":     {config: elasticache.Config{Name: "plain", User: "u", Secret: "s"}, want: elasticache.ErrConfig},
		"user in capitals":    {config: elasticache.Config{Name: "plain", User: "U"}, want: elasticache.ErrConfig, says: "lower case"},
		"no region":           {config: elasticache.Config{Name: "plain", AWS: nowhere}, want: elasticache.ErrConfig, says: "AWS_REGION"},
		"not a region":        {config: elasticache.Config{Name: "plain", Region: "evil/../"}, want: elasticache.ErrConfig, says: "no region"},
	} {
		t.Run(name, func(t *testing.T) {
			a.Fail(0, "", 0)
			if c.code != "" {
				a.Fail(100, c.code, http.StatusForbidden)
			}
			_, err := open(t, a, c.config)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v that says %q", err, c.want, c.says)
			}
		})
	}
}

// Open waits while a failure is temporary: throttling, or a cache that is being created.
func TestOpenWaits(t *testing.T) {
	t.Parallel()
	a := awstest.Start(t)
	a.PutGroup("new", awstest.Group{Status: "creating", NoEndpoints: true})
	a.Fail(2, "Throttling", http.StatusBadRequest)
	created := make(chan struct{})
	go func() {
		defer close(created)
		if servertest.Await(t.Context(), "it was told creating", func(context.Context) error {
			if n := a.Asked("DescribeReplicationGroups"); n < 4 {
				return fmt.Errorf("asked %d times", n)
			}
			return nil
		}) != nil {
			return
		}
		a.PutGroup("new", awstest.Group{Addr: "primary.test:6379"})
	}()
	cache, err := open(t, a, elasticache.Config{Name: "new"})
	<-created
	if err != nil || cache.Addr() != "primary.test:6379" {
		t.Fatalf("%v", err)
	}
}

// Open gives up on a cache that does not become available in time.
func TestOpenGivesUp(t *testing.T) {
	t.Parallel()
	a := awstest.Start(t)
	a.PutServerless("new", awstest.Serverless{Status: "creating"})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := elasticache.Open(ctx, elasticache.Config{Name: "new", Serverless: true, AWS: reached(a)})
	if !errors.Is(err, elasticache.ErrNotAvailable) || !strings.Contains(err.Error(), `"creating"`) {
		t.Errorf("%v", err)
	}
}

// When connections fail, the cache is described again, and new connections go to the new endpoint.
func TestEndpointMoves(t *testing.T) {
	t.Parallel()
	before, after := listen(t), listen(t)
	a := awstest.Start(t)
	a.PutGroup("g", awstest.Group{Addr: before.Addr().String(), Reader: before.Addr().String()})
	cache, err := open(t, a, elasticache.Config{Name: "g"})
	must(t, err)
	var o, replica redis.Options
	must(t, errors.Join(cache.Configure(&o, false), cache.Configure(&replica, true)))
	dialled := func(o *redis.Options) string {
		conn, err := o.Dialer(t.Context(), "tcp", o.Addr)
		if err != nil {
			return "nowhere"
		}
		defer conn.Close()
		return conn.RemoteAddr().String()
	}
	if got := dialled(&o); got != before.Addr().String() {
		t.Fatalf("connected to %s", got)
	}
	a.PutGroup("g", awstest.Group{Addr: after.Addr().String(), Reader: after.Addr().String()})
	_ = before.Close()
	eventually(t, func() bool { return dialled(&o) == after.Addr().String() })
	if got := dialled(&replica); got != after.Addr().String() {
		t.Errorf("the reader connected to %s", got)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually retries until holds returns true.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(cmp.Or(context.Cause(ctx), errors.New("it does not hold")))
		}
	}
}

// A process that starts while AWS is unavailable uses the description of an earlier process. Later
// it uses what AWS reports.
func TestOpenByWhatWasTold(t *testing.T) {
	t.Parallel()
	a := awstest.Start(t)
	a.PutGroup("g", awstest.Group{Cluster: true, TLS: true, Addr: "config.test:6379"})
	c := elasticache.Config{Name: "g", File: filepath.Join(t.TempDir(), "new", "cache.json")}
	if _, err := open(t, a, c); err != nil {
		t.Fatal(err)
	}
	a.Fail(1_000_000, "ServiceUnavailable", http.StatusServiceUnavailable)
	cache, err := open(t, a, c)
	if err != nil || !cache.ClusterMode() || !cache.TLS() || cache.Addr() != "config.test:6379" {
		t.Fatalf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for what, other := range map[string]elasticache.Config{
		"another cache":  {Name: "h", File: c.File, AWS: reached(a)},
		"another region": {Name: "g", File: c.File, AWS: reached(a), Region: "eu-test-2"},
		"another kind":   {Name: "g", File: c.File, AWS: reached(a), Serverless: true},
	} {
		if _, err := elasticache.Open(ctx, other); err == nil {
			t.Errorf("%s: the description of another cache is used", what)
		}
	}
	a.PutGroup("g", awstest.Group{Cluster: true, TLS: true, Addr: "moved.test:6379"})
	a.Fail(0, "", 0)
	eventually(t, func() bool { return cache.Addr() == "moved.test:6379" })
}
