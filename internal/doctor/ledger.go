package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// ledgerName returns a ledger's URL without the parts that may hold a password.
func ledgerName(text string) string {
	if text == "" || strings.HasPrefix(text, "sqlite:") {
		return cmp.Or(text, "none")
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

func checkDataDir(_ context.Context, d *doctor) finding { return judgeDirectory(d.DataDir) }

// judgeDirectory judges whether a directory is writable, or can be created with its parents.
func judgeDirectory(name string) finding {
	const todo = "Correct --data-dir or --ledger, or make the service's user the owner of the directory."
	const least = 1 << 20 // bytes of free space that a database needs to be opened and written
	name, err := filepath.Abs(name)
	if err != nil {
		return fail(words(err), todo)
	}
	existing, err := nearest(name)
	if err != nil {
		return fail(words(err), todo)
	}
	if err := writableDirectory(existing); err != nil {
		found := fmt.Sprintf("%s is not writable: %v", existing, err)
		if existing != name {
			found = fmt.Sprintf("%s cannot be created: %s", name, found)
		}
		return fail(found, todo)
	}
	if free, err := freeSpace(existing); err == nil && free < least {
		return fail(fmt.Sprintf("%s has %d KiB of free space, needs at least %d", existing, free>>10, least>>10),
			"Free some space, or enlarge the disk.")
	}
	if existing != name {
		return okf("%s does not exist yet and can be created", name)
	}
	return okf("%s is writable", name)
}

// nearest returns name, or its nearest parent that exists. It fails if that is not a directory.
func nearest(name string) (string, error) {
	for {
		info, err := os.Stat(name)
		_, dangling := os.Lstat(name)
		parent := filepath.Dir(name)
		switch {
		case err == nil && info.IsDir():
			return name, nil
		case err == nil:
			return "", fmt.Errorf("%s is not a directory", name)
		case dangling == nil:
			return "", fmt.Errorf("%s is a broken symbolic link", name)
		case !errors.Is(err, fs.ErrNotExist) && !notDirectory(err) || parent == name:
			return "", err
		}
		name = parent
	}
}

// checkLedger inspects the ledger, which neither creates nor migrates it.
func checkLedger(ctx context.Context, d *doctor) finding {
	i, err := ledger.Inspect(ctx, d.Ledger)
	file := strings.HasPrefix(d.Ledger, "sqlite:")
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist) && file:
		return fail(words(err), "Check the file and its permissions, or correct --ledger or --data-dir.")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fail(words(err), "Check that the server runs, accepts connections from this machine, and has that database and user. "+
			"A first start needs CREATE on the database.")
	}
	if f := judgeFile(i.Name); file && f.status == Fail {
		return f
	}
	if err != nil {
		return warn("no ledger yet at "+i.Name, "Nothing before a first start: the service creates it, unless Redis has pages of another one. "+
			"Otherwise correct --ledger or --data-dir.")
	}
	d.ledger = &i
	return worse(judgeInspection(i), judgeSchema(i), judgePages(i, d.Pages), judgeDurability(i))
}

// judgeFile checks that a ledger's file, and the files beside it, are writable or can be created.
func judgeFile(name string) finding {
	if f := judgeDirectory(filepath.Dir(name)); f.status == Fail {
		return f
	}
	for _, file := range []string{name, name + "-wal", name + ".lock"} {
		if err := writable(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(fmt.Sprintf("%s is not writable: %v", file, err), "Make the service's user the owner of the file.")
		}
	}
	return okf("writable")
}

// judgeInspection judges the ledger's server or file, and whether the user may write to it.
func judgeInspection(i ledger.Inspection) finding {
	found := fmt.Sprintf("%s %s, %s", i.Engine, i.Version, i.Name)
	switch {
	case i.Standby:
		return fail(found+", a standby", "Name the primary in --ledger, or all servers: of several hosts, the service uses the primary.")
	case i.ReadOnly:
		return fail(found+", read only", "Turn off default_transaction_read_only of the server, the database or the role.")
	case i.Denied:
		return fail(found+", but the user may not change its tables",
			"Grant the user INSERT, UPDATE and DELETE on all tables of the schema, or make it their owner.")
	case i.UsedBy != 0:
		return okf("%s, in use by process %d", found, i.UsedBy)
	}
	return okf("%s", found)
}

// judgeSchema compares the ledger's schema version with those that this program knows.
func judgeSchema(i ledger.Inspection) finding {
	switch {
	case i.Schema > i.Known:
		return fail(fmt.Sprintf("schema version %d, this program supports at most %d", i.Schema, i.Known),
			"Use the version of feedfilter that migrated the ledger, or a later one.")
	case i.Schema < i.Known:
		return warn(fmt.Sprintf("schema version %d, latest is %d", i.Schema, i.Known),
			"Nothing: the service migrates it when it starts. Older versions of feedfilter do not start on it afterwards.")
	}
	return okf("schema version %d", i.Schema)
}

// judgePages compares the ledger's number of pages with --pages; 0: not given.
func judgePages(i ledger.Inspection, asked uint32) finding {
	made := i.Identity.Pages
	now := cmp.Or(i.Layouts.Building, i.Layouts.Current, made)
	switch {
	case made == 0:
		return okf("") // a ledger of that version does not report its pages
	case i.Layouts.Current == 0:
		return okf("created with %d pages", made) // it does not report the present number
	case asked != 0 && !slices.Contains([]uint32{made, i.Layouts.Current, i.Layouts.Building, i.Layouts.Leaving}, asked):
		return fail(fmt.Sprintf("created with %d pages, has %d, but --pages is %d", made, now, asked),
			fmt.Sprintf("Remove --pages, or give --pages %d.", now))
	case made != now:
		return okf("%d pages, created with %d", now, made)
	}
	return okf("%d pages", now)
}

// judgeDurability judges whether committed transactions survive a crash of the server.
func judgeDurability(i ledger.Inspection) finding {
	if i.Engine != "PostgreSQL" {
		return okf("") // each commit is synced to disk
	}
	for _, setting := range []struct {
		name string
		off  bool
		then string
	}{
		{"fsync", !i.Fsync, "a crash of the server's machine may lose or damage the whole ledger."},
		{"full_page_writes", !i.FullPageWrites, "a crash of the server's machine may damage the ledger."},
		{"synchronous_commit", i.SynchronousCommit == "off", "a crash of the server loses acknowledged blocks."},
	} {
		if setting.off {
			return warn(setting.name+" is off", "Turn it on: "+setting.then)
		}
	}
	return okf("fsync on, synchronous_commit %s", i.SynchronousCommit)
}

// apart is how far this machine's clock is ahead of another, and the error of that measurement.
type apart struct {
	whose         string
	ahead, within time.Duration
}

func (a apart) least() time.Duration { return max(0, a.ahead.Abs()-a.within) }

// checkClocks compares this machine's clock with those of the servers.
func checkClocks(ctx context.Context, d *doctor) finding {
	var all []apart
	for _, s := range d.nodes {
		began := d.Now()
		if at, err := s.client.Time(ctx).Result(); s.err == nil && err == nil { // or another check reports it
			half := d.Now().Sub(began) / 2
			all = append(all, apart{"Redis at " + s.addr, began.Add(half).Sub(at), half})
		}
	}
	if d.ledger != nil && !d.ledger.Clock.IsZero() {
		asked := d.Now().Add(-time.Since(d.ledger.Asked)) // this machine's time when the server was asked
		all = append(all, apart{"PostgreSQL", asked.Sub(d.ledger.Clock), 0})
	}
	return d.judgeClocks(all)
}

// judgeClocks judges the largest difference of clocks. `until` and windows use the clock of a
// ledger on PostgreSQL, or else this machine's.
func (d *doctor) judgeClocks(all []apart) finding {
	if len(all) == 0 {
		return skipf("no other clock to compare with")
	}
	worst := slices.MaxFunc(all, func(a, b apart) int { return cmp.Compare(a.least(), b.least()) })
	found := fmt.Sprintf("this machine is %.1f s ahead of %s", worst.ahead.Seconds(), worst.whose)
	if worst.ahead < 0 {
		found = fmt.Sprintf("this machine is %.1f s behind %s", -worst.ahead.Seconds(), worst.whose)
	}
	switch {
	case worst.least() > 5*time.Minute && d.facts["iam"]:
		return fail(found, "Synchronize this machine's clock (NTP): AWS refuses signatures that are more than 5 minutes off.")
	case worst.least() <= time.Second:
		return okf("within a second of every server")
	case d.facts["postgres"]:
		return okf("%s; harmless, because the ledger's clock counts", found)
	}
	return warn(found, "Synchronize this machine's clock (NTP): `until` and `seen` expire by it.")
}
