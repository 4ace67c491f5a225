package redistest_test

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/proxytest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const password = "s3cret/@:"

// secureArgs returns the arguments of a server with TLS and a password.
func secureArgs(t *testing.T) (*redistest.Authority, []string) {
	t.Helper()
	authority, err := redistest.NewAuthority(t.TempDir())
	must(t, err)
	return authority, slices.Concat(authority.Args(), redistest.PasswordArgs(password))
}

func TestStartWithTLS(t *testing.T) {
	t.Parallel()
	authority, args := secureArgs(t)
	s := redistest.Start(t, append(args, "--user", "app", "on", ">hers", "~*", "&*", "+@all")...)
	set(t, s.Client(), "key", "value")
	opts, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatalf("URL() = %q: %v", s.URL(), err)
	}
	if opts.Addr != s.Addr() || opts.Password != password || opts.TLSConfig == nil {
		t.Errorf("URL() = %q, want %s with the password and TLS", s.URL(), s.Addr())
	}
	config, err := authority.ClientConfig()
	must(t, err)
	for _, c := range []struct {
		name           string
		user, password string
		secure         *tls.Config
		wrong          string
	}{
		{"the password", "", password, config, ""},
		{"a user", "app", "hers", config, ""},
		{"another password", "", "guessed", config, "WRONGPASS"},
		{"no password", "", "", config, "NOAUTH"},
		{"an authority not known", "", password, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "127.0.0.1"}, "certificate signed by unknown authority"},
		{"no TLS", "", password, nil, "EOF"},
	} {
		client := redis.NewClient(&redis.Options{
			Addr: s.Addr(), Username: c.user, Password: c.password, TLSConfig: c.secure, MaxRetries: -1, DialerRetries: 1,
		})
		err := client.Get(t.Context(), "key").Err()
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.wrong != "" && (err == nil || c.wrong != "EOF" && !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %s", c.name, err, c.wrong)
		}
		_ = client.Close()
	}
	s.Kill()
	s.Restart()
	set(t, s.Client(), "key", "value")
}

// TestClusterWithTLS tests the functions of a cluster with TLS and a password, also behind proxies.
func TestClusterWithTLS(t *testing.T) {
	t.Parallel()
	_, args := secureArgs(t)
	proxies := make(map[string]bool) // by the proxy's address
	c := redistest.StartClusterVia(t, 3, 1, func(addr string) string {
		proxy := proxytest.Start(t, addr).Addr()
		proxies[proxy] = true
		return proxy
	}, args...)
	if want := "rediss+cluster://:s3cret%2F%40%3A@" + strings.Join(c.Addrs(), ","); c.URL() != want {
		t.Errorf("URL() = %q, want %q", c.URL(), want)
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		setInCluster(t, c, key, "value")
		wantInCluster(t, c, key, "value")
	}
	wantNamed(t, c, proxies)
	from := primaryOf(t, c, "{a}")
	to := primaryOf(t, c, "{b}")
	if from == to {
		t.Fatal("both keys are on one primary")
	}
	must(t, c.MoveSlots(t.Context(), from, to, []int{slotOf(t, from, "{a}")}))
	wantInCluster(t, c, "a", "value")
	replica := replicaOf(t, c, to)
	must(t, c.Failover(t.Context(), replica, ""))
	to.Kill()
	wantInCluster(t, c, "a", "value")
	to.Restart()
	waitOK(t, c)
	wantNamed(t, c, proxies)
}

// wantNamed checks that the cluster names to its clients only the addresses in proxies.
func wantNamed(t *testing.T, c *redistest.Cluster, proxies map[string]bool) {
	t.Helper()
	slots, err := c.Client().ClusterSlots(t.Context()).Result() //nolint:staticcheck // go-redis itself goes by it
	must(t, err)
	for _, r := range slots {
		for _, node := range r.Nodes {
			if !proxies[node.Addr] {
				t.Errorf("the cluster names %s to clients, which is not a proxy", node.Addr)
			}
		}
	}
}
