package pages

import (
	"math"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/lru"
)

// images are pages rebuilt from the ledger while the store was down. They save another read of the
// ledger when a viewer returns. An image is used only if it has the required sequence.
type images struct {
	*lru.Cache[uint32, *favfilter.Page] // by number of page
}

func newImages() images {
	return images{lru.New[uint32, *favfilter.Page](maxImageBytes, math.MaxInt)}
}

// get returns the image of the page if its sequence is at least want; otherwise nil.
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

// imageBytes returns the memory that a page takes with all its layers and its collision bitmap.
func imageBytes(page *favfilter.Page) int {
	const overhead = 256
	return int(page.Size().Bytes) + overhead
}
