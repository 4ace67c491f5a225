package activity

import (
	"container/list"
	"sync"

	"github.com/feedfilter/feedfilter/favfilter"
)

// images are pages made from the ledger while the store was down, the latest used first, so
// that a viewer who comes back does not cost the ledger another read. An
// image is as good as its sequence: it is used only where that is what readers have to
// see.
type images struct {
	mu    sync.Mutex
	held  map[uint32]*list.Element // of image
	order *list.List
	bytes int
}

func newImages() images {
	return images{held: make(map[uint32]*list.Element), order: list.New()}
}

// get returns the image of the page if it stands at want or beyond.
func (m *images) get(number uint32, want uint64) *favfilter.Page {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.held[number]
	if e == nil {
		return nil
	}
	page := imageOf(e).page
	if page.Header().Sequence < want {
		return nil
	}
	m.order.MoveToFront(e)
	return page
}

func (m *images) put(number uint32, page *favfilter.Page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.held[number]; e != nil {
		m.drop(e)
	}
	m.held[number] = m.order.PushFront(image{number, page})
	m.bytes += imageBytes(page)
	for m.bytes > maxImageBytes && m.order.Len() > 1 {
		m.drop(m.order.Back())
	}
}

// clear forgets all of them.
func (m *images) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.held)
	m.order.Init()
	m.bytes = 0
}

func (m *images) drop(e *list.Element) {
	i := imageOf(e)
	m.order.Remove(e)
	delete(m.held, i.number)
	m.bytes -= imageBytes(i.page)
}

// image is a page, and its number for the Recorder.
type image struct {
	number uint32
	page   *favfilter.Page
}

func imageOf(e *list.Element) image {
	i, _ := e.Value.(image) // nothing else is put in
	return i
}

// imageBytes is what a page takes in memory, the collision marks included.
func imageBytes(page *favfilter.Page) int {
	const overhead = 256
	shape := page.Header().Shape
	n := int(shape.Bits / 8)
	if shape.Region > 0 {
		n += int(shape.Bits) / int(shape.Region) / 8
	}
	return n + overhead
}
