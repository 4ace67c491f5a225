package follow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/feedfilter/feedfilter/activity"
)

// reason is why a row has no effect.
type reason string

// A row with one of these reasons is valid. It may count later.
const (
	reasonNull   reason = "null"   // a column of user or target is NULL, or an array is empty
	reasonWhile  reason = "while"  // a column of while is not set
	reasonUnless reason = "unless" // a column of unless is set
	reasonWhere  reason = "where"  // a column of where has another text
	reasonEnded  reason = "ended"  // until has passed
)

// A row with one of these reasons is not valid: see [rowError].
const (
	reasonSelf    reason = "self" // the target is the user's own id
	reasonEmpty   reason = "empty"
	reasonTooLong reason = "too_long"
	reasonControl reason = "control" // an id has a control character
	reasonID      reason = "id"      // an id has another fault, such as no domain
	reasonTime    reason = "time"    // since or until is out of range, or no time
)

// invalidReasons are the reasons of rows that are not valid.
func invalidReasons() []reason {
	return []reason{reasonSelf, reasonEmpty, reasonTooLong, reasonControl, reasonID, reasonTime}
}

// reasonOf returns the reason of an activity that the kinds refuse.
func reasonOf(err error, of item) reason {
	bad, _ := errors.AsType[*activity.InvalidError](err)
	either := func(wrong func(id string) bool) bool { return wrong(of.user) || wrong(of.target) }
	switch {
	case bad != nil && bad.Code == activity.CodeSelfBlock:
		return reasonSelf
	case either(func(id string) bool { return id == "" }):
		return reasonEmpty
	case either(func(id string) bool { return len(id) > activity.MaxIDBytes }):
		return reasonTooLong
	case either(func(id string) bool { return strings.ContainsFunc(id, unicode.IsControl) }):
		return reasonControl
	default:
		return reasonID
	}
}

// gives returns the activities that a row gives, each once. If there are none, it returns why. A
// [*rowError] says that the row is not valid: it gives what is returned beside it, which are the
// valid elements of an array. Another error says that a column is not known.
func (m *mapper) gives(t *Table, r row) (all []mapped, why reason, err error) {
	missing := ""
	value := func(column string) *string {
		text, known := r(column)
		if !known {
			missing = column
		}
		return text
	}
	types := m.types[t.Table]
	users, err1 := t.User.fill(value, types)
	targets, err2 := t.Target.fill(value, types)
	span, err3 := t.span(value)
	why = t.whyNot(value, types)
	switch {
	case missing != "":
		return nil, "", fmt.Errorf("table %s: the value of column %q is missing", t.Table, missing)
	case why != "":
		return nil, why, nil
	case err1 != nil || err2 != nil:
		return nil, reasonID, &rowError{t.Table, t.cells(r), errors.Join(err1, err2), reasonID}
	case len(users) == 0 || len(targets) == 0:
		return nil, reasonNull, nil
	case err3 != nil:
		return nil, reasonTime, &rowError{t.Table, t.cells(r), err3, reasonTime}
	}
	for _, user := range users {
		for _, target := range targets {
			of, bad := m.item(t, r, item{t.Kind, user, target})
			if bad != nil {
				why, err = bad.why, bad
			} else {
				all = append(all, mapped{of, span})
			}
		}
	}
	if len(all) > 1 {
		all = distinct(all)
	}
	return all, why, err
}

// distinct returns the activities, each once.
func distinct(all []mapped) []mapped {
	seen := make(map[item]bool, len(all))
	return slices.DeleteFunc(all, func(m mapped) bool {
		again := seen[m.item]
		seen[m.item] = true
		return again
	})
}

// item returns an activity in the form in which it is recorded, or why it never is.
func (m *mapper) item(t *Table, r row, of item) (item, *rowError) {
	a, err := m.kinds.Canonical(activity.Activity{User: of.user, Kind: of.kind, Target: of.target})
	if err != nil {
		return of, &rowError{t.Table, t.cells(r), err, reasonOf(err, of)}
	}
	of.target = a.Target
	return of, nil
}

// whyNot returns why a row does not count; "": as far as while, unless and where say, it does.
func (t *Table) whyNot(value func(column string) *string, types columnTypes) (why reason) {
	set := func(column string) bool {
		v := value(column)
		return v != nil && *v != "f" && *v != "false"
	}
	for _, column := range t.While { // all are looked at, so that it is known which are missing
		if !set(column) {
			why = reasonWhile
		}
	}
	for _, column := range t.Unless {
		if set(column) {
			why = reasonUnless
		}
	}
	for column, want := range t.Where {
		if v := value(column); v == nil || !types.equal(column, *v, want) {
			why = reasonWhere
		}
	}
	return why
}

// columnTypes are the columns of a table whose type says how texts compare. Events do not tell.
type columnTypes struct {
	padded  []string // char(n), in which trailing blanks do not count
	boolean []string
}

// trim returns a value without the blanks with which its type has filled it up.
func (t columnTypes) trim(column, value string) string {
	if slices.Contains(t.padded, column) {
		return strings.TrimRight(value, " ")
	}
	return value
}

// equal reports whether a value is the text that a file has for the column.
func (t columnTypes) equal(column, value, want string) bool {
	if slices.Contains(t.boolean, column) {
		is, _ := truthOf(value)
		wanted, ok := truthOf(want)
		return ok && is == wanted
	}
	return t.trim(column, value) == t.trim(column, want)
}

// truthOf returns the boolean that a text says, if it says one.
func truthOf(text string) (truth, ok bool) {
	switch text {
	case "t", "true", "1":
		return true, true
	case "f", "false", "0":
		return false, true
	default:
		return false, false
	}
}
