package activity

import (
	"sync"

	"github.com/feedfilter/feedfilter/favfilter"
)

// images are pages made from the ledger while the store was down, so that a viewer who comes back does
// not cost the ledger another read. An image is as good as its sequence: it is used only where that is
// what readers have to see.
type images struct {
	mu   sync.Mutex
	held *lru[uint32, *favfilter.Page] // by the Recorder's number
}

func newImages() images {
	return images{held: newLRU[uint32, *favfilter.Page](maxImageBytes)}
}

// get returns the image of the page if it stands at want or beyond.
func (m *images) get(number uint32, want uint64) *favfilter.Page {
	m.mu.Lock()
	defer m.mu.Unlock()
	page, ok := m.held.get(number)
	if !ok || page.Header().Sequence < want {
		return nil
	}
	return page
}

func (m *images) put(number uint32, page *favfilter.Page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held.put(number, page, imageBytes(page))
}

// clear forgets all of them.
func (m *images) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held.clear()
}

// imageBytes is what a page takes in memory with all its layers, the collision bitmap included.
func imageBytes(page *favfilter.Page) int {
	const overhead = 256
	n := 0
	for _, shape := range page.Layers() {
		n += int(shape.Bits / 8)
		if shape.Region > 0 {
			n += int(shape.Bits) / int(shape.Region) / 8
		}
	}
	return n + overhead
}
