package doctor

import (
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
	if err != nil {
		d.ledgerErr = err
		if f := d.judgeFile(i.Name); errors.Is(err, fs.ErrNotExist) && f.status == Fail {
			return f
		}
		if errors.Is(err, fs.ErrNotExist) {
			return warn("none has been made yet at "+i.Name,
				"Nothing, if this is a first start: the service makes one. Otherwise correct --ledger or --data-dir.")
		}
		todo := "See that the server runs, takes connections of this machine, and has that user and database."
		if strings.HasPrefix(d.config.Ledger, "sqlite:") {
			todo = "See to the file and its permissions, or correct --ledger or --data-dir."
		}
		return fail(words(err), todo)
	}
	d.ledger = &i
	if f := d.judgeFile(i.Name); f.status == Fail {
		return f
	}
	return judgeInspection(i)
}

// judgeFile sees whether a ledger in a file can be written to, or made: files are made beside it, too.
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

// checkSchema compares the ledger's tables with those that this program knows.
func (d *Doctor) checkSchema(context.Context) finding {
	switch i := d.ledger; {
	case i == nil:
		return d.noLedger()
	case i.Schema > i.Known:
		return fail(fmt.Sprintf("version %d, and this program knows those up to %d", i.Schema, i.Known),
			"Use the version of feedfilter that made the ledger what it is, or a later one.")
	case i.Schema < i.Known:
		return warn(fmt.Sprintf("version %d, of %d", i.Schema, i.Known),
			"Nothing: the service brings it up to date when it starts. Versions of feedfilter from before do not start on it then.")
	default:
		return okf("version %d, the latest that this program knows", i.Schema)
	}
}

// noLedger is the finding of what depends on a ledger that could not be looked at.
func (d *Doctor) noLedger() finding {
	if errors.Is(d.ledgerErr, fs.ErrNotExist) {
		return skipf("there is no ledger yet")
	}
	return skipf("the ledger cannot be read")
}

// checkPageCount compares the number of pages with what is asked for.
func (d *Doctor) checkPageCount(context.Context) finding {
	if d.ledger == nil {
		return d.noLedger()
	}
	made, cut, asked := d.ledger.Identity.Pages, d.ledger.Cut, d.config.Pages
	switch {
	case made == 0:
		return skipf("not told by a ledger of that version")
	case cut != 0 && cut != made:
		if asked != 0 && asked != made && asked != cut {
			return fail(fmt.Sprintf("made with %d, reshaped to %d, %d are asked for", made, cut, asked),
				fmt.Sprintf("Leave out --pages, or give --pages %d.", cut))
		}
		return okf("%d, made with %d", cut, made)
	case asked != 0 && asked != made:
		return fail(fmt.Sprintf("made with %d, %d are asked for", made, asked), fmt.Sprintf("Leave out --pages, or give --pages %d.", made))
	}
	return okf("%d", made)
}

// checkDurability sees whether what a server has committed outlives its crash.
func (d *Doctor) checkDurability(context.Context) finding {
	if d.ledger == nil {
		return d.noLedger()
	}
	return judgeDurability(*d.ledger)
}

func judgeDurability(i ledger.Inspection) finding {
	if i.Engine != "PostgreSQL" {
		return okf("each commit is synced to disk")
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

// apart is how far this machine's clock is ahead of another, with how far the difference may be wrong.
type apart struct {
	whose         string
	ahead, within time.Duration
}

func (a apart) least() time.Duration { return max(0, a.ahead.Abs()-a.within) }

func (a apart) String() string {
	word := "ahead of"
	if a.ahead < 0 {
		word = "behind"
	}
	return fmt.Sprintf("%.1f s %s %s", a.ahead.Abs().Seconds(), word, a.whose)
}

// checkClocks compares this machine's clock with those of the servers.
func (d *Doctor) checkClocks(ctx context.Context) finding {
	var all []apart
	if d.seed != nil {
		for _, n := range d.nodes {
			if n.err != nil {
				continue
			}
			began := d.config.Now()
			at, err := n.client.Time(ctx).Result()
			if err != nil {
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

// judgeClocks: by which clock `until` and windows go depends on the ledger. One on PostgreSQL gives the time.
func (d *Doctor) judgeClocks(all []apart) finding {
	if len(all) == 0 {
		return skipf("there is no other clock to compare with")
	}
	worst := all[0]
	var others []string
	for _, a := range all {
		if kind, _, _ := strings.Cut(a.whose, " "); !slices.Contains(others, kind) {
			others = append(others, kind)
		}
		if a.least() > worst.least() {
			worst = a
		}
	}
	iam := d.servers.Managed != nil && d.servers.Managed.Config.User != ""
	shared := strings.HasPrefix(d.config.Ledger, "postgres")
	switch least := worst.least(); {
	case least > tokenSkew && iam:
		return fail("this machine is "+worst.String(), "Set its clock (NTP): AWS refuses what is signed more than 5 minutes off.")
	case least <= clockSkew:
		return okf("within a second of %s", strings.Join(others, " and "))
	case shared:
		return okf("this machine is %s; times are the ledger's, so nothing depends on it", worst)
	}
	return warn("this machine is "+worst.String(), "Set its clock (NTP): `until` and `seen` end by it.")
}
