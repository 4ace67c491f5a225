package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// pinged is a benchmark that sends a PING before each call. It reports the mean times of both, and
// x-PING, the ratio of the two. Only the ratio carries over to other machines.
type pinged struct {
	b          *testing.B
	client     *redis.Client
	ping, call time.Duration
}

func (p *pinged) measure(call func()) {
	start := time.Now()
	if err := p.client.Ping(p.b.Context()).Err(); err != nil {
		p.b.Fatal(err)
	}
	middle := time.Now()
	call()
	p.ping += middle.Sub(start)
	p.call += time.Since(middle)
}

func (p *pinged) report() {
	n := float64(p.b.N)
	p.b.ReportMetric(0, "ns/op") // the time of both together has no meaning
	p.b.ReportMetric(float64(p.ping.Nanoseconds())/n, "ns/PING")
	p.b.ReportMetric(float64(p.call.Nanoseconds())/n, "ns/call")
	p.b.ReportMetric(float64(p.call)/float64(p.ping), "x-PING")
}

// benchStore returns a store with a page of 8 KiB, half full.
func benchStore(b *testing.B) (favfilter.Store, favfilter.PageID, *pinged) {
	b.Helper()
	client := redistest.Start(b).Client()
	s := openStore(b, client, "bench")
	id := favfilter.PageID{Number: 1}
	resetPage(b, s, id)
	return s, id, &pinged{b: b, client: client}
}

// resetPage replaces the stored page by one of 8 KiB with 2,000 keys.
func resetPage(b *testing.B, s favfilter.Store, id favfilter.PageID) {
	b.Helper()
	loaded, err := s.Load(b.Context(), []favfilter.PageID{id})
	if err != nil {
		b.Fatal(err)
	}
	page := newPage(b, id.Number, shapeFor(b, 4300))
	for _, h := range hashes(0, 1<<30, 2000) {
		page.Insert(h)
	}
	if _, err := s.Replace(b.Context(), favfilter.Replacement{ID: id, Page: page, Seen: loaded[0].Version}); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkPing(b *testing.B) {
	_, _, p := benchStore(b)
	for b.Loop() {
		p.measure(func() { p.client.Ping(context.Background()) })
	}
	p.report()
}

func BenchmarkLoad(b *testing.B) {
	s, id, p := benchStore(b)
	b.ReportAllocs()
	for b.Loop() {
		p.measure(func() {
			if l, err := s.Load(b.Context(), []favfilter.PageID{id}); err != nil || l[0].Page == nil {
				b.Fatal(l, err)
			}
		})
	}
	p.report()
}

func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name string
		keys int
	}{{"1 key", 1}, {"8 keys", 8}, {"9 keys", 9}, {"100 keys", 100}} {
		b.Run(c.name, func(b *testing.B) {
			s, id, p := benchStore(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i*c.keys%2000 < c.keys { // full: use a new page
					b.StopTimer()
					resetPage(b, s, id)
					b.StartTimer()
				}
				batch := favfilter.Batch{ID: id, Identity: identity(), Add: hashes(0, i*c.keys, c.keys)}
				p.measure(func() {
					if r := s.Apply(b.Context(), []favfilter.Batch{batch}); r[0].State != favfilter.Applied {
						b.Fatal(r[0].State, r[0].Err)
					}
				})
			}
			p.report()
		})
	}
}

func BenchmarkApplyPages(b *testing.B) {
	s, _, p := benchStore(b)
	ids := pageIDs(10)
	create(b, s, 100_000, ids[2:]...)
	create(b, s, 100_000, ids[0])
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		batches := addOne(ids, uint64(i))
		for n := range batches {
			batches[n].Sequence = 0
		}
		p.measure(func() {
			for _, r := range s.Apply(b.Context(), batches) {
				if r.State != favfilter.Applied {
					b.Fatal(r.State, r.Err)
				}
			}
		})
	}
	p.report()
}

// BenchmarkPeek looks at 64 pages of 8 KiB, as the scrub does.
func BenchmarkPeek(b *testing.B) {
	s, _, p := benchStore(b)
	ids := make([]favfilter.PageID, 64)
	for i := range ids {
		ids[i] = favfilter.PageID{Number: uint32(i)}
		resetPage(b, s, ids[i])
	}
	for b.Loop() {
		p.measure(func() {
			if statuses, err := s.Peek(b.Context(), ids); err != nil || statuses[63].Header.Count != 2000 {
				b.Fatal(statuses, err)
			}
		})
	}
	p.report()
}

// BenchmarkLoads loads pages from several goroutines. As many goroutines send its PINGs.
func BenchmarkLoads(b *testing.B) {
	const each = 100 // calls of a goroutine
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprintf("%d goroutines", goroutines), func(b *testing.B) {
			s, id, p := benchStore(b)
			together := func(call func() error) time.Duration {
				start := time.Now()
				var wg sync.WaitGroup
				for range goroutines {
					wg.Go(func() {
						for range each {
							if err := call(); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				return time.Since(start) / time.Duration(each*goroutines)
			}
			for b.Loop() {
				p.ping += together(func() error { return p.client.Ping(context.Background()).Err() })
				p.call += together(func() error {
					_, err := s.Load(context.Background(), []favfilter.PageID{id})
					return err
				})
			}
			p.report()
		})
	}
}
