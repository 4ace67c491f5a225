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

// The user that doctor asks for has the rights that the Terraform module gives its user, except
// those that have no use here.
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

// reply is an error that a server answered with.
type reply string

func (r reply) Error() string { return string(r) }

// RedisError marks it as such.
func (reply) RedisError() {}

// Servers that refuse everybody, and what is no server, are told for what they are, by sign-in and
// by commands.
func TestStates(t *testing.T) {
	t.Parallel()
	d := New(Config{Redis: &redisurl.Servers{Single: &redis.Options{}}})
	for _, c := range []struct {
		err  error
		says string
	}{
		{reply("LOADING Redis is loading the dataset in memory"), "Wait until the server has loaded"},
		{reply("BUSY Redis is busy running a script."), "SCRIPT KILL"},
		{reply("MASTERDOWN Link with MASTER is down"), "Name the primary"},
		{reply("MISCONF Redis is configured to save RDB snapshots"), "Free its disk"},
		{reply("ERR Error running script: @user_script:6: -MISCONF Errors writing to the AOF file"), "Free its disk"},
		{reply("NOREPLICAS Not enough good replicas to write."), "min-replicas-to-write"},
		{reply("ERR DB index is out of range"), "number of the database"},
		{reply("ERR SELECT is not allowed in cluster mode"), "number of the database"},
		{errors.New(`redis: invalid reply: "HTTP/1.1 400 Bad Request"`), "does not speak as Redis does"},
		{errors.New("remote error: tls: certificate required"), "tls-auth-clients"},
	} {
		if todo := d.signInTodo(c.err); !strings.Contains(todo, c.says) {
			t.Errorf("sign-in, %v: %s", c.err, todo)
		}
		if f := d.judgeCommand(c.err); f.status != Fail || !strings.Contains(f.todo, c.says) {
			t.Errorf("scripts, %v: %+v", c.err, f)
		}
	}
}
