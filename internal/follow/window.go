package follow

import (
	"encoding/base64"
	"errors"
	"slices"
)

const (
	// maxWindow is the number of events that are remembered exactly. When Debezium was killed, it
	// repeats what it sent since it last stored its offsets. That is at most one of its batches,
	// 2,048 by default, if it stores them after each batch. The window is part of the position, so
	// it costs 8 bytes an event with each request.
	maxWindow = 2048
	// maxChunk is the number of rows of incremental snapshots that are remembered: a chunk of
	// Debezium has 1,024 by default.
	maxChunk = 1024

	markBytes = 6
)

// eventMark is a hash of an event and its place, of 48 bits. In a full window, an event of another
// history is taken for one of it by chance once in 10^11.
type eventMark uint64

// window are marks of the last events, in order.
type window []eventMark

func (w window) has(m eventMark) bool { return slices.Contains(w, m) }

// with returns the window with one more event, and at most most. It leaves w as it is.
func (w window) with(m eventMark, most int) window {
	if len(w) >= most {
		w = w[len(w)-most+1:]
	}
	return append(slices.Clip(w), m)
}

// String returns the marks in base64.
func (w window) String() string {
	all := make([]byte, 0, len(w)*markBytes)
	for _, m := range w {
		all = appendNumber(all, uint64(m), markBytes)
	}
	return base64.RawURLEncoding.EncodeToString(all)
}

// parseWindow parses what String returns.
func parseWindow(text string) (w window, err error) {
	all, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(all)%markBytes != 0 {
		err = errors.New("a part of an event")
	}
	for ; err == nil && len(all) > 0; all = all[markBytes:] {
		w = append(w, eventMark(numberOf(all[:markBytes])))
	}
	return w, err
}

// appendNumber appends the lowest n bytes of a number, the highest first.
func appendNumber(to []byte, number uint64, n int) []byte {
	for n--; n >= 0; n-- {
		to = append(to, byte(number>>(8*n)))
	}
	return to
}

func numberOf(bytes []byte) (n uint64) {
	for _, b := range bytes {
		n = n<<8 | uint64(b)
	}
	return n
}

// near is an event at the last place. Several events may stand at one place of a log. These are
// rows of one record of PostgreSQL, the two events of an update of a primary key, or all rows of a
// compressed transaction of MySQL.
type near struct {
	mark          eventMark
	order         uint32 // in its transaction; 0: unknown
	before, after uint32 // hashes of the rows; 0: none
}

const nearBytes = markBytes + 3*4

// nears are the events at the last place, in order.
type nears []near

// greatest returns the greatest order of the events; 0: none is known.
func (all nears) greatest() (order uint32) {
	for _, n := range all {
		order = max(order, n.order)
	}
	return order
}

// counted reports whether x is one of the events, by its order too, and none was counted from 1
// again.
func (all nears) counted(x near) bool {
	return all.inOrder() &&
		slices.ContainsFunc(all, func(n near) bool { return n.mark == x.mark && n.order == x.order })
}

// inOrder reports whether none of the events was counted from 1 again.
func (all nears) inOrder() bool {
	for i := 1; i < len(all); i++ {
		if all[i].order <= all[i-1].order {
			return false
		}
	}
	return true
}

// admits reports whether x, which is like one of them, may be another event. So may an insert of a
// row that was deleted since, and a change of one that was inserted since.
func (all nears) admits(x near) bool {
	of := x.before // x changes or deletes this row
	if of == 0 {
		of = x.after
	}
	if x.before == x.after { // nothing changes, so both meanings are the same
		return false
	}
	there := false
	for _, n := range slices.Backward(all) {
		if n.after == of || n.before == of {
			there = n.after == of
			break
		}
	}
	return of != 0 && there == (x.before != 0)
}

// String returns the events in base64.
func (all nears) String() string {
	bytes := make([]byte, 0, len(all)*nearBytes)
	for _, n := range all {
		bytes = appendNumber(bytes, uint64(n.mark), markBytes)
		for _, part := range []uint32{n.order, n.before, n.after} {
			bytes = appendNumber(bytes, uint64(part), 4)
		}
	}
	return base64.RawURLEncoding.EncodeToString(bytes)
}

// parseNears parses what String returns.
func parseNears(text string) (all nears, err error) {
	bytes, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(bytes)%nearBytes != 0 {
		err = errors.New("a part of an event")
	}
	for ; err == nil && len(bytes) > 0; bytes = bytes[nearBytes:] {
		part := func(n int) uint32 { return uint32(numberOf(bytes[markBytes+4*n : markBytes+4*n+4])) }
		all = append(all, near{eventMark(numberOf(bytes[:markBytes])), part(0), part(1), part(2)})
	}
	return all, err
}
