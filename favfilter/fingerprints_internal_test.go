package favfilter

import (
	"testing"
	"time"
	"unsafe"
)

// A Memory holds one string for an owner. No run keeps an earlier string from garbage collection.
func TestFingerprintsAreOneString(t *testing.T) {
	store := &Memory{}
	w, err := OpenWindow(store, WindowConfig{Length: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	id := w.ID(1)
	for i := range uint64(10) {
		at := time.Now().Add(time.Duration(i) * 10 * time.Minute)
		if _, err := w.Write(t.Context(), id, Writing{Keys: []Hash{{H1: i << 50}}, Now: at}); err != nil {
			t.Fatal(err)
		}
	}
	stored, _ := store.Get(id)
	f := stored.Fingerprints
	first := uintptr(unsafe.Pointer(unsafe.SliceData(f.raw)))
	if len(f.runs) < 6 || cap(f.raw) != len(f.raw) {
		t.Errorf("%d runs, %d bytes of %d", len(f.runs), len(f.raw), cap(f.raw))
	}
	for i, r := range f.runs {
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(r.codes))); at < first || at >= first+uintptr(len(f.raw)) {
			t.Errorf("run %d of %d keeps another string", i, len(f.runs))
		}
	}
}
