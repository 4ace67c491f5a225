package activity

import (
	"math"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lru"
)

// images are pages made from the ledger while the store was down, so that a viewer who comes back does
// not cost the ledger another read. An image is as good as its sequence: it is used only where that is
// what readers have to see.
type images struct {
	*lru.Cache[uint32, *favfilter.Page] // by the Recorder's number
}

func newImages() images {
	return images{lru.New[uint32, *favfilter.Page](maxImageBytes, math.MaxInt)}
}

// get returns the image of the page if it stands at want or beyond.
func (m images) get(number uint32, want uint64) *favfilter.Page {
	page, ok := m.Get(number)
	if !ok || page.Header().Sequence < want {
		return nil
	}
	return page
}

func (m images) put(number uint32, page *favfilter.Page) {
	m.Put(number, page, imageBytes(page))
}

// imageBytes is what a page takes in memory with all its layers, the collision bitmap included.
func imageBytes(page *favfilter.Page) int {
	const overhead = 256
	return int(page.Size().Bytes) + overhead
}
