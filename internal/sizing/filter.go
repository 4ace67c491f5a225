package sizing

import (
	"math"

	"github.com/feedfilter/feedfilter/activity"
)

// CPU time of a server on a feed check in us, and per KiB that it answers, measured by BenchmarkRedisCPU.
const readCPU, readCPUPerKiB = 6.5, 0.2

// filter is the service's way.
func (p *Plan) filter() (Way, error) {
	in := &p.Input
	rate := in.keyRate()
	pages, err := newPages(in, rate)
	if err != nil {
		return Way{}, err
	}
	p.KeysPerPage, p.KeysPage99 = pages.keys.mean(), quantile(pages.keys, 0.99)
	p.PagesMemory = float64(in.Pages) * pages.sizes.over(pages.keys).memory
	readers := pages.keys.weighted()
	p.FeedRead99 = pages.sizes.at(quantile(readers, 0.99)).read
	feed := reads{
		keys: 1, request: float64(bulk(len(pageName(in.Filter, in.Pages-1) + ":bits"))), reply: pages.sizes.over(readers).read,
		squares: pages.sizes.scattered(pages.keys, float64(in.Pages)),
	}
	for _, k := range in.Kinds.All() {
		if k.InLedger() || k.Effect != activity.Drop {
			continue
		}
		if err := p.addWindow(k, rate, &feed); err != nil {
			return Way{}, err
		}
	}
	way := Way{Name: "feedfilter", Undo: true, Memory: p.PagesMemory + p.WindowsMemory}
	if all := in.Users * in.ActivitiesPerUser; all > 0 {
		way.PerActivity = p.PagesMemory / all
	}
	way.scatter = math.Sqrt(feed.squares)
	way.FeedRequest = float64(array(1+feed.keys)+bulk(len("mget"))) + feed.request
	way.FeedReply = float64(array(feed.keys)) + feed.reply
	way.FeedCPU = readCPU + readCPUPerKiB*way.FeedReply/1024
	return way, nil
}

// reads are what a feed check reads: so many strings, of so many bytes of their names, and of themselves.
type reads struct {
	keys           int
	request, reply float64
	squares        float64 // of the memory of places, see [Way]
}

// addWindow adds a kind with a window to what is kept and read. All that is known is what is seen a day; a window of
// which nothing is known is read, but empty.
func (p *Plan) addWindow(k activity.Kind, rate float64, feed *reads) error {
	in := &p.Input
	daily := 0.0
	if k.Name == seen {
		daily = in.SeenPerDay
	}
	w, err := newWindow(in, k, rate, daily)
	if err != nil {
		return err
	}
	parts := float64(w.parts)
	feed.keys += w.parts
	feed.request += parts * float64(bulk(w.name))
	if daily == 0 {
		feed.reply += parts * missingBytes
		return nil
	}
	readers := w.keys.weighted()
	p.WindowsMemory += in.Users * parts * w.sizes.over(w.keys).memory
	feed.reply += parts * w.sizes.over(readers).read
	feed.squares += parts * parts * w.sizes.scattered(w.keys, in.Users)
	p.FeedRead99 += parts * w.sizes.at(quantile(readers, 0.99)).read
	return nil
}
