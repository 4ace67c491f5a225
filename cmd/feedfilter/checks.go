package main

import (
	"errors"
	"fmt"
)

// checks gathers what is wrong with the flags of a command, so that all of it is said at once. What is said of a flag begins with it,
// as in "--pages: 3 is not a power of two".
type checks struct{ errs []error }

// wantf notes what format says unless it is so.
func (c *checks) wantf(so bool, format string, args ...any) {
	if !so {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// note notes err, unless that is nil.
func (c *checks) note(err error) { c.errs = append(c.errs, err) }

// err is all that was noted, nil if that is nothing.
func (c *checks) err() error { return errors.Join(c.errs...) }
