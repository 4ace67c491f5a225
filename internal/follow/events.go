package follow

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
)

// Codes of events that are refused.
const (
	CodeUnknownEvent   = "unknown_event"
	CodeIncompleteRow  = "incomplete_row"
	CodeInvalidRow     = "invalid_row"
	CodeSnapshotNeeded = "snapshot_needed"
)

// Event is a change of a row in the form of Debezium, or another of its messages.
type Event struct {
	Payload     payload           `json:"payload"` // of an event with a schema, which is not used
	Op          string            `json:"op"`
	Before      jsontext.Value    `json:"before"`
	After       jsontext.Value    `json:"after"`
	Source      *eventSource      `json:"source"`
	Transaction *eventTransaction `json:"transaction"`
	// Others are all other members.
	Others map[string]jsontext.Value `json:",embed"`
}

// eventTransaction says where an event is in its transaction, if Debezium is told to.
type eventTransaction struct {
	Order uint32 `json:"total_order"`
}

// payload is the event in an event with a schema. One that is null is a tombstone.
type payload struct {
	is    bool
	event *Event
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (p *payload) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	p.is = true
	return json.UnmarshalDecode(dec, &p.event)
}

// Events are one event, or an array of them. One that is null is a tombstone.
type Events []*Event

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (all *Events) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == jsontext.KindBeginArray {
		return json.UnmarshalDecode(dec, (*[]*Event)(all))
	}
	*all = make(Events, 1)
	return json.UnmarshalDecode(dec, &(*all)[0])
}

// change returns the change of rows that e is; nil: it is another message of Debezium, which says
// nothing of rows. An error names what e is instead.
func (e *Event) change() (*Event, error) {
	if e != nil && e.Payload.is && e.only("schema") {
		e = e.Payload.event
	}
	if e == nil {
		return nil, nil //nolint:nilnil // a tombstone
	}
	switch {
	case e.Payload.is:
	case e.Op == "m" && e.Source != nil: // a logical message
		return nil, nil //nolint:nilnil // no change
	case e.Op != "" && !slices.Contains([]string{"c", "r", "u", "d", "t"}, e.Op):
		return nil, refused("unknown_op", "op is %q, want c, r, u, d or t", e.Op)
	case e.Op != "" && (e.Source == nil || e.Source.LSN == nil && e.Source.File == ""):
		return nil, refused(activity.CodeInvalidPosition,
			"source has neither lsn nor file: want an event of PostgreSQL or MySQL")
	case e.Op != "":
		return e, nil
	case e.isOther():
		return nil, nil //nolint:nilnil // no change
	}
	return nil, refused(CodeUnknownEvent,
		"%s, want an event of Debezium, with op and source", e.foreign())
}

// isOther reports whether an event without op is a heartbeat, the begin or end of a transaction, or
// a change of the schema.
func (e *Event) isOther() bool {
	if e.Before != nil || e.After != nil || e.Transaction != nil {
		return false
	}
	if e.Source != nil {
		return e.has("databaseName") && (e.has("ddl") || e.has("tableChanges"))
	}
	switch status := string(e.Others["status"]); {
	case e.has("status"):
		return (status == `"BEGIN"` || status == `"END"`) && e.has("id") &&
			e.only("status", "id", "event_count", "data_collections", "ts_ms", "ts_us", "ts_ns")
	default:
		return e.Others["ts_ms"].Kind() == jsontext.KindNumber && e.only("ts_ms", "ts_us", "ts_ns")
	}
}

func (e *Event) has(member string) bool { return e.Others[member] != nil }

// only reports whether e has no other members than these, of those that are in Others.
func (e *Event) only(members ...string) bool {
	for member := range e.Others {
		if !slices.Contains(members, member) {
			return false
		}
	}
	return true
}

// isFlat reports whether the object has the names that ExtractNewRecordState adds.
func (e *Event) isFlat() bool {
	for member := range e.Others {
		if strings.HasPrefix(member, "__") {
			return true
		}
	}
	return false
}

// foreign says what an object is that is no event of Debezium.
func (e *Event) foreign() string {
	kind := strings.Trim(string(e.Others["type"]), `"`)
	isSinger := kind == "RECORD" || kind == "STATE" || kind == "SCHEMA"
	switch {
	case e.has("specversion"):
		return "it is wrapped as a CloudEvent: set debezium.format.value=json"
	case e.isFlat():
		return "it is a row that ExtractNewRecordState has flattened: remove that transformation"
	case e.has("isDdl"):
		return "it is an event of Canal"
	case e.has("type") && e.has("database") && e.has("table"):
		return "it is an event of Maxwell"
	case isSinger && (e.has("record") || e.has("stream") || e.has("value")):
		return "it is a message of Singer or Airbyte"
	case e.has("metadata") && e.has("data"):
		return "it is a record of AWS DMS"
	}
	names := slices.Sorted(maps.Keys(e.Others))
	if len(names) == 0 {
		return "it is an object without the members of an event"
	}
	if len(names) > 5 {
		names = append(names[:5], "...")
	}
	return fmt.Sprintf("it is an object with the members %.100q", strings.Join(names, ", "))
}

// arrival returns the event as one of the log.
func (e *Event) arrival() (a arrival, err error) {
	if a.place, err = e.Source.place(); err != nil {
		return a, refused(activity.CodeInvalidPosition, "source: %v", err)
	}
	if e.Transaction != nil {
		a.order = e.Transaction.Order
	}
	a.before, a.after = rowHash(e.Before), rowHash(e.After)
	at := fmt.Sprintf("%d %d", a.xid, a.lsn)
	switch {
	case a.gtid != gtid{}: // another server has it in another file
		at = fmt.Sprintf("%q %d %d", a.gtid.Server, a.gtid.Number, e.Source.Row)
	case a.log == logMySQL:
		at = fmt.Sprintf("%q %d %d", a.file, a.pos, e.Source.Row)
	}
	a.mark = e.mark(at)
	return a, nil
}

// mark returns the mark of the event at a place of the log. A log that begins again may have an
// equal event at the same place, but not at the same time.
func (e *Event) mark(at string) eventMark {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %x", at, e.Source.Millis, e.hash()))
	return eventMark(numberOf(sum[:markBytes]))
}

// rowHash returns a hash of a row of an event; 0: there is none.
func rowHash(row jsontext.Value) uint32 {
	if row == nil || row.Kind() == jsontext.KindNull {
		return 0
	}
	sum := sha256.Sum256(row)
	return binary.BigEndian.Uint32(sum[:]) | 1
}

// hash returns a hash of the rows of the event.
func (e *Event) hash() uint64 {
	schema, name := e.Source.table()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q %s %s", e.Op, schema, name, e.Before, e.After))
	return binary.BigEndian.Uint64(sum[:])
}

func incomplete(t *Table, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	return refused(
		CodeIncompleteRow,
		"table %s needs REPLICA IDENTITY FULL, or binlog_row_image=FULL: %s", t.Table, what,
	)
}

func refused(code, format string, args ...any) error {
	return &activity.InvalidError{Code: code, Message: fmt.Sprintf(format, args...)}
}
