package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

// exportChunk is how much of an export is gathered before it is sent, in bytes.
const exportChunk = 32 << 10

// errHeadOnly ends an export of which only the header is asked for.
var errHeadOnly = errors.New("the header is all that is wanted")

// exportLine is an activity as "feedfilter import" reads it. Times are in UTC, to the
// microsecond.
type exportLine struct {
	User   string    `json:"user"`
	Kind   string    `json:"kind"`
	Target string    `json:"target"`
	Op     string    `json:"op"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"`
}

// export answers with a line of NDJSON for each activity of a user that the ledger keeps, by kind
// and target, as they stand while it goes on. It counts as a stream and is as one: each part may take
// the service's timeout to be read from the ledger, and StreamIdle to be taken by the client; little of
// it is held at a time. What goes wrong before the first part is sent is answered as an error; after
// that the connection is cut, so that nobody takes the answer for a whole one.
func (s *service) export(c echo.Context) error {
	user, err := bareUser(c)
	if err != nil {
		return err
	}
	if !s.limits.streams.take(1) {
		return turnAway(c, "streams are in progress")
	}
	defer s.limits.streams.give(1)
	if err := takeTime(c, s.timeout+s.idle); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	x := exporter{c: c, conn: newStreamConn(c, s.idle), patience: s.timeout, stalled: time.AfterFunc(s.timeout, cancel)}
	defer x.conn.release()
	defer x.stalled.Stop()
	r, err := activity.WithLedger(s.activities, "an export")
	if err != nil {
		return err
	}
	if err := r.Export(ctx, user, x.add); err != nil && !errors.Is(err, errHeadOnly) {
		return err
	}
	return x.send()
}

// exporter gathers lines and sends them.
type exporter struct {
	c        echo.Context
	conn     *streamConn
	patience time.Duration // that stalled is set to
	stalled  *time.Timer   // ends the export
	lines    bytes.Buffer
}

func (x *exporter) add(a activity.Activity) error {
	if x.c.Request().Method == http.MethodHead {
		return errHeadOnly
	}
	line := exportLine{User: a.User, Kind: a.Kind, Target: a.Target, Op: "add", Since: a.Since, Until: a.Until}
	if err := json.MarshalWrite(&x.lines, line); err != nil {
		return fmt.Errorf("export a line: %w", err)
	}
	x.lines.WriteByte('\n')
	if x.lines.Len() < exportChunk {
		return nil
	}
	return x.send()
}

// send sends what has been gathered, and the header before it where that has not been sent.
func (x *exporter) send() error {
	x.stalled.Stop() // it is the client's turn
	if !x.c.Response().Committed {
		if err := x.conn.begin(); err != nil {
			return err
		}
	}
	if err := x.conn.send(x.lines.Bytes()); err != nil {
		return err
	}
	x.lines.Reset()
	x.stalled.Reset(x.patience)
	return nil
}
