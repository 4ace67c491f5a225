package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDataDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	loop := filepath.Join(dir, "loop")
	must(t, os.Symlink(loop, loop))
	for name, want := range map[string]string{
		loop:                          "fail stat " + loop + ": too many levels of symbolic links",
		dir:                           "ok " + dir + " is writable",
		filepath.Join(dir, "a", "b"):  "ok " + filepath.Join(dir, "a", "b") + " does not exist yet and can be created",
		file:                          "fail " + file + " is not a directory",
		filepath.Join(file, "a", "b"): "fail stat " + filepath.Join(file, "a", "b") + ": not a directory",
		dir + "/a\x00b/c":             "fail stat",
		dir + "/./a":                  "ok " + dir + "/a does not exist yet and can be created",
	} {
		f := judgeDirectory(name)
		if got := f.status.String() + " " + f.found; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if (f.status == Fail) != (f.todo != "") {
			t.Errorf("%s: what to do: %q", name, f.todo)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("a directory was made")
	}
}
