package main

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A command says how far it is every five seconds.
func TestProgress(t *testing.T) {
	name := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	synctest.Test(t, func(*testing.T) {
		p := newProgress(stdio{err: file}, "pages")
		p.show(1, 10)
		time.Sleep(tellEvery)
		p.show(2, 10)
		p.show(3, 10)
		time.Sleep(tellEvery)
		p.show(4, 0)
	})
	got, err := os.ReadFile(name)
	if want := "2 of 10 pages done after 5s\n4 pages done after 10s\n"; err != nil || string(got) != want {
		t.Errorf("printed %q, %v, want %q", got, err, want)
	}
}
