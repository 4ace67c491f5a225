package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
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
func (a *api) export(k *wire.Call) error {
	_, user, err := wire.UserOf(k)
	if err != nil {
		return err
	}
	k.Note("export", "", user, "")
	return a.limits.Stream(k, func() error {
		patience, idle := a.limits.Timeout, a.limits.Idle
		if err := wire.TakeTime(k, patience+idle); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(k.Request().Context())
		defer cancel()
		x := exporter{call: k, conn: wire.NewStreamConn(k, idle), patience: patience, stalled: time.AfterFunc(patience, cancel)}
		defer x.conn.Release()
		defer x.stalled.Stop()
		if err := a.recorder.Export(ctx, user, x.add); err != nil && !errors.Is(err, errHeadOnly) {
			return err
		}
		return x.send()
	})
}

// exporter gathers lines and sends them.
type exporter struct {
	call     *wire.Call
	conn     *wire.StreamConn
	patience time.Duration // how long the ledger may take for a part
	stalled  *time.Timer   // ends the export if the ledger takes longer
	lines    bytes.Buffer
}

func (x *exporter) add(a activity.Activity) error {
	if x.call.Request().Method == http.MethodHead {
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
	if !x.call.Response().Committed {
		if err := x.conn.Begin(); err != nil {
			return err
		}
	}
	if err := x.conn.Send(x.lines.Bytes()); err != nil {
		return err
	}
	x.lines.Reset()
	x.stalled.Reset(x.patience)
	return nil
}
