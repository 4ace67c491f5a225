package main

import (
	"errors"
	"fmt"
)

// checks collects all mistakes in the flags of a command, to report them at once. A mistake begins
// with its flag, as in "--pages: 3 is not a power of two".
type checks struct{ errs []error }

// wantf notes a mistake unless ok.
func (c *checks) wantf(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// note adds err, unless it is nil.
func (c *checks) note(err error) { c.errs = append(c.errs, err) }

// err joins all mistakes; nil if there are none.
func (c *checks) err() error { return errors.Join(c.errs...) }
