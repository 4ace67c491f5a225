package wire

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/feedfilter/feedfilter/activity"
)

// audited holds the fields of an audit line that only some requests have.
type audited struct {
	op, kind     string
	user, target string               // ids
	counts       map[string]*opCounts // of the activities in the request, by kind; nil: no batch
	pages        int
	force        bool
	changed      int
}

// StartAudit makes the request an audited one, and forgets what was noted before. Without it, the
// notes below do nothing.
func (k *Call) StartAudit() { k.audit = new(audited) }

// Audited reports whether the request is audited.
func (k *Call) Audited() bool { return k.audit != nil }

// opCounts holds the numbers of activities that a request adds and removes.
type opCounts struct{ add, remove int }

// Note sets the op, the kind, and the ids of user and target in the audit line.
func (k *Call) Note(op, kind, user, target string) {
	if k.audit != nil {
		k.audit.op, k.audit.kind, k.audit.user, k.audit.target = op, kind, user, target
	}
}

// NoteBatch adds the activities to the counts of the audit line.
func (k *Call) NoteBatch(activities []activity.Activity) {
	if k.audit == nil {
		return
	}
	if k.audit.counts == nil { // a batch without activities is a batch
		k.audit.counts = make(map[string]*opCounts)
	}
	for _, a := range activities {
		if n := k.audit.countsOf(a.Kind); a.Remove {
			n.remove++
		} else {
			n.add++
		}
	}
}

// NoteAdded adds n added activities of a kind to the counts of the audit line.
func (k *Call) NoteAdded(kind string, n int) {
	if k.audit != nil {
		k.audit.countsOf(kind).add += n
	}
}

func (a *audited) countsOf(kind string) *opCounts {
	if a.counts == nil {
		a.counts = make(map[string]*opCounts)
	}
	n := a.counts[kind]
	if n == nil {
		n = new(opCounts)
		a.counts[kind] = n
	}
	return n
}

// NoteOutcomes adds the number of activities that changed something.
func (k *Call) NoteOutcomes(outcomes []activity.Outcome) {
	if k.audit == nil {
		return
	}
	for _, o := range outcomes {
		if o == activity.Changed {
			k.audit.changed++
		}
	}
}

// NoteChanged sets the number of activities that the request changed.
func (k *Call) NoteChanged(n int) {
	if k.audit != nil {
		k.audit.changed = n
	}
}

// NoteReshape records a request that raises the number of pages.
func (k *Call) NoteReshape(pages int, force bool) {
	if k.audit != nil {
		k.audit.op, k.audit.pages, k.audit.force = "reshape", pages, force
	}
}

// AuditAttrs returns the attributes that the notes add to the audit line, with the hashes of ids.
// It returns none if the request is not audited.
func (k *Call) AuditAttrs(hash func(id string) string) []slog.Attr {
	a := k.audit
	if a == nil {
		return nil
	}
	attrs := make([]slog.Attr, 0, 8)
	for _, field := range []struct{ name, value string }{
		{"op", a.op}, {"kind", a.kind}, {"user", hash(a.user)}, {"target", hash(a.target)},
	} {
		if field.value != "" {
			attrs = append(attrs, slog.String(field.name, field.value))
		}
	}
	if a.pages > 0 {
		attrs = append(attrs, slog.Int("pages", a.pages))
	}
	if a.force {
		attrs = append(attrs, slog.Bool("force", true))
	}
	if a.counts != nil {
		counts := make([]any, 0, len(a.counts))
		for _, kind := range slices.Sorted(maps.Keys(a.counts)) {
			counts = append(counts, slog.Group(kind, slog.Int("add", a.counts[kind].add), slog.Int("remove", a.counts[kind].remove)))
		}
		attrs = append(attrs, slog.Group("counts", counts...))
	}
	return append(attrs, slog.Int("changed", a.changed))
}
