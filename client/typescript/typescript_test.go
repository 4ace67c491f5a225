//go:build unix

// Package typescript_test packs the TypeScript client, installs it, and runs its tests (test/) on a
// real service.
package typescript_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// need ends the test if something is missing. In continuous integration the test fails; elsewhere
// it is skipped.
func need(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%v: make deps installs it", err)
	default:
		t.Skipf("NOT RUN: %v: make deps installs it", err)
	}
}

// oldestNode is the first major version of Node.js that package.json allows.
const oldestNode = 20

// needTools ends the test if Node.js, npm or the packages of the lock file are missing.
func needTools(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		_, err := exec.LookPath(program)
		need(t, err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(run(t, ".", "node", "-p", "process.versions.node.split('.')[0]")))
	if err == nil && major < oldestNode {
		err = fmt.Errorf("node %d, need %d or later", major, oldestNode)
	}
	need(t, err)
	_, err = os.Stat("node_modules/.complete")
	need(t, err)
}

// run runs a command and returns its output. The test ends if the command fails.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	var diagnosis strings.Builder
	cmd.Stderr = &diagnosis
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, diagnosis.String())
	}
	return string(out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// copied returns a private copy of the client. The packages that it needs are links.
func copied(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "client", "typescript")
	modules, err := filepath.Abs("node_modules")
	license, licenseErr := os.ReadFile("../../LICENSE")
	if err := errors.Join(
		err, licenseErr, os.WriteFile(filepath.Join(root, "LICENSE"), license, 0o600),
		os.CopyFS(filepath.Join(dir, "src"), os.DirFS("src")), os.CopyFS(filepath.Join(dir, "test"), os.DirFS("test")),
		os.Symlink(modules, filepath.Join(dir, "node_modules")),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "tsconfig.json", "README.md", ".npmrc"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	return dir
}

// program uses the installed package as a program in TypeScript does.
const program = `
import { FeedFilter, FeedFilterError, type Post } from "@feedfilter/client";

interface Titled extends Post { title: string }

const ff = new FeedFilter({ url: "http://127.0.0.1:1", token: () => "secret", maxAttempts: 1 });
const posts: Titled[] = [{ id: "p", author: "2", title: "kept with the post" }];
const titles = ff.filter({ viewer: "1", posts }).then((feed) => feed.posts.map((post): string => post.title));
const code = await titles.catch((e: unknown) => e instanceof FeedFilterError ? e.code : "no FeedFilterError");
ff.close();
if (code !== "connection_failed") throw new Error("code " + code);
// @ts-expect-error: a post must have an id
void (() => ff.filter({ viewer: "1", posts: [{ author: "2" }] }));
`

// TestPackage installs the package as npm publishes it, without a registry. The package must have
// everything that a program needs, and nothing else.
func TestPackage(t *testing.T) {
	t.Parallel()
	needTools(t)
	dir, packed := copied(t), t.TempDir()
	run(t, dir, "npm", "pack", "--silent", "--pack-destination", packed)
	found, err := filepath.Glob(filepath.Join(packed, "*.tgz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("npm pack made %q (%v)", found, err)
	}
	tarball := found[0]
	files := strings.Fields(run(t, ".", "tar", "tzf", tarball))
	for _, want := range []string{"LICENSE", "README.md", "package.json", "dist/index.js", "dist/index.d.ts", "dist/http-fetch.js"} {
		if !strings.Contains("\n"+strings.Join(files, "\n")+"\n", "\npackage/"+want+"\n") {
			t.Errorf("the package lacks %s", want)
		}
	}
	for _, file := range files {
		if !regexp.MustCompile(`^package/(dist/.*(\.js|\.d\.ts)|LICENSE|README\.md|package\.json)$`).MatchString(file) {
			t.Errorf("the package has %s", file)
		}
	}
	app := t.TempDir()
	write(t, filepath.Join(app, "package.json"), `{"private": true, "type": "module"}`)
	write(t, filepath.Join(app, "main.ts"), program)
	write(t, filepath.Join(app, "readme.ts"), readmeProgram(t))
	run(t, app, "npm", "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", "--silent",
		tarball, filepath.Join(dir, "node_modules", "@bufbuild", "protobuf"))
	run(t, app, filepath.Join(dir, "node_modules", ".bin", "tsc"), "--module", "nodenext", "--target", "es2022", "--strict",
		"--exactOptionalPropertyTypes", "--types", "", "main.ts", "readme.ts")
	run(t, app, "node", "main.js")
}

// readmeProgram returns the example of README.md, with the types of the parts of Node.js that it
// uses.
func readmeProgram(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(text), "```ts\n")
	example, _, closed := strings.Cut(example, "```")
	if !found || !closed {
		t.Fatal("README.md has no example")
	}
	return example + "declare const process: { env: Record<string, string | undefined> };\n" +
		"declare const console: { log(...values: unknown[]): void };\n"
}

// TestLock: the lock files name no registry, so that any mirror can serve the packages.
func TestLock(t *testing.T) {
	for _, name := range []string{"package-lock.json", "generate/package-lock.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `"integrity"`) || strings.Contains(string(text), `"resolved"`) {
			t.Errorf("%s names a registry, or lacks checksums", name)
		}
	}
}

// TestService runs the client's tests on a service, with the requests of Node.js and with fetch.
func TestService(t *testing.T) {
	t.Parallel()
	needTools(t)
	dir := copied(t)
	run(t, dir, "node_modules/.bin/tsc")
	environment := serve(t)
	tests, err := filepath.Glob("test/*.test.js")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests (%v)", err)
	}
	t.Run("node", func(t *testing.T) { runTests(t, dir, environment, tests...) })
	t.Run("fetch", func(t *testing.T) {
		runTests(t, dir, environment, "--import", "./test/fetch.js", "test/service.test.js")
	})
}

// runTests runs tests in files. All of them must pass.
func runTests(t *testing.T, dir string, environment []string, args ...string) {
	t.Helper()
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"--test", "--test-reporter=tap", "--test-timeout=60000"}, args...)...)
	cmd.Dir, cmd.Env = dir, environment
	out, err := cmd.CombinedOutput()
	passed := regexp.MustCompile(`(?m)^# tests ([1-9]\d*)\n# suites 0\n# pass (\d+)\n`).FindSubmatch(out)
	if err != nil || passed == nil || !bytes.Equal(passed[1], passed[2]) {
		t.Errorf("%v\n%s", err, out)
	}
}

// serve starts a service with tokens, on a port and a Unix socket, and a TLS proxy for it. It
// returns environment variables with their addresses for the tests.
func serve(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	binary, socket := filepath.Join(dir, "feedfilter"), filepath.Join(dir, "service.sock")
	run(t, "../..", "go", "build", "-ldflags=-s -w", "-o", binary, "./cmd/feedfilter")
	tokens, kinds := filepath.Join(dir, "tokens.json"), filepath.Join(dir, "kinds.json")
	write(t, kinds, `{"facets": {"phrase": {"text": true}}, "kinds": [{"name": "pin", "target": "post", "effect": "annotate", "limit": 2},
		{"name": "domain-mute", "target": "domain", "effect": "drop", "fanout": true},
		{"name": "repost-mute", "target": "user", "effect": "drop", "roles": ["repost"]},
		{"name":"follow","target":"user","effect":"keep","over":["domain-mute"]},
		{"name": "word-mute", "target": "phrase", "effect": "drop", "fanout": true}]}`)
	write(t, tokens, fmt.Sprintf(`{"tokens": [
		{"name": "all", "hash": %q, "scopes": ["feed:read", "activity:write", "ops:read", "ops:write"]},
		{"name": "reader", "hash": %q, "scopes": ["feed:read"]}]}`, hash("all"), hash("reader")))
	address := start(t, binary, "serve", "--addr", "127.0.0.1:0,unix:"+socket, "--data-dir", filepath.Join(dir, "data"),
		"--auth-file", tokens, "--kinds", kinds, "--pages", "64", "--false-positive-rate", "1e-8")
	proxy := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address}))
	proxy.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // a test refuses the certificate
	proxy.StartTLS()
	t.Cleanup(proxy.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	return append(os.Environ(),
		"FEEDFILTER_URL=http://"+address, "FEEDFILTER_SOCKET="+socket, "FEEDFILTER_TOKEN=all", "FEEDFILTER_READ_TOKEN=reader",
		"FEEDFILTER_TLS_URL="+proxy.URL, "FEEDFILTER_TLS_CA="+string(authority))
}

// hash returns the hash of a token for a token file.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// start starts the service, and returns the host and port that it listens on.
func start(t *testing.T, binary string, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, args...) //nolint:noctx // ended by the test
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(os.Interrupt), wait(cmd)); err != nil {
			t.Errorf("the service ended: %v", err)
		}
	})
	lines := bufio.NewReader(stderr)
	for range 2 { // one line for each address
		first, err := lines.ReadString('\n')
		var entry struct {
			Addr string `json:"addr"`
		}
		if err != nil || json.Unmarshal([]byte(first), &entry) != nil || entry.Addr == "" {
			t.Fatalf("the service reports no address: %q, %v", first, err)
		}
		if !strings.HasPrefix(entry.Addr, "unix:") {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return entry.Addr
		}
	}
	t.Fatal("the service listens on no port")
	return ""
}

// wait waits for the end of a process. After a time limit it kills the process.
func wait(cmd *exec.Cmd) error {
	timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	return cmd.Wait()
}
