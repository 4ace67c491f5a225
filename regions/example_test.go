package regions_test

import (
	"fmt"
	"math"

	"github.com/feedfilter/feedfilter/regions"
)

// Full capacity is a load of ln 2; a page with twice the bits has half of that load.
func ExampleDeletable() {
	for _, size := range []int{3, 5, 10, 20} {
		full := regions.Deletable(math.Ln2, 10, size)
		half := regions.Deletable(math.Ln2/2, 10, size)
		fmt.Printf("regions of %2d bits: %4.1f %% deletable when full, %5.1f %% when half full\n",
			size, 100*full, 100*half)
	}
	// Output:
	// regions of  3 bits: 98.8 % deletable when full, 100.0 % when half full
	// regions of  5 bits: 94.9 % deletable when full, 100.0 % when half full
	// regions of 10 bits: 69.4 % deletable when full,  99.8 % when half full
	// regions of 20 bits: 19.2 % deletable when full,  96.2 % when half full
}

func ExampleBitmap_Clearable() {
	const size = 8
	page, collisions := make(regions.Bitmap, 8), make(regions.Bitmap, 1)
	insert := func(positions ...uint32) {
		for _, p := range positions {
			if page.Get(p) {
				collisions.Set(regions.Of(p, size))
			}
			page.Set(p)
		}
	}
	insert(3, 20, 41)
	insert(5, 20, 60) // shares bit 20, so the collision bit of region 2 is set
	fmt.Println(collisions.Clearable(nil, []uint32{3, 20, 41}, size))
	// Output: [3 41]
}
