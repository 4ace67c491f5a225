package doctor

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// AccessRule grants what the Terraform module grants its user, except what the service does not
// need.
func TestRuleIsTheModules(t *testing.T) {
	text, err := os.ReadFile("../../infra/terraform/access.tf")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("access_string = join("))
	text, _, _ = bytes.Cut(text, []byte("\n  ))"))
	commands := func(text string) []string {
		all := regexp.MustCompile(`\+[a-z|]+`).FindAllString(text, -1)
		slices.Sort(all)
		return slices.DeleteFunc(all, func(c string) bool { return c == "+client|setinfo" }) // Redis 7.0 does not know it
	}
	if got, want := commands(AccessRule("feed")), commands(string(text)); !slices.Equal(got, want) || len(want) < 20 {
		t.Errorf("doctor asks for %q, the module gives %q", got, want)
	}
}

// The checks "sign-in" and "commands" recognize servers that refuse all clients, and servers that
// are not Redis.
func TestStates(t *testing.T) {
	t.Parallel()
	d := newDoctor(Config{Redis: &redisurl.Servers{Single: &redis.Options{}}})
	for _, c := range []struct {
		err  error
		says string
	}{
		{errors.New("LOADING Redis is loading the dataset in memory"), "Wait until the server has loaded"},
		{errors.New("BUSY Redis is busy running a script"), "SCRIPT KILL"},
		{errors.New("MASTERDOWN Link with MASTER is down"), "Name the primary"},
		{errors.New("MISCONF Redis is configured to save RDB snapshots"), "Free the server's disk"},
		{errors.New("ERR Error running script: @user_script:6: -MISCONF Errors writing to the AOF file"), "Free the server's disk"},
		{errors.New("NOREPLICAS Not enough good replicas to write"), "min-replicas-to-write"},
		{errors.New("ERR DB index is out of range"), "database number"},
		{errors.New("ERR SELECT is not allowed in cluster mode"), "database number"},
		{errors.New(`redis: invalid reply: "HTTP/1.1 400 Bad Request"`), "does not speak the Redis protocol"},
		{errors.New("remote error: tls: certificate required"), "tls-auth-clients"},
	} {
		for _, check := range []string{"sign-in", "commands"} {
			if todo := d.advice(check, c.err); !strings.Contains(todo, c.says) {
				t.Errorf("%s, %v: %s", check, c.err, todo)
			}
		}
	}
}

// Advice about certificates never is to do without TLS.
func TestAdvice(t *testing.T) {
	t.Parallel()
	d := newDoctor(Config{Redis: &redisurl.Servers{Single: &redis.Options{}}})
	for _, c := range []struct{ check, err, says string }{
		{"tls", "x509: certificate relies on legacy Common Name field, use SANs instead", "a host name in --redis that the certificate contains"},
		{"tls", "x509: certificate is not valid for any names, but wanted to match h", "a host name in --redis that the certificate contains"},
		{"network", "dial tcp 10.0.0.1:6379: connect: connection timed out", "a firewall"},
		{"sentinel", "DENIED Redis is running in protected mode", "Name the sentinels"},
		{"commands", "CLUSTERDOWN The cluster is down", "Fix the failed checks above first"},
		{"ledger", "permission denied", "Check the file and its permissions"},
	} {
		if todo := d.advice(c.check, errors.New(c.err)); !strings.Contains(todo, c.says) {
			t.Errorf("%s, %s: %s", c.check, c.err, todo)
		}
	}
}
