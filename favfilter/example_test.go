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

// A secret seed prevents strangers from choosing keys that collide.
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

// A caller looks up the posts that a user has hidden together, hundreds at a time. All keys of one
// user share a page, so a lookup takes one read, whatever their number.
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

// A filter takes more keys than its capacity, at the same false-positive rate.
func ExampleFilter_Add_growing() {
	ctx := context.Background()
	f, err := favfilter.Open(ctx, &favfilter.Memory{}, favfilter.Config{Capacity: 100, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	posts := func(user string, n int) []string {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprint(user, "_P", i)
		}
		return keys
	}
	if _, err := f.Add(ctx, posts("U1", 10_000)...); err != nil {
		fmt.Println(err)
		return
	}
	for user, n := range map[string]int{"U1": 10_000, "U2": 100_000} {
		found, err := f.Contains(ctx, posts(user, n)...)
		if err != nil {
			fmt.Println(err)
			return
		}
		reported := 0
		for _, yes := range found {
			if yes {
				reported++
			}
		}
		fmt.Println(user, reported, "of", n)
	}
	// Unordered output:
	// U1 10000 of 10000
	// U2 92 of 100000
}

// A lookup in a loaded page needs no call of the store.
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
	// rate 0.01:  5114 bytes, 6 hashes, room for 4201 keys
	// rate 0.001:  8186 bytes, 8 hashes, room for 4448 keys
	// rate 0.0001: 10234 bytes, 11 hashes, room for 4195 keys
}

func ExampleFilter_Count() {
	ctx := context.Background()
	f, err := favfilter.Open(ctx, &favfilter.Memory{}, favfilter.Config{Capacity: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := f.Add(ctx, "U1_P1", "U1_P2", "U1_P3", "U1_P3"); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := f.Remove(ctx, "U1_P1"); err != nil {
		fmt.Println(err)
		return
	}
	n, err := f.Count(ctx)
	fmt.Println(n, err)
	// Output: 2 <nil>
}

// A page starts small and grows with its keys.
func ExamplePage_Apply() {
	const rate = 0.001
	shape, err := favfilter.ShapeFor(100, rate/2)
	if err != nil {
		fmt.Println(err)
		return
	}
	identity := favfilter.Identity{Pages: 1}
	page, err := favfilter.NewPage(favfilter.Header{Identity: identity, Shape: shape})
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := favfilter.Batch{Identity: identity, Rate: rate}
	for i := range 1000 {
		batch.Add = append(batch.Add, favfilter.HashKey(0, fmt.Sprint("U1_P", i)))
	}
	fmt.Println(page.Apply(batch).State)
	for _, layer := range page.Layers() {
		fmt.Printf("%d bits, %d hashes\n", layer.Bits, layer.Hashes)
	}
	fmt.Println(page.FalsePositiveRate() <= rate)
	// Output:
	// applied
	// 2000 bits, 9 hashes
	// 4480 bits, 10 hashes
	// 13184 bits, 11 hashes
	// true
}
