package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// ledgerName is a ledger's URL without what may hold a password.
func ledgerName(text string) string {
	if strings.HasPrefix(text, "sqlite:") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return "on PostgreSQL"
	}
	name := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		name.User = url.User(u.User.Username())
	}
	return name.String()
}

// checkLedger looks at the ledger, without opening it.
func (d *Doctor) checkLedger(ctx context.Context) finding {
	i, err := ledger.Inspect(ctx, d.config.Ledger)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		todo := "See that the server runs, takes connections of this machine, and has that user and database."
		if strings.HasPrefix(d.config.Ledger, "sqlite:") {
			todo = "See to the file and its permissions, or correct --ledger or --data-dir."
		}
		return fail(words(err), todo)
	}
	if f := d.judgeFile(i.Name); f.status == Fail {
		return f
	}
	if err != nil {
		return warn("none has been made yet at "+i.Name,
			"Nothing, if this is a first start: the service makes one. Otherwise correct --ledger or --data-dir.")
	}
	d.ledger = &i
	return worse(judgeInspection(i), judgeSchema(i), d.judgePages(i), judgeDurability(i))
}

// judgeFile sees whether a ledger in a file can be written to, or made: files are made beside it,
// too.
func (d *Doctor) judgeFile(name string) finding {
	if !strings.HasPrefix(d.config.Ledger, "sqlite:") {
		return okf("no file")
	}
	directory := filepath.Dir(name)
	if f := judgeDirectory(directory); f.status == Fail {
		f.todo = "Correct --ledger or --data-dir, or have the directory belong to the user that the service runs as."
		return f
	}
	for _, file := range []string{name, name + "-wal", name + ".lock"} {
		if err := writable(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(fmt.Sprintf("%s cannot be written to: %v", file, err),
				"Have the file belong to the user that the service runs as.")
		}
	}
	return okf("it can be written to")
}

// judgeInspection judges what the ledger's server or file is.
func judgeInspection(i ledger.Inspection) finding {
	found := fmt.Sprintf("%s %s, %s", i.Engine, i.Version, i.Name)
	switch {
	case i.Standby:
		return fail(found+", a standby", "Name the primary in --ledger, or all servers: of several hosts the primary is used.")
	case i.ReadOnly:
		return fail(found+", read only", "Let the user write: default_transaction_read_only is on, for the server, the database or the role.")
	case i.Denied:
		return fail(found+", whose tables the user may not change",
			"Grant the user INSERT, UPDATE and DELETE on all tables of the schema, or make it their owner.")
	case i.UsedBy != 0:
		return okf("%s, in use by process %d", found, i.UsedBy)
	}
	return okf("%s", found)
}

// judgeSchema compares the ledger's tables with those that this program knows.
func judgeSchema(i ledger.Inspection) finding {
	switch {
	case i.Schema > i.Known:
		return fail(fmt.Sprintf("schema version %d, and this program knows those up to %d", i.Schema, i.Known),
			"Use the version of feedfilter that made the ledger what it is, or a later one.")
	case i.Schema < i.Known:
		return warn(fmt.Sprintf("schema version %d, of %d", i.Schema, i.Known),
			"Nothing: the service brings it up to date when it starts. Versions of feedfilter from before do not start on it then.")
	}
	return okf("schema version %d", i.Schema)
}

// judgePages compares the number of pages with what is asked for.
func (d *Doctor) judgePages(i ledger.Inspection) finding {
	made, asked := i.Identity.Pages, d.config.Pages
	now := cmp.Or(i.Layouts.Building, i.Layouts.Current, made)
	switch {
	case made == 0:
		return okf("") // not told by a ledger of that version
	case i.Layouts.Current == 0:
		return okf("made with %d pages", made) // how many there are now is not told by a ledger of that version
	case asked != 0 && !slices.Contains([]uint32{made, i.Layouts.Current, i.Layouts.Building, i.Layouts.Leaving}, asked):
		return fail(fmt.Sprintf("made with %d pages, has %d, %d are asked for", made, now, asked),
			fmt.Sprintf("Leave out --pages, or give --pages %d.", now))
	case made != now:
		return okf("%d pages, made with %d", now, made)
	}
	return okf("%d pages", now)
}

// judgeDurability judges whether what a server has committed outlives its crash.
func judgeDurability(i ledger.Inspection) finding {
	if i.Engine != "PostgreSQL" {
		return okf("") // each commit is synced to disk
	}
	for _, setting := range []struct {
		name string
		off  bool
		then string
	}{
		{"fsync", !i.Fsync, "a crash of the server's machine may lose or damage everything."},
		{"full_page_writes", !i.FullPageWrites, "a crash of the server's machine may damage the ledger."},
		{"synchronous_commit", i.SynchronousCommit == "off", "a crash of the server loses blocks that were acknowledged."},
	} {
		if setting.off {
			return warn(setting.name+" is off", "Turn it on: "+setting.then)
		}
	}
	return okf("fsync on, synchronous_commit %s", i.SynchronousCommit)
}

// apart is how far this machine's clock is ahead of another, and how far that may be wrong.
type apart struct {
	whose         string
	ahead, within time.Duration
}

func (a apart) least() time.Duration { return max(0, a.ahead.Abs()-a.within) }

// checkClocks compares this machine's clock with those of the servers.
func (d *Doctor) checkClocks(ctx context.Context) finding {
	var all []apart
	if d.seed != nil {
		for _, n := range d.nodes {
			began := d.config.Now()
			at, err := n.client.Time(ctx).Result()
			if n.err != nil || err != nil {
				continue // it does not tell, or failed, which is another check's business
			}
			half := d.config.Now().Sub(began) / 2
			all = append(all, apart{"Redis at " + n.addr, began.Add(half).Sub(at), half})
		}
	}
	if d.ledger != nil && !d.ledger.Clock.IsZero() {
		// What time it was here when the server was asked.
		asked := d.config.Now().Add(-time.Since(d.ledger.Asked))
		all = append(all, apart{"PostgreSQL", asked.Sub(d.ledger.Clock), 0})
	}
	return d.judgeClocks(all)
}

// judgeClocks: a ledger on PostgreSQL gives the time that `until` and windows go by; without one,
// this machine does.
func (d *Doctor) judgeClocks(all []apart) finding {
	if len(all) == 0 {
		return skipf("there is no other clock to compare with")
	}
	worst := slices.MaxFunc(all, func(a, b apart) int { return cmp.Compare(a.least(), b.least()) })
	found := fmt.Sprintf("this machine is %.1f s ahead of %s", worst.ahead.Seconds(), worst.whose)
	if worst.ahead < 0 {
		found = fmt.Sprintf("this machine is %.1f s behind %s", -worst.ahead.Seconds(), worst.whose)
	}
	switch {
	case worst.least() > tokenSkew && d.servers.Managed != nil && d.servers.Managed.Config.User != "":
		return fail(found, "Set its clock (NTP): AWS refuses what is signed more than 5 minutes off.")
	case worst.least() <= clockSkew:
		return okf("within a second of every server")
	case strings.HasPrefix(d.config.Ledger, "postgres"):
		return okf("%s; times are the ledger's, so nothing depends on it", found)
	}
	return warn(found, "Set its clock (NTP): `until` and `seen` end by it.")
}

// tokenSkew is how far this machine's clock may be off for AWS to take what it signs.
const tokenSkew, clockSkew = 5 * time.Minute, time.Second
