package follow

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// timeColumn is a column that has a time. In a file it is a name, or with a unit an object such as
// {"column": "expires_at", "unit": "ms"}. The zero value is none.
type timeColumn struct {
	Column string `json:"column"`
	Unit   string `json:"unit"` // of a number since 1970: a key of units; "": it is a timestamp
}

// units are the units of numbers that are times.
func units() map[string]time.Duration {
	return map[string]time.Duration{
		"s":  time.Second,
		"ms": time.Millisecond,
		"us": time.Microsecond,
		"ns": time.Nanosecond,
	}
}

// UnmarshalJSONFrom parses a name or an object.
func (c *timeColumn) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == jsontext.KindString {
		return json.UnmarshalDecode(dec, &c.Column)
	}
	type object timeColumn // without this method
	if err := json.UnmarshalDecode(dec, (*object)(c)); err != nil {
		return err
	}
	switch _, known := units()[c.Unit]; {
	case c.Column == "":
		return errors.New("a time: no column")
	case !known:
		all := strings.Join(slices.Sorted(maps.Keys(units())), ", ")
		return fmt.Errorf("column %q: unit: want one of %s", c.Column, all)
	}
	return nil
}

// MarshalJSONTo returns what UnmarshalJSONFrom parses: a name, if it says all.
func (c *timeColumn) MarshalJSONTo(enc *jsontext.Encoder) error {
	if c.Unit == "" {
		return json.MarshalEncode(enc, c.Column)
	}
	type object timeColumn
	return json.MarshalEncode(enc, (*object)(c))
}

// String names the column and its unit for people.
func (c *timeColumn) String() string {
	if c.Unit != "" {
		return fmt.Sprintf("column %q in %s", c.Column, c.Unit)
	}
	return fmt.Sprintf("column %q", c.Column)
}

// types returns the types that the column may have, as PostgreSQL prints them.
func (c *timeColumn) types() []string {
	if c.Unit != "" {
		return []string{"integer", "bigint", "numeric", "numeric without fraction", "double precision"}
	}
	return []string{"timestamp with time zone", "timestamp without time zone", "date"}
}

// isTimestamp reports whether a column is a time without a unit.
func (t *Table) isTimestamp(column string) bool {
	return column == t.Since.Column && t.Since.Unit == "" ||
		column == t.Until.Column && t.Until.Unit == ""
}

// span returns when what a row gives begins and ends.
func (t *Table) span(value func(column string) *string) (ledger.Span, error) {
	since, err1 := t.Since.in(value, time.Time{})
	until, err2 := t.Until.in(value, longAgo())
	return ledger.Span{Since: since, Until: until}, errors.Join(err1, err2)
}

// longAgo is the end of a row that ended before all that is recorded.
func longAgo() time.Time { return time.Unix(0, 0).UTC() }

// in returns the time in the column; zero: there is none, or it is infinitely late. One before
// longAgo is returned as before: an activity that began then counts from the commit, and one that
// ended then has ended.
func (c *timeColumn) in(
	value func(column string) *string, before time.Time,
) (at time.Time, err error) {
	if c.Column == "" {
		return at, nil
	}
	v := value(c.Column)
	switch {
	case v == nil, strings.EqualFold(*v, "infinity"):
		return at, nil
	case strings.EqualFold(*v, "-infinity"), strings.HasSuffix(*v, " BC"):
		return before, nil
	}
	none := false
	if c.Unit != "" {
		at, none, err = timeOfNumber(*v, units()[c.Unit])
	} else {
		at, err = parseTime(*v)
	}
	switch {
	case err != nil:
		return at, fmt.Errorf("%s: %w", c, err)
	case !none && at.Before(longAgo()):
		return before, nil
	}
	return at, nil
}

// timeOfNumber returns the time that is so many units after 1970, rounded down to a microsecond as
// PostgreSQL's are. 0 is none: apps write it where there is no end. After the year 9999 is
// infinitely late, which is none, too.
func timeOfNumber(text string, unit time.Duration) (at time.Time, none bool, err error) {
	const precision = 128 // 19 digits of nanoseconds, and more
	n, _, err := big.ParseFloat(text, 10, precision, big.ToNearestEven)
	if err != nil {
		return at, false, errors.New("not a number")
	}
	n.Mul(n, big.NewFloat(float64(unit/time.Nanosecond)))
	micros, _ := n.Quo(n, big.NewFloat(float64(time.Microsecond))).Int64() // or the nearest
	latest := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	switch {
	case n.Sign() == 0, micros > latest.UnixMicro():
		return at, true, nil
	case n.Sign() < 0:
		return longAgo().Add(-1), false, nil
	}
	return time.UnixMicro(micros).UTC(), false, nil
}

// parseTime parses a timestamp as PostgreSQL prints it with datestyle ISO and time zone UTC, or as
// Debezium does.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{
		"2006-01-02 15:04:05.999999999-07", "2006-01-02 15:04:05.999999999-07:00",
		"2006-01-02 15:04:05.999999999", "2006-01-02", time.RFC3339Nano,
	} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, errors.New("not a time")
}
