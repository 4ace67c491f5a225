package regions_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/feedfilter/feedfilter/regions"
)

// Two keys share bit 20. A delete of the first one leaves that bit, and the second key, alone.
func Example() {
	const bits, size = 64, regions.Size(4)
	p := regions.Pair{Bits: make(regions.Bitmap, bits/8), Collisions: make(regions.Bitmap, size.Bytes(bits)), Size: size}
	first, second := []uint32{3, 20, 41}, []uint32{5, 20, 60}
	fmt.Println("bits set:", p.Insert(first), p.Insert(second))
	fmt.Println("bit 20 is in region", size.Of(20), "and was met twice:", p.Collisions.Get(size.Of(20)))

	clearable := p.Clearable(nil, first)
	fmt.Println("a delete may clear", clearable, "and clears", p.Clear(clearable))
	fmt.Println("first key:", p.Bits.All(3, 20, 41), "second key:", p.Bits.All(5, 20, 60))
	// Output:
	// bits set: 3 2
	// bit 20 is in region 5 and was met twice: true
	// a delete may clear [3 41] and clears 2
	// first key: false second key: true
}

// A delete asks for three clearable bits. Smaller regions take more memory and fewer rebuilds.
func ExampleGeometry_Deletable() {
	const keys, least = 900, 3
	for _, size := range []regions.Size{2, 4, 8, 16} {
		g := regions.Geometry{Bits: 16_000, K: 10, Region: size}
		fmt.Printf("load %.2f, %4d bytes of collision bits: %3.0f of 1,000 deletes find too few bits\n",
			g.Load(keys), size.Bytes(g.Bits), 1000*(1-g.Deletable(keys, least)))
	}
	// Output:
	// load 0.56, 1000 bytes of collision bits:  50 of 1,000 deletes find too few bits
	// load 0.56,  500 bytes of collision bits: 163 of 1,000 deletes find too few bits
	// load 0.56,  250 bytes of collision bits: 516 of 1,000 deletes find too few bits
	// load 0.56,  125 bytes of collision bits: 930 of 1,000 deletes find too few bits
}

// The formula beside filters with random keys.
func ExampleGeometry_Deletable_simulated() {
	const keys = 900
	g := regions.Geometry{Bits: 16_000, K: 10, Region: 4}
	simulated := simulate(rand.New(rand.NewPCG(1, 2)), 100, g, keys)
	for least := 1; least <= 4; least++ {
		fmt.Printf("at least %d clearable bits: formula %.2f, simulated %.2f\n", least, g.Deletable(keys, least), simulated[least])
	}
	// Output:
	// at least 1 clearable bits: formula 0.99, simulated 0.99
	// at least 2 clearable bits: formula 0.96, simulated 0.96
	// at least 3 clearable bits: formula 0.84, simulated 0.84
	// at least 4 clearable bits: formula 0.62, simulated 0.63
}
