package ops

import (
	"bytes"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

const (
	// maxScrapes is the number of scrapes that gather the metrics at the same time; others wait.
	maxScrapes = 4
	// maxScraped is the maximum number of scrapes that wait for their clients to read.
	maxScraped = 16
)

// Scrape returns the handler that answers with all metrics, in the format that Prometheus asks for.
// metrics gathers them.
func Scrape(metrics http.Handler) wire.Handler {
	gathering := make(chan struct{}, maxScrapes)
	sent := limits.NewGuests(maxScraped)
	return func(k *wire.Call) error {
		if _, err := wire.Query(k); err != nil {
			return err
		}
		select {
		case gathering <- struct{}{}:
		case <-k.Request().Context().Done():
			return k.Request().Context().Err()
		}
		answer := gathered{ResponseWriter: k.Response(), status: http.StatusOK}
		func() {
			defer func() { <-gathering }()
			metrics.ServeHTTP(&answer, k.Request())
		}()
		// The client may take its time, and delays no other scrape.
		place := sent.Enter(k.Response().Writer)
		defer sent.Leave(place)
		return wire.Send(k, answer.status, k.Response().Header().Get(echo.HeaderContentType), answer.text.Bytes())
	}
}

// gathered is an answer that is held until it is complete.
type gathered struct {
	http.ResponseWriter

	status int
	text   bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter].
func (g *gathered) WriteHeader(status int) { g.status = status }

// Write implements io.Writer.
func (g *gathered) Write(p []byte) (int, error) { return g.text.Write(p) }
