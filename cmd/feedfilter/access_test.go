package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// tokenFile writes a token file with a token of all scopes for each name.
func tokenFile(t testing.TB, name string, tokens ...string) {
	t.Helper()
	f := access.File{}
	for _, token := range tokens {
		f.Tokens = append(f.Tokens, access.Entry{Name: token, Hash: access.HashToken(token), Scopes: access.Scopes()})
	}
	text, err := json.Marshal(f)
	must(t, err)
	writeFile(t, name+".next", string(text))
	must(t, os.Rename(name+".next", name))
}

// ask sends a request with a token, and returns the status of the answer, 0 without an answer.
func ask(t testing.TB, client *http.Client, method, url, token string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	must(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, nil
}

// eventually waits until another process has made the condition true.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestServeTokens checks that a service on all addresses requires tokens, rereads its token file,
// and writes an audit log.
func TestServeTokens(t *testing.T) {
	dir := t.TempDir()
	tokens, audit := filepath.Join(dir, "tokens.json"), filepath.Join(dir, "audit.log")
	tokenFile(t, tokens, "old")
	s := serve(t, "--data-dir", dir, "--pages=16", "--addr=0.0.0.0:0", "--auth-file", tokens, "--audit-log", audit)
	warning := s.awaitLog("access")
	wantContains(t, fmt.Sprint(warning["warning"]), "plain text")
	_, port, err := net.SplitHostPort(s.addr())
	must(t, err)
	url := "http://127.0.0.1:" + port
	status := func(token string) int {
		code, err := ask(t, http.DefaultClient, http.MethodPut, url+"/v1/users/alice/blocks/bob", token)
		must(t, err)
		return code
	}
	if got := [3]int{status("old"), status("new"), status("")}; got != [3]int{200, 401, 401} {
		t.Errorf("before: %v", got)
	}
	tokenFile(t, tokens, "new")
	eventually(t, "the new token is good", func() bool { return status("new") == 200 })
	if got := status("old"); got != 401 {
		t.Errorf("the old token: %d", got)
	}
	writeFile(t, tokens, `{"tokens":[]}`)
	wantContains(t, fmt.Sprint(s.awaitLog("reload failed, previous contents stay in force")["error"]), "tokens: 0")
	if got := status("new"); got != 200 {
		t.Errorf("after a broken file: %d", got)
	}
	r := runCommand(t, []string{"FEEDFILTER_TOKEN=new"}, "feedfilter", "reshape", "--pages=32", "--server", url)
	if r.code != 0 {
		t.Errorf("reshape with the token: %s", r.stderr)
	}
	writeFile(t, filepath.Join(dir, "token"), "wrong\n")
	r = feedfilter(t, 1, "reshape", "--pages=32", "--server", url, "--token-file", filepath.Join(dir, "token"))
	wantContains(t, r.stderr, "the token is not known")
	s.signal(syscall.SIGTERM)
	s.wantExit(0)

	text, err := os.ReadFile(audit)
	must(t, err)
	hashes := strings.Fields(feedfilter(t, 0, "debug", "hash-id", "--data-dir", dir, "alice", "bob").stdout)
	wantContains(t, string(text), `"token":"old","op":"add","kind":"block","user":"`+hashes[0]+`","target":"`+hashes[1]+`","changed":1}`,
		`"code":"unauthenticated","reason":"the token is not known"`, `"op":"reshape"`)
	if strings.Contains(string(text), "alice") || strings.Contains(string(text), "bob") {
		t.Errorf("ids are in %s", text)
	}
	for _, name := range []string{audit, filepath.Join(dir, "id.key")} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// tlsClient returns a client that trusts the authority in a directory, and may have a client
// certificate.
func tlsClient(t testing.TB, dir string, shows bool) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	must(t, err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{"h2", "http/1.1"}}
	config.RootCAs.AppendCertsFromPEM(ca)
	if shows {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"))
		must(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
}

func TestServeTLS(t *testing.T) {
	dir, next, strange := t.TempDir(), t.TempDir(), t.TempDir()
	for _, d := range []string{dir, next, strange} {
		if _, err := redistest.NewAuthority(d); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, "--data-dir", t.TempDir(), "--tls-cert", dir+"/server.pem", "--tls-key", dir+"/server.key", "--tls-client-ca", dir+"/ca.pem")
	url := "https://" + s.addr()
	client := tlsClient(t, dir, true)
	resp, err := client.Get(url + "/healthz") //nolint:noctx // ends with the process
	must(t, err)
	_ = resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK || resp.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s %s, header %v", resp.Proto, resp.Status, resp.Header)
	}
	if code, err := ask(t, tlsClient(t, dir, false), http.MethodGet, url+"/healthz", ""); err == nil {
		t.Errorf("without a certificate: %d", code)
	}
	mixed := tlsClient(t, dir, false)
	pair, err := tls.LoadX509KeyPair(strange+"/server.pem", strange+"/server.key")
	must(t, err)
	mixed.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	if code, err := ask(t, mixed, http.MethodGet, url+"/healthz", ""); err == nil {
		t.Errorf("with a certificate of another authority: %d", code)
	}
	// Streams work over TLS, too.
	body, request := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/activities", body)
	must(t, err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err = client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	for range 3 {
		if _, err := io.WriteString(request, `{"user":"1","kind":"hide","target":"p","op":"add"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(resp.Body, make([]byte, len(`{"changed":`))); err != nil {
			t.Fatal(n, err)
		}
		if _, err := resp.Body.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	_ = request.Close()

	// All files are replaced while the service runs.
	for _, name := range []string{"server.pem", "server.key", "ca.pem"} {
		text, err := os.ReadFile(filepath.Join(next, name))
		must(t, err)
		writeFile(t, filepath.Join(dir, name), string(text))
	}
	eventually(t, "the new certificates are in force", func() bool {
		code, err := ask(t, tlsClient(t, next, true), http.MethodGet, url+"/healthz", "")
		return err == nil && code == 200
	})
	if code, err := ask(t, client, http.MethodGet, url+"/healthz", ""); err == nil {
		t.Errorf("with the old ones: %d", code)
	}
}

// Without tokens, a service on a loopback address refuses requests with a foreign Host or Origin.
func TestServeHosts(t *testing.T) {
	s := serve(t, "--data-dir", t.TempDir())
	status := func(host string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr()+"/v1/stats", http.NoBody)
		must(t, err)
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := [4]int{status("localhost:8080"), status("127.0.0.1"), status("[::1]:1"), status("evil.example:8080")}; got != [4]int{200, 200, 200, 421} {
		t.Errorf("%v", got)
	}
}

func TestAccessFlags(t *testing.T) {
	dir := t.TempDir()
	if _, err := redistest.NewAuthority(dir); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir+"/broken.json", `{"tokens":[{"name":"a b","hash":"x","scopes":["y"]}]}`)
	tokenFile(t, dir+"/tokens.json", "a")
	for want, args := range map[string][]string{
		"--tls-cert: requires --tls-key, and the other way round":              {"--tls-cert", dir + "/server.pem"},
		"--tls-client-ca: requires --tls-cert":                                 {"--tls-client-ca", dir + "/ca.pem"},
		"--tls-cert: the certificate":                                          {"--tls-cert", dir + "/ca.pem", "--tls-key", dir + "/server.key"},
		"--tls-cert: the certificate: open":                                    {"--tls-cert", dir + "/none", "--tls-key", dir + "/server.key"},
		"/server.key: there is no certificate in it":                           {"--tls-cert", dir + "/server.pem", "--tls-key", dir + "/server.key", "--tls-client-ca", dir + "/server.key"},
		"--auth-file: the token file: open " + dir + "/none":                   {"--auth-file", dir + "/none"},
		"tokens[0].name: not 1 to 64 letters, digits, '-', '_' or '.'; tokens": {"--auth-file", dir + "/broken.json"},
		"--rate-limit: requires --auth-file":                                   {"--rate-limit=5"},
		`--rate-limit: "x" is not <requests per second>`:                       {"--rate-limit=x"},
		`--user-rate-limit: 0 a second is not above 0`:                         {"--user-rate-limit=0"},
		"--audit-log: audit log: open":                                         {"--audit-log", dir + "/none/audit"},
		"--id-key-file: id key":                                                {"--id-key-file", dir + "/ca.pem"},
	} {
		said := failing(t, append([]string{"serve", "--addr=127.0.0.1:0", "--data-dir", t.TempDir()}, args...)...)
		wantContains(t, said, want)
		if strings.Count(said, "\n") != 1 {
			t.Errorf("%v: %s", args, said)
		}
	}
}

// TestGateReload: a reload applies changes of the files at once, and starts a new audit log.
func TestGateReload(t *testing.T) {
	dir := t.TempDir()
	tokenFile(t, dir+"/tokens.json", "old")
	f := accessFlags{authFlags: authFlags{AuthFile: dir + "/tokens.json"}, AuditLog: dir + "/audit.log"}
	log := (&dataFlags{LogLevel: "info"}).logger(stdio{err: os.Stderr})
	g, err := f.open(t.Context(), "127.0.0.1:0", log)
	must(t, err)
	must(t, f.openLogs(g, dir, stdio{}, log))
	tokenFile(t, dir+"/tokens.json", "new")
	must(t, os.Rename(dir+"/audit.log", dir+"/audit.log.1"))
	must(t, g.reload(t.Context()))
	if _, err := g.access.Tokens.Check([]string{"Bearer new"}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/audit.log"); err != nil {
		t.Error(err)
	}
	writeFile(t, dir+"/tokens.json", "x")
	if g.reload(t.Context()) == nil {
		t.Error("a broken file is reloaded")
	}
	if err := g.close(); err != nil {
		t.Error(err)
	}
}

// TestScopesOfTokens compares the scopes of `token new` with all existing scopes.
func TestScopesOfTokens(t *testing.T) {
	command, err := kong.Trace(testParser(t), []string{"token", "new"})
	must(t, err)
	for _, flag := range command.Flags() {
		if want := fmt.Sprint(access.Scopes()); flag.Name == "scope" && fmt.Sprint(flag.EnumSlice()) != want {
			t.Errorf("it takes %v, want %s", flag.EnumSlice(), want)
		}
	}
}
