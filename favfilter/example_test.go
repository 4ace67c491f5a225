package favfilter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/feedfilter/feedfilter/favfilter"
)

func Example() {
	ctx := context.Background()
	f, err := favfilter.Open(ctx, &favfilter.Memory{}, favfilter.Config{Capacity: 100_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	outcomes, err := f.Add(ctx, "U1_P7", "U1_P8")
	fmt.Println(outcomes, err)
	outcomes, err = f.Remove(ctx, "U1_P7", "U1_P9")
	fmt.Println(outcomes, err)
	found, err := f.Contains(ctx, "U1_P7", "U1_P8")
	fmt.Println(found, err)
	// Output:
	// [added added] <nil>
	// [removed absent] <nil>
	// [false true] <nil>
}

// A seed kept secret keeps strangers from choosing keys that collide.
func ExampleOpen() {
	ctx := context.Background()
	store := &favfilter.Memory{}
	config := favfilter.Config{Capacity: 100_000, FalsePositiveRate: 0.0005, Seed: 0x8f1d2c3b4a596877}
	_, err := favfilter.Open(ctx, store, config)
	fmt.Println("made:", err)

	config.FalsePositiveRate = 0.01
	_, err = favfilter.Open(ctx, store, config)
	fmt.Println("opened with another rate, refused:", errors.Is(err, favfilter.ErrMismatch))
	// Output:
	// made: <nil>
	// opened with another rate, refused: true
}

// The posts that a user has hidden are looked up together, hundreds at a time. All
// keys of one user share a page, so that takes one read, whatever their number.
func ExampleConfig_pageBy() {
	ctx := context.Background()
	f, err := favfilter.Open(ctx, &favfilter.Memory{}, favfilter.Config{
		Capacity: 1_000_000,
		PageBy: func(key string) string { // U1_P2 goes by U1
			user, _, _ := strings.Cut(key, "_")
			return user
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := f.Add(ctx, "U1_P2", "U1_P5", "U3_P4"); err != nil {
		fmt.Println(err)
		return
	}
	feed := []string{"P1", "P2", "P3", "P4", "P5", "P6"}
	keys := make([]string, len(feed))
	for i, post := range feed {
		keys[i] = "U1_" + post
	}
	hidden, err := f.Contains(ctx, keys...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, post := range feed {
		if !hidden[i] {
			fmt.Print(post, " ")
		}
	}
	// Output: P1 P3 P4 P6
}

func ExampleFilter_Add() {
	ctx := context.Background()
	f, err := favfilter.Open(ctx, &favfilter.Memory{}, favfilter.Config{Capacity: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	outcomes, err := f.Add(ctx, "a", "b", "a")
	fmt.Println(outcomes, err)

	many := make([]string, 200) // the smallest page has room for some 130
	for i := range many {
		many[i] = fmt.Sprint("key ", i)
	}
	_, err = f.Add(ctx, many...)
	fmt.Println("full:", errors.Is(err, favfilter.ErrFull))
	// Output:
	// [added added present] <nil>
	// full: true
}

// A lookup in a page that is at hand takes no call at all.
func ExamplePage_Contains() {
	shape, err := favfilter.ShapeFor(2000, 0.001)
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := favfilter.NewPage(favfilter.Header{Identity: favfilter.Identity{Pages: 1}, Shape: shape})
	if err != nil {
		fmt.Println(err)
		return
	}
	page.Insert(favfilter.HashKey(0, "U1_P2"))
	fmt.Println(page.Contains(favfilter.HashKey(0, "U1_P2")), page.Contains(favfilter.HashKey(0, "U1_P3")))
	// Output: true false
}

func ExampleShapeFor() {
	for _, rate := range []float64{0.01, 0.001, 0.0001} {
		shape, err := favfilter.ShapeFor(4000, rate)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("rate %g: %5d bytes, %d hashes, room for %d keys\n",
			rate, favfilter.HeaderBytes+shape.Bits/8, shape.Hashes, shape.Capacity(rate))
	}
	// Output:
	// rate 0.01:  6138 bytes, 4 hashes, room for 4617 keys
	// rate 0.001:  8186 bytes, 7 hashes, room for 4329 keys
	// rate 0.0001: 10234 bytes, 9 hashes, room for 4025 keys
}
