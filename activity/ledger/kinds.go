package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrKindHasData says that a kind was declared before that is missing now, or is
// another one, while the ledger has rows of it.
var ErrKindHasData = errors.New("kind has data")

// ErrKindTaken is wrapped by the error of a Declare of a name whose targets were others before.
var ErrKindTaken = errors.New("kind is taken")

// Kind is a kind of rows that processes record.
type Kind struct {
	Name    string // of the rows in the page of who does it
	Reverse string // of those in the target's page, if it gets one; "" if not
	Users   bool   // whether targets are users; they are if there is a Reverse
}

func (k Kind) names() []string {
	if k.Reverse == "" {
		return []string{k.Name}
	}
	return []string{k.Name, k.Reverse}
}

// describe says what else than the name there is to a kind.
func (k Kind) describe() string {
	switch {
	case k.Reverse != "":
		return fmt.Sprintf("of users, two-way with reverse %q", k.Reverse)
	case k.Users:
		return "of users, one-way"
	default:
		return "not of users"
	}
}

// Declare records the kinds that a process is about to work with, beside those
// declared before; Kinds returns them from then on. It is for the time
// before anything is recorded. A kind that is declared again as it is stays, and a
// new one is added. One that has another Reverse now is changed, and one that is missing
// stays, since another process may still record it, if the ledger has no row of it, under its name or its
// reverse. One with other targets (Users) is refused with ErrKindTaken. If the ledger has
// rows, nothing is declared, and the error wraps ErrKindHasData and
// names the kind: the rows would be taken for what they are not, or nobody would look at them.
//
// To find out whether there are rows may take reading all of the ledger, as long as
// ctx lets it; nothing else waits for it in PostgreSQL, and other writers do in
// SQLite. It is done for kinds that are missing or changed alone. What other
// processes go on recording of them meanwhile may not be noticed.
//
// Names are ids and there are no two alike, reverses included. Any number of
// processes may declare at once: they take turns. For errors see Record.
func (l *Ledger) Declare(ctx context.Context, kinds []Kind) error {
	err := checkKinds(kinds)
	if err == nil {
		err = l.use(func() error {
			stored, err := l.db.kinds(ctx)
			if err != nil {
				return interrupted(ctx, err)
			}
			if len(without(stored, kinds))+len(without(kinds, stored)) == 0 {
				return nil
			}
			return l.db.declare(ctx, kinds)
		})
	}
	if err != nil {
		return fmt.Errorf("ledger: declare kinds: %w", err)
	}
	return nil
}

// Kinds returns all kinds that were declared, as they were last, in order of name. There may be
// rows of others, which nobody declared.
func (l *Ledger) Kinds(ctx context.Context) (kinds []Kind, err error) {
	err = l.use(func() error {
		kinds, err = l.db.kinds(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: read kinds: %w", interrupted(ctx, err))
	}
	return kinds, nil
}

// checkKinds refuses kinds that cannot be told apart.
func checkKinds(kinds []Kind) error {
	taken := make(map[string]bool)
	for _, k := range kinds {
		for _, name := range k.names() {
			if err := validateID("name", name); err != nil {
				return fmt.Errorf("kind %q: %w", k.Name, err)
			}
			if taken[name] {
				return fmt.Errorf("kind %q: the name %q is taken", k.Name, name)
			}
			taken[name] = true
		}
		if k.Reverse != "" && !k.Users {
			return fmt.Errorf("kind %q: has a reverse, but its targets are no users", k.Name)
		}
	}
	return nil
}

// without are the kinds that are not among the others.
func without(kinds, others []Kind) (rest []Kind) {
	for _, k := range kinds {
		if !slices.Contains(others, k) {
			rest = append(rest, k)
		}
	}
	return rest
}

// redeclare returns what of the stored kinds has to go and what has to come, for
// the declared ones to be stored. hasRows says whether there are rows of any of the
// kinds named, which forbid that theirs goes.
func redeclare(
	ctx context.Context, stored, declared []Kind, hasRows func(ctx context.Context, names []string) (bool, error),
) (gone, added []Kind, err error) {
	for _, k := range without(stored, declared) {
		if i := slices.IndexFunc(declared, func(d Kind) bool { return d.Users != k.Users && d.clashes(k) }); i >= 0 {
			return nil, nil, fmt.Errorf("%w: %q was declared %s, and %q is declared %s now: another process may still make keys of it "+
				"as it was, so a name keeps its targets for good; choose another name", ErrKindTaken, k.Name, k.describe(), declared[i].Name,
				declared[i].describe())
		}
		if slices.ContainsFunc(declared, k.clashes) {
			gone = append(gone, k)
		}
		found, err := hasRows(ctx, k.names())
		if err != nil {
			return nil, nil, fmt.Errorf("kind %q was declared %s, and is not any more: whether there are rows of it could not be established: %w",
				k.Name, k.describe(), interrupted(ctx, err))
		}
		if !found {
			continue
		}
		now := "is not declared now"
		if i := slices.IndexFunc(declared, func(d Kind) bool { return d.Name == k.Name }); i >= 0 {
			now = "is declared " + declared[i].describe() + " now"
		}
		return nil, nil, fmt.Errorf("%w: %q was declared %s, and %s: declare it as it was, or remove its rows while it is so declared "+
			"(a kind cannot be renamed: under another name it is another kind, and may be declared beside it)",
			ErrKindHasData, k.Name, k.describe(), now)
	}
	return gone, without(declared, stored), nil
}

// clashes reports whether the two kinds have a name in common.
func (k Kind) clashes(other Kind) bool {
	return slices.ContainsFunc(k.names(), func(name string) bool { return slices.Contains(other.names(), name) })
}
