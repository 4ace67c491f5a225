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

// exportChunk is the length of one part of an export, in bytes. A part is sent when it is complete.
const exportChunk = 32 << 10

// errHeadOnly ends the export for a HEAD request, which has no body.
var errHeadOnly = errors.New("only the header was requested")

// exportLine is an activity in the form that "feedfilter import" reads. Times are in UTC, to the
// microsecond.
type exportLine struct {
	User   string    `json:"user"`
	Kind   string    `json:"kind"`
	Target string    `json:"target"`
	Op     string    `json:"op"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"`
}

// export answers with a line of NDJSON for each activity of a user in the ledger, by kind and
// target. It reads the ledger in parts, so later activities may be newer than earlier ones. An
// export counts as a stream, and holds one part in memory.
//
// The ledger may take the service's timeout to read a part, and the client may take StreamIdle to
// receive it. An error before the first part is sent as an error answer. A later error breaks the
// connection, so that no client mistakes the answer for complete.
func (s userCalls) export(c echo.Context) error {
	user, err := bareUser(c)
	if err != nil {
		return err
	}
	callOf(c).note("export", "", user, "")
	by := callOf(c).by()
	if !s.limits.streams.take(by, 1) {
		return turnAway(c, "streams in progress")
	}
	defer s.limits.streams.give(by, 1)
	if err := takeTime(c, s.timeout+s.idle); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	x := exporter{c: c, conn: newStreamConn(c, s.idle), patience: s.timeout, stalled: time.AfterFunc(s.timeout, cancel)}
	defer x.conn.release()
	defer x.stalled.Stop()
	if err := s.recorder.Export(ctx, user, x.add); err != nil && !errors.Is(err, errHeadOnly) {
		return err
	}
	return x.send()
}

// exporter gathers lines and sends them.
type exporter struct {
	c        echo.Context
	conn     *streamConn
	patience time.Duration // how long the ledger may take for a part
	stalled  *time.Timer   // ends the export if the ledger takes longer
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

// send sends the gathered lines, with the header before the first ones.
func (x *exporter) send() error {
	x.stalled.Stop() // the time that the client takes does not count
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
