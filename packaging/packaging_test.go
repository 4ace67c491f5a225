// Package packaging tests the files that make dist makes.
package packaging

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	// maxBinary is the upper bound of the command's size in bytes. The command has 33 MB. It grows
	// to 52 MB as soon as any package looks up methods by name through reflection, because the
	// linker must then keep all methods.
	maxBinary = 35_000_000
	imageUser = "65532:65532"
	commit    = "0123456789abcdef0123456789abcdef01234567"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command runs a program in the root of the repository and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// skip skips a test because a program is missing. It fails instead if the variable CI is true.
func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("NOT TESTED: " + why)
}

// build makes a release for Linux on this processor from the sources in dir. It returns the
// directory of the release.
func build(t *testing.T, dir, version string) string {
	t.Helper()
	tools, err := filepath.Abs("../.bin")
	must(t, err)
	for _, tool := range []string{"nfpm", "cyclonedx-gomod"} {
		if _, err := os.Stat(filepath.Join(tools, tool)); err != nil {
			skip(t, "no "+tool+": run make dist-tools")
		}
	}
	out := filepath.Join(t.TempDir(), version)
	c := exec.CommandContext(t.Context(), "packaging/build", out)
	c.Dir = dir
	c.Env = append(os.Environ(), "TOOLS="+tools, "VERSION="+version, "COMMIT="+commit,
		"SOURCE_DATE_EPOCH=1790000000", "PLATFORMS=linux/"+runtime.GOARCH)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("packaging/build: %v\n%s", err, text)
	}
	return out
}

// one returns the only file that a pattern matches.
func one(t *testing.T, pattern ...string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: found %v, error %v, want one file", filepath.Join(pattern...), found, err)
	}
	return found[0]
}

// copySources copies the files that a build reads to another directory.
func copySources(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "elsewhere", "sources")
	err := filepath.WalkDir("..", func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != ".." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "dist" || name == "bin") {
			return filepath.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		target := filepath.Join(to, strings.TrimPrefix(path, "../"))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, info.Mode())
	})
	must(t, err)
	return to
}

// untar returns the files of a tar by name.
func untar(t *testing.T, from io.Reader) (files map[string][]byte, headers map[string]*tar.Header) {
	t.Helper()
	files, headers = make(map[string][]byte), make(map[string]*tar.Header)
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		}
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		files[header.Name], headers[header.Name] = text, header
	}
}

func unzip(t *testing.T, zipped []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	must(t, err)
	text, err := io.ReadAll(r)
	must(t, err)
	return text
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return text
}

func parse(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
}

// TestLongRelease checks the files of a release. Sources in another directory must give the same
// bytes.
func TestLongRelease(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: that a release runs takes Linux")
	}
	out := build(t, "..", "v0.1.0")
	t.Run("Reproducible", func(t *testing.T) {
		if testing.Short() {
			t.Skip("a second release takes half a minute")
		}
		sums := read(t, filepath.Join(out, "SHA256SUMS"))
		again := read(t, filepath.Join(build(t, copySources(t), "v0.1.0"), "SHA256SUMS"))
		if !bytes.Equal(sums, again) || bytes.Count(sums, []byte("\n")) != 5 {
			t.Errorf("sums\n%sand from another directory\n%s", sums, again)
		}
	})
	t.Run("Archive", func(t *testing.T) { testArchive(t, out) })
	t.Run("RPM", func(t *testing.T) { testRPM(t, out) })
	t.Run("Image", func(t *testing.T) { testImage(t, out) })
	t.Run("Deb", func(t *testing.T) { testDeb(t, out) })
	t.Run("SBOM", func(t *testing.T) {
		var bom struct {
			Components []struct{ Purl string }
		}
		parse(t, read(t, one(t, out, "*.sbom.json")), &bom)
		var purls strings.Builder
		for _, component := range bom.Components {
			purls.WriteString(component.Purl + "\n")
		}
		for _, want := range []string{"pkg:golang/modernc.org/sqlite@v", "pkg:golang/github.com/jackc/pgx/v5@v", "pkg:golang/std@"} {
			if !strings.Contains(purls.String(), want) {
				t.Errorf("the SBOM lacks %s: %s", want, &purls)
			}
		}
	})
}

func testArchive(t *testing.T, out string) {
	t.Helper()
	files, headers := untar(t, bytes.NewReader(unzip(t, read(t, one(t, out, "*.tar.gz")))))
	root := "feedfilter_0.1.0_linux_" + runtime.GOARCH + "/"
	for name, want := range map[string]string{
		"LICENSE": "Apache License", "README.md": "# feedfilter", "completions/feedfilter.bash": "complete ",
		"completions/feedfilter.zsh": "bashcompinit", "completions/feedfilter.fish": "__complete_feedfilter",
		"THIRD_PARTY_NOTICES": "github.com/jackc/pgx/v5 v",
	} {
		if !strings.Contains(string(files[root+name]), want) {
			t.Errorf("%s lacks %q: %.100s", name, want, files[root+name])
		}
	}
	for _, name := range []string{"modernc.org/sqlite v", "SmartBear", "Leon Sorokin", "The Go Authors"} {
		if !strings.Contains(string(files[root+"THIRD_PARTY_NOTICES"]), name) {
			t.Errorf("the notices lack %s", name)
		}
	}
	for name, header := range headers {
		if header.Uid != 0 || header.Uname != "" || header.ModTime.Unix() != 1790000000 {
			t.Errorf("archive entry %s: owner %d %q, time %v", name, header.Uid, header.Uname, header.ModTime)
		}
	}
	if size := len(files[root+"feedfilter"]); size > maxBinary {
		t.Errorf("the command has %d bytes, more than %d", size, maxBinary)
	}
	binary := filepath.Join(t.TempDir(), "feedfilter")
	must(t, os.WriteFile(binary, files[root+"feedfilter"], 0o700))
	want := "feedfilter v0.1.0, commit " + commit + " of 2026-09-21"
	if got := command(t, ".", binary, "version"); !strings.HasPrefix(got, want) {
		t.Errorf("got version %q, want %q", got, want)
	}
}

func testRPM(t *testing.T, out string) {
	t.Helper()
	if _, err := exec.LookPath("rpm"); err != nil {
		skip(t, "no rpm: run make deps")
	}
	name := one(t, out, "*.rpm")
	files := command(t, ".", "rpm", "-qp", "--queryformat", `[%{FILEMODES:perms} %{FILEUSERNAME} %{FILENAMES}\n]`, name)
	for _, want := range []string{
		"-rwxr-xr-x root /usr/bin/feedfilter", "-rw-r--r-- root /usr/lib/systemd/system/feedfilter.service",
		"-rw------- root /etc/feedfilter/feedfilter.env", "-rw-r--r-- root /usr/share/licenses/feedfilter/THIRD_PARTY_NOTICES",
	} {
		if !strings.Contains(files, want+"\n") {
			t.Errorf("the rpm lacks %q:\n%s", want, files)
		}
	}
	if settings := command(t, ".", "rpm", "-qpc", name); settings != "/etc/feedfilter/feedfilter.env\n" {
		t.Errorf("settings in the rpm: %q", settings)
	}
	if scripts := command(t, ".", "rpm", "-qp", "--scripts", name); !strings.Contains(scripts, "useradd") {
		t.Errorf("the rpm makes no user: %s", scripts)
	}
}

// descriptor names a blob of an image.
type descriptor struct {
	Digest   string
	Size     int
	Platform struct{ Architecture, OS string }
}

func testImage(t *testing.T, out string) {
	t.Helper()
	files, _ := untar(t, bytes.NewReader(read(t, one(t, out, "*_image.tar"))))
	if got := string(files["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", got)
	}
	blob := func(d descriptor) []byte {
		text := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		sum := sha256.Sum256(text)
		if len(text) != d.Size || "sha256:"+hex.EncodeToString(sum[:]) != d.Digest {
			t.Fatalf("%s: %d bytes, whose digest is %x", d.Digest, len(text), sum)
		}
		return text
	}
	var index struct{ Manifests []descriptor }
	parse(t, files["index.json"], &index)
	// podman load names the image after it.
	if name := `"org.opencontainers.image.ref.name":"feedfilter:0.1.0"`; !strings.Contains(string(files["index.json"]), name) {
		t.Errorf("index.json has no %s: %s", name, files["index.json"])
	}
	parse(t, blob(index.Manifests[0]), &index)
	if p := index.Manifests[0].Platform; len(index.Manifests) != 1 || p.OS != "linux" || p.Architecture != runtime.GOARCH {
		t.Errorf("manifests: %+v", index.Manifests)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	parse(t, blob(index.Manifests[0]), &manifest)
	var config struct {
		Config struct {
			User            string
			Entrypoint, Cmd []string
			Env             []string
			Volumes         map[string]struct{}
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	parse(t, blob(manifest.Config), &config)
	c := config.Config
	_, volume := c.Volumes["/data"]
	if c.User != imageUser || strings.Join(append(c.Entrypoint, c.Cmd...), " ") != "/usr/bin/feedfilter serve" || !volume ||
		strings.Join(c.Env, " ") != "FEEDFILTER_DATA_DIR=/data FEEDFILTER_ADDR=0.0.0.0:8080" {
		t.Errorf("configuration: %+v", c)
	}
	layer := unzip(t, blob(manifest.Layers[0]))
	if sum := sha256.Sum256(layer); config.RootFS.DiffIDs[0] != "sha256:"+hex.EncodeToString(sum[:]) || len(manifest.Layers) != 1 {
		t.Errorf("layer %x, want %v", sum, config.RootFS.DiffIDs)
	}
	inside, headers := untar(t, bytes.NewReader(layer))
	if !bytes.Contains(inside["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")) {
		t.Error("the image has no roots of certificates")
	}
	if d := headers["data/"]; d == nil || d.Uid != 65532 || d.Gid != 65532 {
		t.Errorf("/data does not belong to the image's user: %+v", d)
	}
	if b := headers["usr/bin/feedfilter"]; b == nil || b.Mode != 0o755 || len(files) != 8 {
		t.Errorf("the command in the image: %+v, %d files and directories in the layout", b, len(files))
	}
}

// quietly runs a program that cleans up after a test, and reports failures.
func quietly(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(context.Background(), name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
