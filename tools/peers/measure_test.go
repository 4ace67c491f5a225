package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 2.5: "2.5", 0.12345: "0.123", 12.345: "12.3", 99.96: "100", 1234.5: "1,234", 150_000: "150,000",
		10_385_351.4: "10,385,351", 0.0000004: "0", -1234: "-1,234", 2.1: "2.1", 100: "100",
	} {
		if got := number(x); got != want {
			t.Errorf("%v is written %q, want %q", x, got, want)
		}
	}
}

func TestNoise(t *testing.T) {
	steady := func(n int, d time.Duration) bench.Samples {
		s := make(bench.Samples, n)
		for i := range s {
			s[i] = d
		}
		return s
	}
	slower := append(steady(20, 100), steady(10, 120)...)
	uneven := append(append(steady(85, 100), steady(15, 201)...), steady(100, 100)...)
	spread := steady(90, 100)
	for i := range spread {
		if i%5 == 0 {
			spread[i] = 201
		}
	}
	for name, c := range map[string]struct {
		load float64
		runs []bench.Samples
		want string
	}{
		"quiet":         {1, []bench.Samples{steady(30, 100), steady(30, 300)}, ""},
		"nothing":       {0, nil, ""},
		"few":           {0, []bench.Samples{steady(2, 100)}, ""},
		"loaded":        {1.5, nil, "load average was 1.50"},
		"drift":         {0, []bench.Samples{steady(30, 100), slower}, "first third"},
		"some are slow": {0, []bench.Samples{uneven}, ""},
		"many are slow": {0, []bench.Samples{spread}, "a tenth of the PINGs"},
	} {
		got := noise(c.load, c.runs...)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestParallel checks that goroutines get different numbers, and run concurrently.
func TestParallel(t *testing.T) {
	const goroutines = 4
	var mu sync.Mutex
	seen := make(map[int]bool)
	together := make(chan struct{})
	_, err := parallel(t.Context(), 10*time.Millisecond, goroutines, bench.Call{Do: func(ctx context.Context, n int) error {
		mu.Lock()
		if seen[n] {
			t.Errorf("%d twice", n)
		}
		seen[n] = true
		if len(seen) == goroutines {
			close(together)
		}
		mu.Unlock()
		select {
		case <-together:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMemoryOf checks that memory which is taken while fill runs counts, and nothing else.
func TestMemoryOf(t *testing.T) {
	client := redistest.Start(t).Client()
	if v := version(t.Context(), client); !strings.HasPrefix(v, "redis ") && !strings.HasPrefix(v, "valkey ") {
		t.Errorf("version %q", v)
	}
	grown, err := memoryOf(t.Context(), client, func() error {
		return client.Set(t.Context(), "key", strings.Repeat("x", 10<<20), 0).Err()
	})
	if err != nil || grown < 10<<20 || grown > 13<<20 {
		t.Errorf("10 MiB of data take %g bytes, %v", grown, err)
	}
}
