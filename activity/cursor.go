package activity

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// listOf identifies a list: of the activities of a user, or of those of others with the user.
type listOf struct {
	user, kind string
	incoming   bool
}

const (
	// cursorFormat changes with the bytes of a cursor. A cursor of another version is invalid, and
	// its caller begins the list again.
	cursorFormat = "feedfilter list 2"
	// sumBytes is the length of the checksum at the beginning of a cursor.
	sumBytes = 8
)

// after returns the cursor of the part of the list that follows row. It is opaque to callers: a
// checksum, the time and the target of the row, in the URL-safe alphabet of base64.
func (of listOf) after(row *ledger.Row) string {
	position := binary.BigEndian.AppendUint64(nil, uint64(row.Since.UnixMicro()))
	position = append(position, row.Target...)
	return base64.RawURLEncoding.EncodeToString(append(of.sum(position), position...))
}

// row returns the row that a cursor of the list follows; nil for "", the beginning. It refuses a
// cursor of another list, and one that is incomplete or changed.
func (of listOf) row(cursor string) (*ledger.Row, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // no position: from the start
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < sumBytes+8 || !bytes.Equal(raw[:sumBytes], of.sum(raw[sumBytes:])) {
		return nil, &InvalidError{
			Code:    CodeInvalidCursor,
			Field:   "cursor",
			Message: "this list returned no such cursor: begin again without one",
		}
	}
	position := raw[sumBytes:]
	since := time.UnixMicro(int64(binary.BigEndian.Uint64(position))).UTC()
	return &ledger.Row{Since: since, Target: string(position[8:])}, nil
}

// sum returns a checksum of the list and a position in it. It finds mistakes: a cursor that belongs
// to another list, or was cut off. It keeps nothing secret, and no caller out: a caller who can
// compute a cursor may as well read the list from its beginning.
func (of listOf) sum(position []byte) []byte {
	h := sha256.New()
	// No part of it has a control character, so each list has another text. The write never fails.
	_, _ = fmt.Fprintf(h, "%s\n%s\n%s\n%t\n", cursorFormat, of.kind, of.user, of.incoming)
	_, _ = h.Write(position)
	return h.Sum(nil)[:sumBytes]
}
