package phrases

import (
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
)

// TestFormsStay: characters keep their canonical form and class, because phrases are recorded by
// them. The file has a checksum for each 256 code points. If one changes with a library's tables of
// a newer Unicode, only characters that this Unicode adds may be the reason; then UPDATE=1 writes
// the file.
func TestFormsStay(t *testing.T) {
	const file = "testdata/forms.txt"
	table := newTable()
	var got strings.Builder
	for from := rune(0); from < astral; from += 256 {
		var forms strings.Builder
		for r := from; r < from+256; r++ {
			c := table.of(r)
			form := string(c.form)
			if c.form < 0 && c.class != mark {
				form = table.forms[^c.form]
			}
			fmt.Fprintf(&forms, "%d %q %v\n", c.class, form, c.is(bare) || c.is(general))
		}
		fmt.Fprintf(&got, "%05x %08x\n", from, crc32.ChecksumIEEE([]byte(forms.String())))
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(lines) || line != lines[i] {
			t.Errorf("forms of the code points from %.5s on have changed", line)
		}
	}
}
