package integration

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

func join(all []string, between string) string { return strings.Join(all, between) }

// deletesAll deletes a user who has activities of every kind, and is the target of others. It looks
// for remains in every table, in every string in Redis and in every bit of the pages.
func deletesAll(d deployment) func(t *testing.T) {
	return func(t *testing.T) {
		c := d.serve(t, "deletion", "--pages", "16", "--false-positive-rate", "1e-6")
		const victim, bystander = "victim/é_%", "bystander"
		var lines []map[string]string
		add := func(user, kind, target string) { lines = append(lines, act(user, kind, target, "add")) }
		for i := range 60 {
			other := fmt.Sprint("other", i)
			add(victim, []string{"hide", "like", "report", "mark", "block", "seen"}[i%6], other)
			add(other, []string{"block", "feud", "mute"}[i%3], victim)
			add(other, "mute", bystander)
			add(bystander, "block", other)
			add(other, "hide", victim) // a post whose id equals the user's
			add(other, "like", "a post")
		}
		for i := range 3 {
			add(victim, "feud", fmt.Sprint("other", 3*i+2))
			add(victim, "mute", fmt.Sprint("other", 3*i))
		}
		add(bystander, "seen", "a post")
		if h := c.say(t, "POST", "/v1/activities", batch(t, lines...)); h.status != 200 || strings.Contains(h.body, "error") {
			t.Fatalf("%d %s", h.status, h.body)
		}
		gone, stay := 0, lines[:0:0]
		for _, l := range lines {
			switch isUser := slices.Contains([]string{"block", "feud", "mute"}, l["kind"]); {
			case l["user"] != victim && (l["target"] != victim || !isUser):
				stay = append(stay, l)
			case l["kind"] != "seen":
				gone++
			}
		}
		db := c.database(t)
		before := c.rows(t, db)
		isVictims := func(row []string) bool { return row[1] == victim || row[3] == victim && row[2] != "hide" }
		if traces := c.traces(t, db, victim); len(traces) < gone || !slices.ContainsFunc(before, isVictims) {
			t.Fatalf("%d rows to delete, want %d", len(traces), gone)
		}
		windows := c.windows(t)
		c.wants(t, "DELETE", path("users", victim), "", fmt.Sprintf(`{"deleted":%d}`, gone))
		for _, row := range c.traces(t, db, victim) {
			if !slices.Contains(row, "hide") || !strings.Contains(join(row, " "), "other") {
				t.Errorf("left: %q", row)
			}
		}
		after := c.rows(t, db)
		if want := slices.DeleteFunc(before, isVictims); !slices.EqualFunc(after, want, slices.Equal) {
			t.Errorf("the rows of others: %d, were %d, or are not the same", len(after), len(want))
		}
		c.sameBits(t, after)
		for i := range 60 {
			other := fmt.Sprint("other", i)
			c.sees(t, ask{Viewer: other, Posts: []post{by("p", victim)}}, "p", "")
			c.sees(t, ask{Viewer: victim, Posts: []post{by("p", other), by(other, "x")}}, "p "+other, "")
		}
		c.wants(t, "DELETE", path("users", victim), "", `{"deleted":0}`)
		c.wants(t, "DELETE", path("users", "nobody"), "", `{"deleted":0}`)
		if got := slices.Max(slices.Collect(valuesOf(c.counts(t, victim)))); got != 0 {
			t.Errorf("counts: %d", got)
		}
		if now := c.windows(t); len(now) != 1 || len(windows) > 0 && len(windows) != 2 {
			t.Errorf("windows before %v, after %v", windows, now)
		}
		c.sees(t, ask{Viewer: bystander, Posts: []post{by("a post", "x"), by("p", "other7")}}, "", "a post seen, p block other7")
		repeats := slices.DeleteFunc(stay, func(l map[string]string) bool { return l["kind"] == "seen" })
		c.wants(t, "POST", "/v1/activities", batch(t, repeats...), results(slices.Repeat([]string{unchanged}, len(repeats))...))
	}
}

func valuesOf(m map[string]int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// query returns the rows of a query as text, in order.
func query(t *testing.T, db *sql.DB, text string) (all [][]string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		at := make([]any, len(columns))
		for i := range values {
			at[i] = &values[i]
		}
		if err := rows.Scan(at...); err != nil {
			t.Fatal(err)
		}
		row := make([]string, len(columns))
		for i, v := range values {
			row[i] = v.String
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, slices.Compare)
	return all
}

// rows returns the rows of the ledger: hash, owner, kind, target, since, until and target_hash.
func (*contract) rows(t *testing.T, db *sql.DB) [][]string {
	t.Helper()
	return query(t, db, `SELECT hash, owner, kind, target, since, until, target_hash FROM entries`)
}

// traces returns the rows of all tables that contain the text.
func (c *contract) traces(t *testing.T, db *sql.DB, text string) (rows [][]string) {
	t.Helper()
	tables := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if c.postgres != nil {
		tables = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`
	}
	found := query(t, db, tables)
	if len(found) < 4 {
		t.Fatalf("tables %v", found)
	}
	for _, table := range found {
		for _, row := range query(t, db, `SELECT * FROM "`+table[0]+`"`) { //nolint:unqueryvet // any column may hold the text
			if strings.Contains(join(row, "\n"), text) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// windows returns one id for each user who has a window. The embedded service keeps windows in a
// file, so windows stops that service, reads the file and starts the service again.
func (c *contract) windows(t *testing.T) []string {
	t.Helper()
	users := make(map[string]bool)
	if c.redis != nil {
		for _, key := range c.keys(t) {
			if parts := strings.Split(key, ":"); len(parts) == 4 && strings.HasPrefix(parts[2], "seen.") {
				users[parts[2]] = true
			}
		}
		return sortedKeys(users)
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("stop: %v\n%s", err, c.log)
	}
	db, err := sql.Open("sqlite", filepath.Join(c.dir, "windows.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, row := range query(t, db, `SELECT part FROM pages`) {
		users[row[0]] = true
	}
	c.start()
	return sortedKeys(users)
}

func sortedKeys(m map[string]bool) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// keys returns the keys of the service's pages in Redis.
func (c *contract) keys(t *testing.T) (keys []string) {
	t.Helper()
	scan := c.redis.Client().Scan(t.Context(), 0, "fav:{"+c.filter+"/*", 1000).Iterator()
	for scan.Next(t.Context()) {
		keys = append(keys, scan.Val())
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// sameBits compares the bits of every page in Redis with a page made from the ledger's rows. It
// skips the embedded service, which keeps its pages in memory.
func (c *contract) sameBits(t *testing.T, rows [][]string) {
	t.Helper()
	if c.redis == nil {
		return
	}
	compared := 0
	for _, key := range c.keys(t) {
		if !strings.HasSuffix(key, "}:bits") {
			continue
		}
		raw, err := c.redis.Client().Get(t.Context(), key).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		image := imageOf(t, raw, rows)
		if got := raw[favfilter.HeaderBytes:]; !bytes.Equal(got, image.bits) {
			t.Errorf("%s: %d bits set, want the %d of the ledger's rows", key, setBits(got), setBits(image.bits))
		}
		compared += image.keys
	}
	if compared != len(rows) {
		t.Errorf("%d keys of %d rows compared", compared, len(rows))
	}
}

// image is a page made from rows of the ledger.
type image struct {
	bits []byte
	keys int
}

// imageOf makes a page with the geometry of a stored one, from those of the rows that belong to it.
func imageOf(t *testing.T, raw []byte, rows [][]string) image {
	t.Helper()
	stored := favfilter.Decode(favfilter.PageID{}, bytes.Clone(raw), nil)
	if stored.Damage != nil {
		t.Fatal(stored.Damage)
	}
	h := stored.Page.Header()
	page, err := favfilter.NewPage(h)
	if err != nil {
		t.Fatal(err)
	}
	escape := strings.NewReplacer("_", "%5F", "%", "%25")
	shift := 64 - bits.TrailingZeros32(h.Pages)
	for _, row := range rows {
		owner, kind, target := row[1], row[2], row[3]
		if favfilter.HashKey(h.Seed, owner).H1>>shift != uint64(h.Number) {
			continue
		}
		sort := "U"
		if slices.Contains([]string{"hide", "like", "report", "mark"}, kind) {
			sort = "P"
		}
		start := favfilter.HashStart(h.Seed, kind+":U"+escape.Replace(owner)+"_"+sort)
		page.Insert(start.With(favfilter.HashKey(h.Seed, target)))
	}
	encoded, _ := page.Encode()
	return image{encoded[favfilter.HeaderBytes:], int(page.Header().Count)}
}

func setBits(b []byte) (n int) {
	for _, x := range b {
		n += bits.OnesCount8(x)
	}
	return n
}

// heavyUser exports and deletes a user with 50,000 activities whom 2,000 others block. It logs the
// times.
func heavyUser(d deployment) func(t *testing.T) {
	return func(t *testing.T) {
		c := d.serve(t, "heavy", "--pages", "1024")
		const heavy, own, blockers = "heavy", 50_000, 2000
		took := func(what string, do func()) {
			start := time.Now()
			do()
			t.Logf("%s: %v", what, time.Since(start).Round(time.Millisecond))
		}
		took("recorded", func() {
			for from := 0; from < own; from += 10_000 {
				lines := make([]map[string]string, 10_000)
				for i := range lines {
					lines[i] = act(heavy, "hide", strconv.Itoa(from+i), "add")
				}
				if h := c.say(t, "POST", "/v1/activities", batch(t, lines...)); h.status != 200 {
					t.Fatalf("%d %s", h.status, h.body)
				}
			}
			lines := make([]map[string]string, blockers)
			for i := range lines {
				lines[i] = act(fmt.Sprint("b", i), "block", heavy, "add")
			}
			if h := c.say(t, "POST", "/v1/activities", batch(t, lines...)); h.status != 200 {
				t.Fatalf("%d %s", h.status, h.body)
			}
		})
		var export heard
		took("exported", func() { export = c.say(t, "GET", path("users", heavy, "export"), "") })
		exported := make(map[string]bool)
		for line := range strings.Lines(export.body) {
			var l contractLine
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.User != heavy || l.Kind != "hide" || l.Op != "add" || l.Since == "" {
				t.Fatalf("%q: %v", line, err)
			}
			exported[l.Target] = true
		}
		if export.status != 200 || len(exported) != own || strings.Count(export.body, "\n") != own || !exported["0"] || !exported[strconv.Itoa(own-1)] {
			t.Errorf("%d, %d lines, %d posts", export.status, strings.Count(export.body, "\n"), len(exported))
		}
		took("deleted", func() {
			c.wants(t, "DELETE", path("users", heavy), "", fmt.Sprintf(`{"deleted":%d}`, own+blockers))
		})
		db := c.database(t)
		if rows := c.rows(t, db); len(rows) > 0 {
			t.Errorf("%d rows left", len(rows))
		}
		c.sameBits(t, nil)
		c.sees(t, ask{Viewer: "b7", Posts: []post{by("1", heavy)}}, "1", "")
		c.wants(t, "GET", path("users", heavy, "export"), "", "")
		c.imports(t, export.body)
		if n := c.counts(t, heavy)["hide"]; n != own {
			t.Errorf("%d of %d imported", n, own)
		}
	}
}

// contractLine is a line of an export.
type contractLine struct {
	User   string `json:"user"`
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Op     string `json:"op"`
	Since  string `json:"since"`
	Until  string `json:"until"`
}

// imports stops the service, imports the export with the command, and starts the service again.
func (c *contract) imports(t *testing.T, export string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export.ndjson")
	if err := os.WriteFile(file, []byte(export), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kill()
	args := append(append([]string{"import"}, c.args...), file)
	if out, err := exec.CommandContext(t.Context(), command, args...).CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	c.start()
}
