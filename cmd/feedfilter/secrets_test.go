package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// secret is a password of which parts can be recognized.
const secret = "zqSECRETqz"

// wantNoSecret fails the test if text contains the password or half of it.
func wantNoSecret(t *testing.T, what, text string) {
	t.Helper()
	if lower := strings.ToLower(text); strings.Contains(lower, "zqsec") || strings.Contains(lower, "retqz") {
		t.Errorf("%s: the password shows: %s", what, text)
	}
}

// TestSecrets makes serve, doctor and import fail in every way that involves a password. No output
// shows it.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/a.csv", "1,block,2\n")
	redis := redistest.Start(t, redistest.PasswordArgs("right")...)
	redisAddr := redis.Addr()
	for i, flag := range []string{
		// Invalid command lines.
		"--redis=redis://u:" + secret + "@h:x:1", "--redis=redis://u:" + secret + "@h:port", "--redis=redis://u:" + secret + "%zz@h:1", "--redis=redis://u:a " + secret + "@h",
		"--redis=http://u:" + secret + "@h:1", "--redis=" + "//u:" + secret + "@h:1", "--redis=redis://u:" + secret + "@h:1/notanumber", "--redis=redis://u:" + secret + "@h:1?nosuch=1",
		"--redis=redis://u:" + secret + "@h:1?db=x", "--redis=redis+cluster://u:" + secret + "@h:1,:2", "--redis=redis+sentinel://h:1?password=" + secret, "--redis=elasticache://x:" + secret + "@h",
		"--ledger=postgres://u:" + secret + "@h:x:1/db", "--ledger=postgres://u:" + secret + "@h:port/db", "--ledger=postgres://u:" + secret + "%zz@h/db", "--ledger=mysql://u:" + secret + "@h/db",
		"--ledger=host=h password=" + secret + " dbname=db", "--ledger=host=h password=" + secret + ":1", "--redis=" + secret + "@h:1", "--redis=redis+" + secret + "@h:1",
		"--redis=u:" + secret + "@h", "--pages=redis://:" + secret + "@h", "--config=redis://:" + secret + "@h:1", "--kinds=postgres://u:" + secret + "@h/db", "--no-such=postgres://u:" + secret + "@h/db",
		"--ledger=postgres://h/db?user=u&password=" + secret + "&sslmode=nosuch", "--ledger=postgres://u:" + secret + "@h/db?search_path=pg_x", "--ledger=//u:" + secret + "@h/db",
		// Servers that do not answer within some seconds.
		"--ledger=postgres://127.0.0.1:1/db?connect_timeout=1&user=u&password=" + secret,
	} {
		name, value, _ := strings.Cut(flag, "=")
		for command, args := range map[string][]string{
			"serve": {"serve", "--addr=127.0.0.1:0"}, "doctor": {"doctor", "--timeout=500ms"}, "import": {"import", dir + "/a.csv"},
		} {
			if command != "serve" && i%2 != map[string]int{"doctor": 0, "import": 1}[command] {
				continue // they share the flag's definition
			}
			args = append(slices.Clone(args), "--data-dir", t.TempDir())
			wantNoSecret(t, command+" "+flag, failing(t, append(args, flag)...))
			if command != "serve" || i%4 != 0 {
				continue
			}
			t.Setenv("FEEDFILTER_"+strings.ToUpper(strings.TrimLeft(name, "-")), value)
			wantNoSecret(t, command+", in the environment, "+flag, failing(t, args...))
			must(t, os.Unsetenv("FEEDFILTER_"+strings.ToUpper(strings.TrimLeft(name, "-"))))
		}
	}
	// The service runs without Redis, and while Redis refuses the password.
	used := t.TempDir() // the first start needs Redis
	writeFile(t, used+"/a.csv", "1,block,2\n")
	feedfilter(t, 0, "import", used+"/a.csv", "--data-dir", used, "--pages=1")
	for _, address := range []string{
		"redis://u:" + secret + "@127.0.0.1:1", "redis://:" + secret + "@" + redisAddr, "redis+cluster://:" + secret + "@" + redisAddr, "redis+sentinel://:" + secret + "@" + redisAddr + "/m?password=" + secret,
	} {
		wantNoSecret(t, "doctor "+address, failing(t, "doctor", "--timeout=500ms", "--data-dir", t.TempDir(), "--redis", address))
		s := launch(t, "--data-dir", used, "--pages=1", "--log-level=debug", "--redis", address)
		wantNoSecret(t, address, s.awaitLogText("listening"))
		s.first = make(map[string]any)
		must(t, json.Unmarshal(s.lines.Bytes(), &s.first))
		wantNoSecret(t, address, s.awaitLogText("redis unavailable, feeds are answered from the ledger"))
		for _, path := range []string{"/readyz", "/v1/stats", "/v1/pages", "/v1/users/1"} {
			_, answer := s.do("GET", path, "")
			wantNoSecret(t, address+" "+path, answer)
		}
		s.signal(syscall.SIGTERM)
		_, rest := s.wait()
		wantNoSecret(t, address, rest)
	}
}

// failing runs a command in this process, which is cheaper than a new one, and returns its output.
// The command must fail.
func failing(t *testing.T, args ...string) string {
	t.Helper()
	said, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer said.Close()
	if code := run(args, stdio{os.Stdin, said, said}); code == 0 {
		t.Errorf("%v succeeds", args)
	}
	text, err := os.ReadFile(said.Name())
	if err != nil || len(text) == 0 {
		t.Errorf("%v prints nothing: %v", args, err)
	}
	return string(text)
}

// awaitLogText reads the log up to a line with msg, and returns all of it.
func (s *service) awaitLogText(msg string) string {
	s.t.Helper()
	var b strings.Builder
	for s.lines.Scan() {
		b.WriteString(s.lines.Text() + "\n")
		if strings.Contains(s.lines.Text(), `"msg":"`+msg+`"`) {
			return b.String()
		}
	}
	s.t.Fatalf("the log ended without %q: %s", msg, &b)
	return ""
}

// Errors about a broken settings file or token file show none of its content.
func TestSecretsInFiles(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{
		`{"redis":["redis://u:` + secret + `@h:1"]}`, `{"redis":{"` + secret + `":1}}`, `{"redis":"redis://u:` + secret + `@h:x:1"}`, `{"redis":"` + secret, `{"ledger":"postgres://u:` + secret + `@h:x/db"}`,
	} {
		name := dir + "/config.json"
		writeFile(t, name, text)
		wantNoSecret(t, text, failing(t, "serve", "--addr=127.0.0.1:0", "--data-dir", dir, "--config", name))
	}
	for _, text := range []string{secret, `{"tokens":[{"name":"a","hash":"` + secret + `","scopes":["` + secret + `"]}]}`} {
		writeFile(t, dir+"/tokens.json", text)
		for _, args := range [][]string{{"serve", "--addr=127.0.0.1:0", "--data-dir", dir}, {"token", "check"}, {"token", "list"}, {"token", "new", "--name=b", "--scope=feed:read"}} {
			wantNoSecret(t, args[0]+" "+text, failing(t, append(args, "--auth-file", dir+"/tokens.json")...))
		}
	}
	writeFile(t, dir+"/token", secret)
	tokenFile(t, dir+"/tokens.json", "a")
	wantNoSecret(t, "check", failing(t, "token", "check", "--auth-file", dir+"/tokens.json", "--token-file", dir+"/token"))
	t.Setenv(tokenVariable, secret)
	wantNoSecret(t, "reshape", failing(t, "reshape", "--pages=32", "--server", "http://127.0.0.1:1"))
}
