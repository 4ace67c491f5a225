package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// TestPythonClient runs the tests of client/python against two services. One of them requires a
// token. Without Python and the packages it skips; in continuous integration it fails.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "httpx", "google.protobuf", "pytest", "jsonschema", "build", "hatchling")
	dir := t.TempDir()
	kinds, tokens := filepath.Join(dir, "kinds.json"), filepath.Join(dir, "tokens.json")
	write(t, kinds, []byte(`{"facets":{"domain":{"fold":"host"},"phrase":{"text":true}},"kinds":[{"name":"hide","limit":4},{"name":"domain-mute","target":"domain","effect":"drop","fanout":true},`+
		`{"name":"repost-mute","target":"user","effect":"drop","roles":["repost"]},`+
		`{"name":"follow","target":"user","effect":"keep","over":["domain-mute"]},`+
		`{"name":"word-mute","target":"phrase","effect":"drop","fanout":true}]}`))
	socket := filepath.Join(dir, "s.sock")
	schema := filepath.Join(dir, "schema")
	write(t, schema, schemaOfService(t))
	token, err := exec.CommandContext(t.Context(), command, "token", "new", "--name", "reader", "--scope", "feed:read",
		"--auth-file", tokens).Output()
	if err != nil {
		t.Fatalf("make a token: %v", err)
	}
	open := serve(t, "--data-dir", filepath.Join(dir, "open"), "--kinds", kinds, "--addr", "127.0.0.1:0,unix:"+socket,
		"--false-positive-rate", "1e-8") // chance must not drop a post of the tests
	open.logOnFailure()
	guarded := serve(t, "--data-dir", filepath.Join(dir, "guarded"), "--auth-file", tokens, "--false-positive-rate", "1e-8")
	guarded.logOnFailure()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-m", "pytest", "-q")
	cmd.Dir = "../client/python"
	cmd.Env = append(os.Environ(), "PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1",
		"FEEDFILTER_URL="+open.url, "FEEDFILTER_SOCKET="+socket, "FEEDFILTER_SCHEMA="+schema,
		"FEEDFILTER_GUARDED_URL="+guarded.url, "FEEDFILTER_READ_TOKEN="+strings.TrimSpace(string(token)))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("pytest: %v\n%s", err, out)
	}
	if !regexp.MustCompile(`\n\d+ passed in `).Match(out) { // the tests passed, and none was skipped
		t.Errorf("not all tests passed:\n%s", out)
	}
}

// pythonWith returns a Python that has the modules: $PYTHON, the system's Python, or the first one
// on the path.
func pythonWith(t *testing.T, modules ...string) string {
	t.Helper()
	var tried []string
	for _, python := range []string{os.Getenv("PYTHON"), "/usr/bin/python3", "python3"} {
		if python == "" {
			continue
		}
		out, err := exec.CommandContext(t.Context(), python, "-c", "import "+strings.Join(modules, ", ")).CombinedOutput()
		if err == nil {
			return python
		}
		tried = append(tried, fmt.Sprintf("%s: %v\n%s", python, err, out))
	}
	const advice = "make deps installs what is missing from Debian's packages"
	if os.Getenv("CI") != "" {
		t.Fatalf("no Python has all of %q: %s\n%s", modules, advice, strings.Join(tried, "\n"))
	}
	t.Skipf("NOT RUN: no Python has all of %q: %s", modules, advice)
	return ""
}

// schemaOfService returns the protocol files of the gRPC API that the service serves.
func schemaOfService(t *testing.T) []byte {
	t.Helper()
	files := &descriptorpb.FileDescriptorSet{}
	for _, file := range []protoreflect.FileDescriptor{
		feedfilterv1.File_feedfilter_v1_activity_proto, feedfilterv1.File_feedfilter_v1_error_proto, feedfilterv1.File_feedfilter_v1_feed_proto,
	} {
		files.File = append(files.File, protodesc.ToFileDescriptorProto(file))
	}
	text, err := proto.Marshal(files)
	must(t, err)
	return text
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	must(t, os.WriteFile(path, text, 0o600))
}
