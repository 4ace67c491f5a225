package importer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/importer"
)

// syncKinds returns two-way and one-way kinds, with and without fan-out, folds and a limit. fold is
// that of domains.
func syncKinds(t rapid.TB, fold activity.Fold) *activity.Kinds {
	t.Helper()
	kinds, err := activity.NewKinds(append(activity.BuiltinKinds().All(),
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop, Fold: fold},
		activity.Kind{Name: "tag-mute", Plural: "tag-mutes", Target: "tag", Effect: activity.Drop, Fold: activity.FoldCase, Fanout: true},
		activity.Kind{Name: "few", Plural: "few", Target: activity.User, Effect: activity.Drop, Limit: 3},
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Effect: activity.Drop, Fold: activity.FoldText, Fanout: true},
	)...)
	must(t, err)
	return kinds
}

// syncWorld is a ledger and a store, which stay when the processes that use them are killed.
type syncWorld struct {
	t      rapid.TB
	dir    string
	ledger *ledger.Ledger
	store  *favfilter.Memory
	kinds  *activity.Kinds
}

func newSyncWorld(t rapid.TB, dir string) *syncWorld {
	t.Helper()
	l, err := ledger.Open(context.Background(), "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{Pages: 4})
	must(t, err)
	return &syncWorld{t, dir, l, &favfilter.Memory{}, syncKinds(t, activity.FoldHost)}
}

func (w *syncWorld) open() *activity.Recorder {
	w.t.Helper()
	r, err := w.openWith(&faulttest.Faults{})
	must(w.t, err)
	return r
}

func (w *syncWorld) openWith(f *faulttest.Faults) (*activity.Recorder, error) {
	return activity.Open(context.Background(), activity.Config{
		Ledger: w.ledger.Around(f.Around), Store: faulttest.Store{Store: w.store, Faults: f}, Kinds: w.kinds,
		FalsePositiveRate: 1e-8, Passive: true,
	})
}

// record records "us block 2", or "us block 2 until <time>", "-us block 2" to undo it. Phrases have
// _ in place of spaces.
func (w *syncWorld) record(lines ...string) {
	w.t.Helper()
	r := w.open()
	defer r.Close()
	record(w.t, r, lines...)
}

func record(t rapid.TB, r *activity.Recorder, lines ...string) {
	t.Helper()
	for _, line := range lines {
		line, undo := strings.CutPrefix(line, "-")
		f := strings.Fields(line)
		a := activity.Activity{User: f[0], Kind: f[1], Target: strings.ReplaceAll(f[2], "_", " "), Remove: undo}
		if len(f) > 3 {
			var err error
			a.Until, err = time.Parse(time.RFC3339, f[4])
			must(t, err)
		}
		_, err := r.Record(context.Background(), []activity.Activity{a})
		must(t, err)
	}
}

// has returns the activities of the ledger in the form that record takes.
func (w *syncWorld) has() map[string]bool {
	w.t.Helper()
	r := w.open()
	defer r.Close()
	all := make(map[string]bool)
	must(w.t, r.Export(context.Background(), "", func(a activity.Activity) error {
		all[lineOf(a)] = true
		return nil
	}))
	return all
}

func lineOf(a activity.Activity) string {
	line := a.User + " " + a.Kind + " " + strings.ReplaceAll(a.Target, " ", "_")
	if !a.Until.IsZero() {
		line += " until " + a.Until.UTC().Format(time.RFC3339)
	}
	return line
}

func (w *syncWorld) wants(lines ...string) {
	w.t.Helper()
	want := make(map[string]bool)
	for _, line := range lines {
		want[line] = true
	}
	if got := w.has(); !maps.Equal(got, want) {
		w.t.Errorf("the ledger has %v, want %v", got, want)
	}
}

// syncOf is a sync of the user us. Zero values are those that a test does not care about.
type syncOf struct {
	kind, name, text string
	most             string
	batch            int
	service, json    bool
	now              func() time.Time // of the process that syncs
	faults           faulttest.Faults
	around           func(importer.Target) importer.Target
}

// run runs the sync in a process of its own, and returns it.
func (w *syncWorld) run(o *syncOf) (*importer.Sync, error) {
	w.t.Helper()
	file := filepath.Join(w.dir, o.name)
	writeFile(w.t, file, o.text)
	source, err := activityfile.Open(file, "", nil)
	must(w.t, err)
	defer source.Close()
	r, err := w.openWith(&o.faults)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &importer.Sync{
		Source: source, Kinds: w.kinds, Now: r.Now, Batch: max(o.batch, 1), Advance: func(int, int) {},
	}
	if o.now != nil {
		s.Now = o.now
	}
	must(w.t, s.Most.UnmarshalText([]byte(o.most)))
	s.List.User = "us"
	s.List.Kind, _ = s.Kinds.Named(o.kind)
	if o.service {
		server := httptest.NewServer(httpapi.New(httpapi.Config{Activities: r}))
		defer server.Close()
		c, err := client.New(server.URL, client.Options{JSON: o.json})
		must(w.t, err)
		kinds, err := c.Kinds(context.Background())
		must(w.t, err)
		to := &importer.ServiceTarget{Client: c, User: "us"}
		to.Kind = kinds[slices.IndexFunc(kinds, func(k client.Kind) bool { return k.Name == o.kind })]
		s.Kinds, err = to.Kinds()
		must(w.t, err)
		s.List.Kind, _ = s.Kinds.Named(o.kind)
		s.To = to
	} else if s.To, err = importer.NewLedgerTarget(r, s.List); err != nil {
		return s, err
	}
	if o.around != nil {
		s.To = o.around(s.To)
	}
	if err = s.Begin(context.Background()); err == nil {
		err = s.Run(context.Background())
	}
	return s, err
}

// does runs the sync, and checks what it has done.
func (w *syncWorld) does(o *syncOf, want importer.Synced) {
	w.t.Helper()
	s, err := w.run(o)
	must(w.t, err)
	if s.Done != want {
		w.t.Errorf("it has done %+v, want %+v", s.Done, want)
	}
}

// mortal is a target whose process is killed before or after a call. From then on it does nothing.
type mortal struct {
	importer.Target

	at    int // the call, from 1 on; 0: none
	after bool
	calls int
}

var errKilled = errors.New("killed")

func (m *mortal) live(call func() error) error {
	m.calls++
	if m.at > 0 && (m.calls > m.at || m.calls == m.at && !m.after) {
		return errKilled
	}
	err := call()
	if m.calls == m.at {
		return errKilled
	}
	return err
}

func (m *mortal) All(ctx context.Context, each func(target string, until time.Time) error) error {
	return m.live(func() error { return m.Target.All(ctx, each) })
}

func (m *mortal) Record(ctx context.Context, all []activity.Activity) (outcomes []activity.Outcome, err error) {
	err = m.live(func() (err error) {
		outcomes, err = m.Target.Record(ctx, all)
		return err
	})
	return outcomes, err
}

func (m *mortal) Finish(ctx context.Context) error {
	return m.live(func() error { return m.Target.Finish(ctx) })
}

// syncModel is what a sync should do, with plain maps.
type syncModel struct {
	kind   activity.Kind
	before map[string]string // ends by id; "": none
	file   map[string]string // the last one of each folded id, without what has ended
	text   string
	name   string
}

// drawSync draws what the user has, and a file.
func drawSync(rt *rapid.T, kinds *activity.Kinds) *syncModel {
	m := &syncModel{before: make(map[string]string), file: make(map[string]string)}
	m.kind, _ = kinds.Named(rapid.SampledFrom([]string{"block", "hide", "mute", "domain-mute", "tag-mute", "word-mute"}).Draw(rt, "kind"))
	ids := rapid.SampledFrom([]string{"a", "A", "b", "c.", "c", "https://d/", "d", "D:80", "é", "É", "f", "g", "h", "i", "j"})
	ends := rapid.SampledFrom([]string{"", "", "2900-01-01T00:00:00Z", "2901-01-01T00:00:00Z"})
	for range rapid.IntRange(0, 12).Draw(rt, "before") {
		m.before[m.kind.Fold.ID(ids.Draw(rt, "id"))] = ends.Draw(rt, "end")
	}
	m.name = rapid.SampledFrom([]string{"a.txt", "a.csv", "b.csv", "a.ndjson"}).Draw(rt, "name")
	if m.name == "b.csv" {
		m.text = "until,target\n"
	}
	for range rapid.IntRange(0, 12).Draw(rt, "file") {
		id, end := ids.Draw(rt, "id"), ""
		if m.name == "b.csv" || m.name == "a.ndjson" {
			end = rapid.OneOf(ends, rapid.Just("2001-01-01T00:00:00Z")).Draw(rt, "end")
		}
		switch m.name {
		case "b.csv":
			m.text += end + "," + id + "\n"
		case "a.ndjson":
			m.text += fmt.Sprintf(`{"target":%q,"until":%q}`, id, end) + "\n"
		default:
			m.text += id + "\n"
		}
		if end != "2001-01-01T00:00:00Z" {
			m.file[m.kind.Fold.ID(id)] = end
		}
	}
	return m
}

// lines returns activities of the user in the form that record takes.
func (m *syncModel) lines(of map[string]string) (lines []string) {
	for id, end := range of {
		line := "us " + m.kind.Name + " " + strings.ReplaceAll(id, " ", "_")
		if end != "" {
			line += " until " + end
		}
		lines = append(lines, line)
	}
	return lines
}

// counts returns what a sync that is allowed would do.
func (m *syncModel) counts() (c importer.Synced) {
	for id, end := range m.file {
		switch before, found := m.before[id]; {
		case !found:
			c.Added++
		case before != end:
			c.Updated++
		default:
			c.Unchanged++
		}
	}
	for id := range m.before {
		if _, found := m.file[id]; !found {
			c.Removed++
		}
	}
	return c
}

// TestSyncModel: whatever the user has, and whatever the file says, a sync either refuses and
// changes nothing, or makes the two equal. So does one after a sync that was killed anywhere, and
// that never makes the next one refuse. Nothing else is touched.
func TestSyncModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newSyncWorld(rt, t.TempDir())
		defer w.ledger.Close()
		m := drawSync(rt, w.kinds)
		others := []string{"them " + m.kind.Name + " z", "us like p", "them like p", "z few us"}
		w.record(append(m.lines(m.before), others...)...)
		o := &syncOf{
			kind: m.kind.Name, name: m.name, text: m.text, batch: rapid.IntRange(1, 5).Draw(rt, "batch"),
			service: rapid.Bool().Draw(rt, "service"),
		}
		counts := m.counts()
		percent := rapid.SampledFrom([]int{0, 10, 50, 100, 100, 100}).Draw(rt, "percent")
		allowed := percent == 100 || len(m.file) > 0 && counts.Removed*100 <= percent*len(m.before)
		o.most = fmt.Sprint(percent, "%")
		if number := rapid.IntRange(-5, 10).Draw(rt, "number"); number >= 0 {
			o.most, allowed = fmt.Sprint(number), len(m.file) > 0 && counts.Removed <= number
		}
		dying := &mortal{at: rapid.IntRange(0, 12).Draw(rt, "killed at"), after: rapid.Bool().Draw(rt, "after")}
		o.around = func(to importer.Target) importer.Target {
			dying.Target = to
			return dying
		}
		first, err := w.run(o)
		if errors.Is(err, errKilled) {
			o.around = nil
			first, err = w.run(o)
		} else if first.Done.Ended, first.Planned.Ended = 0, 0; allowed && (first.Done != counts || first.Planned != counts) {
			rt.Errorf("planned %+v and did %+v, want %+v", first.Planned, first.Done, counts)
		}
		want := m.before
		switch {
		case allowed && err != nil:
			rt.Fatalf("it fails: %v", err)
		case allowed:
			want = m.file
		case err == nil || !strings.Contains(err.Error(), "nothing was changed"):
			rt.Fatalf("it ends with %v, want it to refuse", err)
		case first.Done != importer.Synced{}:
			rt.Errorf("it refuses, and has done %+v", first.Done)
		}
		w.wants(append(m.lines(want), others...)...)
		w.wantsPages(m.kind, m.before, want)
	})
}

// wantsPages checks that pages report what the user should have, and nothing else that the user
// had.
func (w *syncWorld) wantsPages(k activity.Kind, had, has map[string]string) {
	w.t.Helper()
	r := w.open()
	defer r.Close()
	v, err := r.View(context.Background(), "us", []activity.Kind{k})
	must(w.t, err)
	all := maps.Clone(had)
	maps.Copy(all, has)
	for id := range all {
		_, want := has[id]
		if got := v.Check(0, id) != activity.None; got != want {
			w.t.Errorf("pages report %q: %t, want %t", id, got, want)
		}
	}
}

// TestSyncRefuses tries the share at its limit: one more is refused, before anything is written.
func TestSyncRefuses(t *testing.T) {
	var before []string
	for i := range 30 {
		before = append(before, fmt.Sprintf("us hide p%02d", i))
	}
	file := func(from int) string {
		text := "new\n"
		for i := from; i < 30; i++ {
			text += fmt.Sprintf("p%02d\n", i)
		}
		return text
	}
	const lacks = "the file lacks %d of the 30 activities of us, and --max-removed %s allows %d: " +
		"nothing was changed; if the file is right, give --max-removed %d"
	const empty = "the file has no activities, and us has 30: nothing was changed; if the file is right, give --max-removed 100%"
	for _, c := range []struct {
		most, text string
		want       string // "": it is allowed
	}{
		{"10%", file(3), ""},
		{"10%", file(4), fmt.Sprintf(lacks, 4, "10%", 3, 4)},
		{"4", file(4), ""},
		{"3", file(4), fmt.Sprintf(lacks, 4, "3", 3, 4)},
		{"0", file(0), ""},
		{"0%", file(1), fmt.Sprintf(lacks, 1, "0%", 0, 1)},
		{"99%", "new\n", fmt.Sprintf(lacks, 30, "99%", 29, 30)},
		{"30", "new\n", ""},
		{"30", "", empty},
		{"1000", "\n", empty},
		{"99%", "", empty},
		{"100%", "", ""},
		{"100%", "new\n", ""},
	} {
		w := newSyncWorld(t, t.TempDir())
		w.record(before...)
		s, err := w.run(&syncOf{kind: "hide", name: "a.txt", text: c.text, most: c.most, batch: 7})
		if c.want == "" {
			var want []string
			for id := range strings.FieldsSeq(c.text) {
				want = append(want, "us hide "+id)
			}
			must(t, err)
			w.wants(want...)
		} else {
			if err == nil || err.Error() != c.want {
				t.Errorf("%s of %q: it ends with %v, want %s", c.most, c.text, err, c.want)
			}
			if s.Done != (importer.Synced{}) {
				t.Errorf("%s of %q: it has done %+v", c.most, c.text, s.Done)
			}
			w.wants(before...)
		}
		must(t, w.ledger.Close())
	}
}

// An empty file is refused even if there is nothing to remove: a list that starts with a failed
// download would else look as if it were followed.
func TestSyncEmpty(t *testing.T) {
	w := newSyncWorld(t, t.TempDir())
	defer w.ledger.Close()
	const past = `{"target":"p","until":"2001-01-01T00:00:00Z"}`
	if _, err := w.run(&syncOf{kind: "hide", name: "a.ndjson", text: past, most: "10%"}); err == nil {
		t.Error("it is not refused")
	}
	w.does(&syncOf{kind: "hide", name: "a.ndjson", text: past, most: "100%"}, importer.Synced{Ended: 1})
}

// A file with one line that is not valid changes nothing, not even what its other lines say.
func TestSyncInvalid(t *testing.T) {
	w := newSyncWorld(t, t.TempDir())
	defer w.ledger.Close()
	w.record("us block 2")
	for _, text := range []string{"3\n4\nus\n", "3\n\"4\n", "3\n" + strings.Repeat("x", 257) + "\n"} {
		_, err := w.run(&syncOf{kind: "block", name: "a.csv", text: text, most: "100%"})
		if bad, ok := errors.AsType[*activityfile.LineError](err); !ok || bad.Line < 2 {
			t.Errorf("%.20q: it ends with %v", text, err)
		}
	}
	w.wants("us block 2")
}

// meanwhile does something before the first batch is recorded.
type meanwhile struct {
	importer.Target

	do func()
}

func (m *meanwhile) Record(ctx context.Context, all []activity.Activity) ([]activity.Outcome, error) {
	if m.do != nil {
		m.do()
		m.do = nil
	}
	return m.Target.Record(ctx, all)
}

// What others write while a sync runs stays, and the next sync makes it equal to the file.
func TestSyncBesideWriters(t *testing.T) {
	for _, service := range []bool{false, true} {
		w := newSyncWorld(t, t.TempDir())
		w.record("us block same", "us block lost", "us block gone")
		o := &syncOf{kind: "block", name: "a.txt", text: "same\nnew\nnewer\n", most: "100%", batch: 10, service: service}
		o.around = func(to importer.Target) importer.Target {
			return &meanwhile{to, func() { w.record("us block late", "us block new", "-us block same", "-us block gone") }}
		}
		w.does(o, importer.Synced{Added: 1, Removed: 1, Unchanged: 2})
		w.wants("us block new", "us block newer", "us block late")
		o.around = nil
		w.does(o, importer.Synced{Added: 1, Removed: 1, Unchanged: 2})
		w.wants("us block new", "us block newer", "us block same")
		must(t, w.ledger.Close())
	}
}

// What is removed makes room for what is added. What does not fit is counted.
func TestSyncLimit(t *testing.T) {
	for _, service := range []bool{false, true} {
		w := newSyncWorld(t, t.TempDir())
		w.record("us few a", "us few b", "us few c")
		o := &syncOf{kind: "few", name: "a.txt", text: "c\nd\ne\n", most: "2", batch: 100, service: service}
		w.does(o, importer.Synced{Added: 2, Removed: 2, Unchanged: 1})
		w.wants("us few c", "us few d", "us few e")
		o.text = "c\nd\ne\nf\ng\n"
		w.does(o, importer.Synced{Unchanged: 3, OverLimit: 2})
		must(t, w.ledger.Close())
	}
}

// An activity that ends while it is recorded is counted, and is not there.
func TestSyncEndedMeanwhile(t *testing.T) {
	for _, service := range []bool{false, true} {
		w := newSyncWorld(t, t.TempDir())
		o := &syncOf{
			kind: "hide", name: "a.ndjson", text: `{"target":"p","until":"2020-01-01T00:00:00Z"}` + "\n" + `{"target":"q"}`, most: "10%", batch: 9,
			service: service, now: func() time.Time { return time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC) },
		}
		w.does(o, importer.Synced{Added: 1, Ended: 1})
		w.wants("us hide q")
		must(t, w.ledger.Close())
	}
}

// TestSyncAfterAnotherFold: what the other form of the fold has recorded is undone, too. It does
// not stand for an id of the file: feeds would not find it by that id. What is recorded from before
// the facet had a fold can neither be found nor undone.
func TestSyncAfterAnotherFold(t *testing.T) {
	for _, service := range []bool{false, true} {
		w := newSyncWorld(t, t.TempDir())
		w.kinds = syncKinds(t, activity.AsIs)
		w.record("us domain-mute Old")
		w.kinds = syncKinds(t, activity.FoldDomain)
		w.record("us domain-mute https://x", "us domain-mute https://y", "us domain-mute z")
		w.kinds = syncKinds(t, activity.FoldHost)
		w.record("us domain-mute y")
		o := &syncOf{kind: "domain-mute", name: "a.txt", text: "x\ny\n", most: "1", batch: 9, service: service}
		w.does(o, importer.Synced{Added: 1, Removed: 1, Unchanged: 1})
		w.wants("us domain-mute Old", "us domain-mute https://x", "us domain-mute x", "us domain-mute https://y", "us domain-mute y")
		o.text, o.most = "x\n", "2"
		_, err := w.run(o)
		must(t, err)
		w.wants("us domain-mute Old", "us domain-mute https://x", "us domain-mute x")
		must(t, w.ledger.Close())
	}
}

// A file has phrases as people type them, and the list their canonical form. Lines with one form
// are one phrase, of which the last line counts. A hashtag is no comment.
func TestSyncPhrases(t *testing.T) {
	for _, service := range []bool{false, true} {
		w := newSyncWorld(t, t.TempDir())
		w.record("us word-mute climate_change", "us word-mute old", "us word-mute spoilers")
		o := &syncOf{
			kind: "word-mute", name: "a.txt", most: "1", batch: 2, service: service,
			text: "# What bores us\n#\n  Climate Change \nCLIMATE—change\n#Go\nSpoilers!\n選挙\n🍕\nd'accord\n",
		}
		want := []string{
			"us word-mute climate_change", "us word-mute spoilers", "us word-mute #go",
			"us word-mute 選挙", "us word-mute 🍕", "us word-mute d_accord",
		}
		w.does(o, importer.Synced{Added: 4, Removed: 1, Unchanged: 2})
		w.wants(want...)
		w.does(o, importer.Synced{Unchanged: 6})

		o.name, o.text = "a.csv", "target,until\nClimate change,2900-01-01T00:00:00Z\n\"climate, change\",\n#GO,2900-01-01T00:00:00Z\nGone,2001-01-01T00:00:00Z\n"
		o.most = "4"
		w.does(o, importer.Synced{Updated: 1, Unchanged: 1, Removed: 4, Ended: 1})
		w.wants("us word-mute climate_change", "us word-mute #go until 2900-01-01T00:00:00Z")

		o.name, o.text = "a.ndjson", `{"target":"#go"}`+"\n"+`{"user":"us","kind":"word-mutes","target":"Climate\u00a0change","op":"add"}`+"\n"
		w.does(o, importer.Synced{Updated: 1, Unchanged: 1})
		w.wants("us word-mute climate_change", "us word-mute #go")
		must(t, w.ledger.Close())
	}
}

// A line that is no phrase is refused, with its number. Nothing changes.
func TestSyncInvalidPhrases(t *testing.T) {
	w := newSyncWorld(t, t.TempDir())
	defer w.ledger.Close()
	w.record("us word-mute climate_change")
	for _, service := range []bool{false, true} {
		for line, why := range map[string]string{
			"!?":          "not a phrase: no word in it",
			"a b c d e f": "not a phrase: 6 words, at most 5",
			"##":          "not a phrase: no word in it",
		} {
			for name, text := range map[string]string{"a.txt": "new\n\n%s\n", "a.csv": "target\nnew\n%s\n", "a.ndjson": "{\"target\":\"new\"}\n\n{\"target\":%q}\n"} {
				_, err := w.run(&syncOf{
					kind: "word-mute", name: name, text: fmt.Sprintf(text, line), most: "100%", service: service,
				})
				if bad, ok := errors.AsType[*activityfile.LineError](err); !ok || bad.Line != 3 || bad.Err.Error() != "target: "+why {
					t.Errorf("%s: %q: it ends with %v", name, line, err)
				}
			}
		}
	}
	w.wants("us word-mute climate_change")
}

// longer lists more than the service has.
type longer struct {
	importer.Target

	more []string
}

func (l *longer) All(ctx context.Context, each func(target string, until time.Time) error) error {
	for _, target := range l.more {
		if err := each(target, time.Time{}); err != nil {
			return err
		}
	}
	return l.Target.All(ctx, each)
}

// A service of a later version may list phrases that this one takes for none. They stay.
func TestSyncPhrasesOfLaterVersion(t *testing.T) {
	w := newSyncWorld(t, t.TempDir())
	defer w.ledger.Close()
	w.record("us word-mute climate", "us word-mute go")
	o := &syncOf{kind: "word-mute", name: "a.txt", text: "climate\n", most: "1", batch: 9, service: true}
	o.around = func(to importer.Target) importer.Target { return &longer{to, []string{"!?", "a b c d e f", "Climate"}} }
	w.does(o, importer.Synced{Removed: 1, Unchanged: 1})
	w.wants("us word-mute climate")
}

// A kind that a source writes is refused, also if there is nothing to write.
func TestSyncFollowed(t *testing.T) {
	w := newSyncWorld(t, t.TempDir())
	defer w.ledger.Close()
	w.record("us block 2")
	r := w.open()
	_, err := r.Follow(t.Context(), "app", "one", []string{"block"}, time.Hour, false)
	must(t, err)
	r.Close()
	for _, text := range []string{"2\n", "3\n"} {
		_, err := w.run(&syncOf{kind: "block", name: "a.txt", text: text, most: "100%"})
		if err == nil || err.Error() != `block is followed: source "app" alone writes it` {
			t.Errorf("it ends with %v", err)
		}
	}
	_, err = w.run(&syncOf{kind: "block", name: "a.txt", text: "3\n", most: "100%", service: true})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "followed" {
		t.Errorf("through the service, it ends with %v", err)
	}
	w.wants("us block 2")
}

// A list that is longer than a part of a listing is read whole.
func TestSyncLong(t *testing.T) {
	for _, service := range []bool{false, true} {
		w := newSyncWorld(t, t.TempDir())
		const n = 2*activity.MaxListed + 500
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "p%d\n", i)
		}
		o := &syncOf{kind: "hide", name: "a.csv", text: text.String(), most: "0", batch: importer.ServiceBatch, service: service}
		for _, want := range []importer.Synced{{Added: n}, {Unchanged: n}} {
			w.does(o, want)
		}
		o.text, o.most = "p1\n", "100%"
		w.does(o, importer.Synced{Removed: n - 1, Unchanged: 1})
		w.wants("us hide p1")
		must(t, w.ledger.Close())
	}
}

// The longest ids, made of quotes only, fit into requests.
func TestSyncLongestIDs(t *testing.T) {
	const n = 2050 // more than fit into one request
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"target":"%04d%s","since":"2020-01-01T00:00:00.123456Z","until":"2900-01-01T00:00:00.123456Z"}`+"\n",
			i, strings.Repeat(`\"`, activity.MaxIDBytes-4))
	}
	for _, json := range []bool{false, true} {
		w := newSyncWorld(t, t.TempDir())
		w.does(&syncOf{
			kind: "hide", name: "a.ndjson", text: text.String(), most: "0", batch: importer.ServiceBatch, service: true, json: json,
		}, importer.Synced{Added: n})
		must(t, w.ledger.Close())
	}
}

// Each call of the ledger and the store fails once, before or after it takes effect. Run again, the
// sync gives the same result.
func TestLongSyncFaultAtEveryStep(t *testing.T) {
	before := []string{"us block 1", "us block 2", "us block 3", "them block 1"}
	for _, after := range []bool{false, true} {
		for at := range faulttest.EachCall() {
			w := newSyncWorld(t, t.TempDir())
			w.record(before...)
			o := &syncOf{kind: "block", name: "a.txt", text: "3\n4\n5\n6\n", most: "2", batch: 2}
			o.faults.At, o.faults.After = at, after
			_, err := w.run(o)
			hit := o.faults.Calls() >= at
			if err != nil && !errors.Is(err, faulttest.ErrInjected) {
				t.Fatalf("fault at call %d: %v", at, err)
			}
			o.faults.At = 0
			_, err = w.run(o)
			must(t, err)
			w.wants("us block 3", "us block 4", "us block 5", "us block 6", "them block 1")
			block, _ := w.kinds.Named("block")
			w.wantsPages(block, map[string]string{"1": "", "2": ""}, map[string]string{"3": "", "4": "", "5": "", "6": ""})
			if t.Failed() {
				t.Fatalf("fault at call %d", at)
			}
			must(t, w.ledger.Close())
			if !hit {
				t.Logf("after %v: %d calls", after, at-1)
				break
			}
		}
	}
}
