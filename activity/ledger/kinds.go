package ledger

import (
	"context"
	"fmt"
	"slices"
)

// Kind is a kind of rows that processes record.
type Kind struct {
	Name    string // kind of the rows in the page of the user that acts
	Reverse string // kind of the mirrored rows in the target's page; "": none
	Target  string // facet that the targets belong to: [User], [Post] or another
	Source  string // the source that alone writes the kind; "": none. Declare leaves it as it is

	// Phrases reports that the targets are phrases in canonical form, of which pages keep marks.
	Phrases bool

	// Weight is that of the kind's keys in pages, 0 to 127. The first declaration sets it for good:
	// a key that was added with one weight is not found, nor removed, with another. -1: nobody has
	// set it, because only processes of version 0.2.0 or earlier declared the kind.
	Weight int
}

// Facets that every ledger knows.
const (
	User = "user"
	Post = "post"
)

func (k Kind) names() []string {
	if k.Reverse == "" {
		return []string{k.Name}
	}
	return []string{k.Name, k.Reverse}
}

// describe returns a description of the kind without its name.
func (k Kind) describe() string {
	as := fmt.Sprintf("with target %q", k.Target)
	if k.Phrases {
		as += " (phrases)"
	}
	if k.Reverse != "" {
		as += fmt.Sprintf(" and mirrored as %q", k.Reverse)
	}
	return as
}

// Declare adds the kinds to those that processes declared before. Call it before anything is
// recorded. Kinds returns the kinds from then on. What happens to a kind depends on what the
// ledger has:
//
//   - A kind that was declared alike stays. Its Weight does not matter.
//   - A new kind is added.
//   - A kind whose Reverse differs replaces the earlier one if the ledger has no row of it.
//   - A kind that is missing now stays if the ledger has no row of it, because another process may
//     record it.
//   - A kind whose Target or Phrases differ is refused with ErrKindTaken.
//
// If the ledger has rows of a kind that is missing or has another Reverse, Declare returns an
// error that wraps ErrKindHasData and names the kind. It then declares nothing. Rows of the
// kind, or of its reverse, would be misread or never read.
//
// Declare looks for rows only if a kind is missing or has changed. That may read the whole
// ledger, for as long as ctx allows. Other writers wait for it in SQLite. In PostgreSQL they wait
// while Declare looks at the pages that changed meanwhile, and only if a kind has changed.
//
// From then on, Record refuses changes by the earlier definition with ErrKindsDiffer.
//
// Names must be valid ids, and all names and reverses must differ. Concurrent calls of any
// number of processes run one after another. For other errors see Record.
func (l *Ledger) Declare(ctx context.Context, kinds []Kind) error {
	return run(ctx, l, "declare", "ledger: declare kinds", func(ctx context.Context) error {
		if err := checkKinds(kinds); err != nil {
			return err
		}
		stored, err := readKinds(ctx, l.db)
		if err != nil {
			return err
		}
		before, now := plain(stored), plain(kinds)
		same := len(without(before, now))+len(without(now, before)) == 0
		if same && len(weigh(stored, kinds)) == 0 {
			return nil
		}
		return l.db.transact(ctx, 0, func(ctx context.Context, t transaction) error {
			return l.declare(ctx, t, kinds)
		})
	})
}

// weigh returns the declared kinds that are stored without a weight.
func weigh(stored, declared []Kind) (unweighed []Kind) {
	for _, k := range stored {
		if i := indexOf(declared, k.Name); i >= 0 && k.Weight < 0 {
			unweighed = append(unweighed, declared[i])
		}
	}
	return unweighed
}

// indexOf returns the index of the kind with the name; -1: there is none.
func indexOf(kinds []Kind, name string) int {
	return slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
}

// declare replaces the declared kinds. The search for rows may be long. If a kind changes, declare
// then excludes writers, and searches what they changed during the search.
func (l *Ledger) declare(ctx context.Context, t transaction, kinds []Kind) error {
	var stored []Kind
	var oldest int64 // every transaction that the search does not see has at least this id
	err := t.begin(ctx,
		statement{sql: l.sql.noTimeLimit},
		statement{sql: l.sql.lockKinds},
		kindsQuery(&stored),
		statement{sql: l.sql.oldestRunning, into: []any{&oldest}},
	)
	if err != nil {
		return fmt.Errorf("read kinds: %w", err)
	}
	gone, added, err := redeclare(ctx, t, 0, plain(stored), plain(kinds))
	if err == nil && len(gone) > 0 && oldest > 0 {
		_, _, err = redeclare(ctx, t, oldest, plain(stored), plain(kinds))
	}
	if err != nil {
		return err
	}
	var writes []statement
	for _, k := range gone {
		writes = append(writes, statement{sql: deleteKindSQL, args: []any{k.Name}})
	}
	for _, k := range added {
		weight := kinds[indexOf(kinds, k.Name)].Weight
		if i := indexOf(stored, k.Name); i >= 0 && stored[i].Weight >= 0 {
			weight = stored[i].Weight
		}
		args := []any{k.Name, k.Reverse, k.Target, weight, k.Phrases}
		writes = append(writes, statement{sql: insertKindSQL, args: args})
	}
	for _, k := range weigh(stored, kinds) {
		writes = append(writes, statement{sql: weighKindSQL, args: []any{k.Weight, k.Name}})
	}
	return execAll(ctx, t, writes)
}

// kindsQuery returns a query that reads the declared kinds, in order of name.
func kindsQuery(into *[]Kind) statement {
	var k Kind
	return statement{
		sql: allKindsSQL, into: []any{&k.Name, &k.Reverse, &k.Target, &k.Source, &k.Weight, &k.Phrases},
		reset: func() { *into = nil },
		each:  func() error { *into = append(*into, k); return nil },
	}
}

// Kinds returns all declared kinds in their latest form, in order of name. The ledger may also
// have rows of kinds that nobody declared.
func (l *Ledger) Kinds(ctx context.Context) ([]Kind, error) {
	c, what := &Call{Operation: "kinds"}, "ledger: read kinds"
	return ask(ctx, l, c, what, func(ctx context.Context) ([]Kind, error) {
		return readKinds(ctx, l.db)
	})
}

// checkKinds returns an error for invalid kinds and for duplicate names.
func checkKinds(kinds []Kind) error {
	taken := make(map[string]bool)
	for _, k := range kinds {
		for _, name := range k.names() {
			if err := validateID("name", name); err != nil {
				return fmt.Errorf("kind %q: %w", k.Name, err)
			}
			if taken[name] {
				return fmt.Errorf("kind %q: duplicate name %q", k.Name, name)
			}
			taken[name] = true
		}
		if err := validateID("target", k.Target); err != nil {
			return fmt.Errorf("kind %q: %w", k.Name, err)
		}
		if k.Weight < 0 || k.Weight > 127 {
			return fmt.Errorf("kind %q: weight %d is not in 0 to 127", k.Name, k.Weight)
		}
	}
	return nil
}

// plain returns kinds without their sources and weights.
func plain(kinds []Kind) []Kind {
	all := slices.Clone(kinds)
	for i := range all {
		all[i].Source, all[i].Weight = "", 0
	}
	return all
}

// without returns the kinds that are not among the others.
func without(kinds, others []Kind) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool {
		return slices.Contains(others, k)
	})
}

// redeclare returns the stored kinds to remove and the declared kinds to add. A kind with rows must
// not be removed. For since see transaction.
func redeclare(
	ctx context.Context, t transaction, since int64, stored, declared []Kind,
) (gone, added []Kind, err error) {
	for _, k := range without(stored, declared) {
		taken := func(d Kind) bool {
			return (d.Target != k.Target || d.Phrases != k.Phrases) && d.clashes(k)
		}
		if i := slices.IndexFunc(declared, taken); i >= 0 {
			return nil, nil, fmt.Errorf(
				"%w: %q was declared %s, and %q is now declared %s: "+
					"the target of a name cannot change, choose another name",
				ErrKindTaken, k.Name, k.describe(), declared[i].Name, declared[i].describe(),
			)
		}
		if slices.ContainsFunc(declared, k.clashes) {
			gone = append(gone, k)
		}
		found, err := t.anyOf(ctx, k.names(), since)
		if err != nil {
			return nil, nil, fmt.Errorf(
				"kind %q was declared %s, and has changed or is missing now: "+
					"cannot tell whether it has rows: %w",
				k.Name, k.describe(), interrupted(ctx, err),
			)
		}
		if !found {
			continue
		}
		now := "is not declared now"
		if i := indexOf(declared, k.Name); i >= 0 {
			now = "is now declared " + declared[i].describe()
		}
		return nil, nil, fmt.Errorf(
			"%w: %q was declared %s, and %s: declare it as before, or, to change or drop it, "+
				"remove its rows first; a kind cannot be renamed",
			ErrKindHasData, k.Name, k.describe(), now,
		)
	}
	return gone, without(declared, stored), nil
}

// checkKinds returns an error unless each change has the rows of its kind as declared: one, or one
// on each side, and its kind is not that of another source. It skips kinds that nobody declared,
// and removals of ended rows, which are single.
func (p *plan) checkKinds(declared []Kind) error {
	other := make(map[string]string, 2*len(declared)) // kind of the row on the other side
	sources := make(map[string]string)
	for _, k := range declared {
		other[k.Name], sources[k.Name] = k.Reverse, k.Source
		if k.Reverse != "" {
			other[k.Reverse], sources[k.Reverse] = k.Name, k.Source
		}
	}
	for _, c := range p.changes {
		first, second := c.Rows[0].Kind, ""
		if len(c.Rows) > 1 {
			second = c.Rows[1].Kind
		}
		if source := sources[first]; source != p.source() && !c.Ended {
			return &FollowedError{source, first}
		}
		if wanted, known := other[first]; known && second != wanted && !c.Ended {
			return fmt.Errorf(
				"%w: this process mirrors %q as %q, and another process has declared %q since: "+
					"restart this process with the same kinds",
				ErrKindsDiffer, first, second, wanted,
			)
		}
	}
	return nil
}

// clashes reports whether the two kinds have a name in common.
func (k Kind) clashes(other Kind) bool {
	return slices.ContainsFunc(k.names(), func(name string) bool {
		return slices.Contains(other.names(), name)
	})
}
