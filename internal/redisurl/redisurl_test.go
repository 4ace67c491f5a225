package redisurl_test

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/redisurl"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"redis://h":                                    "h:6379 db 0",
		"redis://h:1/7":                                "h:1 db 7",
		"rediss://u:p%40@h:1":                          "h:1 db 0 user u:p@ tls h",
		"redis://[::1]:2?db=3":                         "[::1]:2 db 3",
		"unix://u:p@/run/redis.sock?db=1":              "/run/redis.sock db 1 user u:p",
		"redis+cluster://h:1":                          "h:1 cluster",
		"redis+cluster://u:p%40@h:1,[::1]:2,i":         "h:1,[::1]:2,i:6379 cluster user u:p@",
		"rediss+cluster://h:1,i:2/":                    "h:1,i:2 cluster tls h",
		"redis+cluster://h:1?client_name=a":            "h:1 cluster name a",
		"redis+sentinel://h:1,i/main":                  "h:1,i:26379 master main db 0",
		"redis+sentinel://s:p@h:1/main/3":              "h:1 master main db 3 sentinel s:p",
		"rediss+sentinel://h:1/a%2Fb/":                 "h:1 master a/b db 0 tls h",
		"redis+sentinel://h/main?username=u&password=": "h:26379 master main db 0 user u:",
		"redis+sentinel://h/main?client_name=a&db=2":   "h:26379 master main db 2 name a",
		"elasticache://g":                              "replication group g",
		"elasticache://g/?region=r&user=u&reader=1":    "replication group g region r user u reads replicas",
		"elasticache-serverless://c?secret=arn:s%2F1":  "serverless cache c secret arn:s/1",
	} {
		s, err := redisurl.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := describe(s); got != want {
			t.Errorf("%s:\nparsed as %s\nwant    %s", text, got, want)
		}
	}
}

// describe returns the parts of a parsed URL.
func describe(s *redisurl.Servers) string {
	b := &strings.Builder{}
	b.WriteString(s.Name())
	add := func(format string, args ...any) {
		for _, a := range args {
			if a != "" && a != ":" {
				fmt.Fprintf(b, " "+format, args...)
				return
			}
		}
	}
	switch {
	case s.Single != nil:
		add("db %d", s.Single.DB)
		add("user %s", s.Single.Username+":"+s.Single.Password)
		add("name %s", s.Single.ClientName)
		if c := s.Single.TLSConfig; c != nil {
			add("tls %s", c.ServerName)
		}
	case s.Cluster != nil:
		b.WriteString(" cluster")
		add("user %s", s.Cluster.Username+":"+s.Cluster.Password)
		add("name %s", s.Cluster.ClientName)
		if c := s.Cluster.TLSConfig; c != nil {
			add("tls %s", c.ServerName)
		}
	case s.Managed != nil:
		add("region %s", s.Managed.Config.Region)
		add("user %s", s.Managed.Config.User)
		add("secret %s", s.Managed.Config.Secret)
		if s.Managed.Reader {
			add("reads %s", "replicas")
		}
	default:
		add("master %s", s.Failover.MasterName)
		add("db %d", s.Failover.DB)
		add("sentinel %s", s.Failover.SentinelUsername+":"+s.Failover.SentinelPassword)
		add("user %s", s.Failover.Username+":"+s.Failover.Password)
		add("name %s", s.Failover.ClientName)
		if c := s.Failover.TLSConfig; c != nil {
			add("tls %s", c.ServerName)
		}
	}
	return b.String()
}

// TestParseSettings checks that settings in the query stay, and that the others get defaults.
func TestParseSettings(t *testing.T) {
	type settings struct {
		dial, read, write, minBackoff, maxBackoff time.Duration
		retries, redirects, dials, pool           int
		contexts                                  bool
	}
	read := func(query string) map[string]settings {
		all := make(map[string]settings)
		for _, text := range []string{"redis://h", "redis+cluster://h", "redis+sentinel://h/m"} {
			s, err := redisurl.Parse(text + query)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case s.Single != nil:
				o := s.Single
				all[text] = settings{
					o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.MinRetryBackoff, o.MaxRetryBackoff,
					o.MaxRetries, 0, o.DialerRetries, o.PoolSize, o.ContextTimeoutEnabled,
				}
			case s.Cluster != nil:
				o := s.Cluster
				all[text] = settings{
					o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.MinRetryBackoff, o.MaxRetryBackoff,
					o.MaxRetries, o.MaxRedirects, o.DialerRetries, o.PoolSize, o.ContextTimeoutEnabled,
				}
			default:
				o := s.Failover
				all[text] = settings{
					o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.MinRetryBackoff, o.MaxRetryBackoff,
					o.MaxRetries, 0, o.DialerRetries, o.PoolSize, o.ContextTimeoutEnabled,
				}
			}
		}
		return all
	}
	for _, c := range []struct {
		query string
		want  settings
	}{
		{"", settings{time.Second, 2 * time.Second, 2 * time.Second, 8 * time.Millisecond, 256 * time.Millisecond, 2, 5, 1, 10 * runtime.GOMAXPROCS(0), true}},
		{
			"?dial_timeout=3s&read_timeout=4&write_timeout=5ms&min_retry_backoff=1ms&max_retry_backoff=2ms&max_retries=7&pool_size=9",
			settings{3 * time.Second, 4 * time.Second, 5 * time.Millisecond, time.Millisecond, 2 * time.Millisecond, 7, 5, 1, 9, true},
		},
	} {
		for text, got := range read(c.query) {
			want := c.want
			switch {
			case !strings.Contains(text, "cluster"):
				want.redirects = 0
			case c.query == "":
				want.retries = 0
			}
			if got != want {
				t.Errorf("%s%s:\nset to %+v\nwant   %+v", text, c.query, got, want)
			}
		}
	}
}

// TestParseErrors checks that errors contain only the scheme and mistakes in the query.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                          `"" is not supported`,
		"secret":                                    "is not supported",
		"memcache://u:secret@h":                     `"memcache" is not supported`,
		"unix+cluster:///secret":                    `"unix+cluster" is not supported`,
		"redis+other://u:secret@h":                  `"redis+other" is not supported`,
		"redis://u:secret@h:port":                   "the port is not a number from 1 to 65535",
		"redis://h:99999":                           "the port is not a number from 1 to 65535",
		"redis://h:0":                               "the port is not a number from 1 to 65535",
		"redis+cluster://h:port,i:2":                "the port is not a number from 1 to 65535",
		"redis+sentinel://h:1,i:70000/m":            "the port is not a number from 1 to 65535",
		"redis://u:1/secret@h":                      "not a URL",
		"redis://u:secret@h/secret":                 "the path is not a database number",
		"redis://u/secret@h":                        "percent-encode all characters",
		"redis://u:sec?ret@h:1/0":                   "percent-encode all characters",
		"redis://u:secret#x@h:1/0":                  "percent-encode all characters",
		"redis://u:secret[x@h:1/0":                  "percent-encode all characters",
		"redis://u:secret%@h:1/0":                   "percent-encode all characters",
		"redis://u:secret@h:1/0\n":                  "remove white space",
		"redis://u:secret@h:1/0\r\n":                "remove white space",
		"redis://u:secret@ h:1/0":                   "remove white space",
		"redis+cluster://u:secret@h:1\n":            "remove white space",
		"redis+cluster://u:se/cret@h:1":             "percent-encode all characters",
		"redis+sentinel://u:secret@h:1/m\n":         "remove white space",
		"redis+sentinel://u:se#cret@h:1/m":          "percent-encode all characters",
		"elasticache://g?user=secret\n":             "remove white space",
		"redis://h?secretless=1":                    "unexpected option: secretless",
		"redis://h?max_retries=many":                "invalid max_retries number",
		"redis://u:secret@h:1,i:2":                  "not a URL",
		"redis+cluster://":                          "the hosts are not",
		"redis+cluster://u:secret@h:1:2":            "the hosts are not",
		"redis+cluster://u:secret@h:1,":             "the hosts are not",
		"redis+cluster://u:secret@h:1,i:j":          "the port is not a number from 1 to 65535",
		"redis+cluster://u:secret@h/1":              "no databases",
		"redis+cluster://u:sec%ret@h":               "percent-encode all characters",
		"redis+cluster://h?addr=u:secret@i":         "unexpected option: addr",
		"redis+cluster://h?read_only=true":          "only from primaries",
		"redis+cluster://h?db=1":                    "unexpected option: db",
		"redis+cluster://h?route_randomly=1":        "only from primaries",
		"redis+sentinel://u:secret@h":               "name of a master",
		"redis+sentinel://u:secret@h/m/x":           "the path is not a database number",
		"redis+sentinel://h/m/1/secret":             "the path is not a database number",
		"redis+sentinel://h/m?master_name=m":        "unexpected option: master_name",
		"redis+sentinel://h/m?replica_only=1":       "only from primaries",
		"redis+sentinel://h/m?dial_timeout=x":       "invalid dial_timeout duration",
		"elasticache://u:secret@g":                  "credentials belong in the query",
		"elasticache://g:6379":                      "only the name of a cache",
		"elasticache://g?user=u%zz":                 "not a URL",
		"elasticache://g?user=u;a=b":                "not a URL",
		"elasticache://g/1":                         "only the name of a cache",
		"elasticache://":                            "only the name of a cache",
		"elasticache://g?user=u&secret=s":           "a user and a secret exclude",
		"elasticache://g?reader=perhaps":            "neither true nor false",
		"elasticache-serverless://g?read_only=true": "unexpected option: read_only",
		"elasticache-serverless://g?sekret=s":       "unexpected option: sekret",
	} {
		s, err := redisurl.Parse(text)
		switch {
		case err == nil:
			t.Errorf("%s: parsed as %s", text, describe(s))
		case !strings.Contains(err.Error(), want) || strings.Contains(withoutNames(err.Error()), "secret") && text != "secret":
			t.Errorf("%s: error %q, want %q", text, err, want)
		case !strings.Contains(err.Error(), "redis+sentinel://<host>") && !strings.Contains(err.Error(), "://<name>?region="):
			t.Errorf("%s: error %q lacks the accepted forms", text, err)
		}
	}
}

// withoutNames returns an error's text without its general mentions of secrets.
func withoutNames(text string) string {
	return strings.NewReplacer("secretless", "", "secret=", "", "a secret", "").Replace(text)
}

func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"redis://u:p@h:1/2?db=3", "redis+cluster://u:p@h:1,i:2", "rediss+sentinel://u:p@h:1,i:2/m/3?password=p"} {
		f.Add(text, "se&cret")
	}
	f.Fuzz(func(t *testing.T, text, password string) {
		_, _ = redisurl.Parse(text) // does not panic
		password = "zq" + password + "qz"
		for _, scheme := range []string{"redis", "redis+cluster", "redis+sentinel", "elasticache"} {
			_, err := redisurl.Parse(scheme + "://u:" + url.QueryEscape(password) + "@" + text)
			if err != nil && strings.Contains(err.Error(), "zq") && !strings.Contains(text, "zq") {
				t.Errorf("the error contains the password: %v", err)
			}
		}
	})
}
