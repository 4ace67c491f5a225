package ledger

import "testing"

// TestPrintableASCII checks that tests of eight bytes at a time and of single bytes agree, for
// all positions and neighbours of a byte.
func TestPrintableASCII(t *testing.T) {
	for _, fill := range []byte{' ', 'a', '~', 0x1f, 0x7f, 0x80, 0xff, 0} {
		for n := range 34 {
			id := make([]byte, n)
			for at := range id {
				for c := range 256 {
					for i := range id {
						id[i] = fill
					}
					id[at] = byte(c)
					want := true
					for _, c := range id {
						want = want && c >= 0x20 && c <= 0x7e
					}
					if got := printableASCII(string(id)); got != want {
						t.Fatalf("%q: %v, want %v", id, got, want)
					}
				}
			}
		}
	}
}
