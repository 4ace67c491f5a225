package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

func checkDataDir(_ context.Context, d *doctor) finding { return judgeDirectory(d.DataDir) }

// judgeDirectory judges whether a directory is writable, or can be created with its parents.
func judgeDirectory(name string) finding {
	const todo = "Correct --data-dir or --ledger, or make the service's user the owner of the directory."
	const least = 1 << 20 // bytes of free space that a database needs to be opened and written
	name, err := filepath.Abs(name)
	if err != nil {
		return fail(words(err), todo)
	}
	info, err := os.Stat(name)
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	_, dangling := os.Lstat(name)
	switch parent := filepath.Dir(name); {
	case absent && dangling == nil:
		return fail(name+" is a broken symbolic link", todo)
	case absent && parent != name:
		f := judgeDirectory(parent)
		if f.status == OK {
			f.found = name + " does not exist yet and can be created"
		}
		return f
	case err != nil:
		return fail(words(err), todo)
	case !info.IsDir():
		return fail(name+" is not a directory", todo)
	}
	if err := access(name, mayWrite|mayEnter); err != nil {
		return fail(fmt.Sprintf("%s is not writable: %v", name, err), todo)
	}
	if free, err := freeSpace(name); err == nil && free < least {
		return fail(fmt.Sprintf("%s has %d KiB of free space, needs at least %d", name, free>>10, least>>10),
			"Free some space, or enlarge the disk.")
	}
	return okf("%s is writable", name)
}

// judgeFile judges whether a ledger's file, and the files beside it, are writable or can be
// created.
func judgeFile(name string) finding {
	for _, file := range []string{name, name + "-wal", name + ".lock"} {
		if err := access(file, mayWrite); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(fmt.Sprintf("%s is not writable: %v", file, err), "Make the service's user the owner of the file.")
		}
	}
	return judgeDirectory(filepath.Dir(name))
}

// checkLedger inspects the ledger, which neither creates nor migrates it.
func checkLedger(ctx context.Context, d *doctor) finding {
	i, err := ledger.Inspect(ctx, d.Ledger)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return d.fail("ledger", err)
	}
	if !d.facts["postgres"] {
		if f := judgeFile(i.Name); f.status == Fail {
			return f
		}
	}
	if absent {
		return warn("no ledger yet at "+i.Name, "Nothing before a first start: the service creates it, unless Redis has pages of another one. "+
			"Otherwise correct --ledger or --data-dir.")
	}
	d.ledger = &i
	return worst(judgeInspection(i), judgeSchema(i), judgePages(i, d.Pages), judgeDurability(i))
}

// judgeInspection judges the ledger's server or file, and whether the user may write to it.
func judgeInspection(i ledger.Inspection) finding {
	return judge(fmt.Sprintf("%s %s, %s", i.Engine, i.Version, i.Name),
		rule{i.Standby, Fail, ", a standby", "Name the primary in --ledger, or all servers: of several hosts, the service uses the primary."},
		rule{i.ReadOnly, Fail, ", read only", "Turn off default_transaction_read_only of the server, the database or the role."},
		rule{
			i.Denied, Fail, ", but the user may not change its tables",
			"Grant the user INSERT, UPDATE and DELETE on all tables of the schema, or make it their owner.",
		},
		rule{i.UsedBy != 0, OK, fmt.Sprintf(", in use by process %d", i.UsedBy), ""})
}

// judgeSchema compares the ledger's schema version with those that this program knows.
func judgeSchema(i ledger.Inspection) finding {
	return judge(fmt.Sprintf("schema version %d", i.Schema),
		rule{
			i.Schema > i.Known, Fail, fmt.Sprintf(", this program supports at most %d", i.Known),
			"Use the version of feedfilter that migrated the ledger, or a later one.",
		},
		rule{
			i.Schema < i.Known, Warn, fmt.Sprintf(", latest is %d", i.Known),
			"Nothing: the service migrates it when it starts. Older versions of feedfilter do not start on it afterwards.",
		})
}

// judgePages compares the ledger's number of pages with --pages; 0: not given. Ledgers of older
// versions do not report what they have now, or no number at all.
func judgePages(i ledger.Inspection, asked uint32) finding {
	made, has := i.Identity.Pages, i.Layouts
	now := cmp.Or(has.Building, has.Current, made)
	if made == 0 {
		return finding{}
	}
	found := fmt.Sprintf("%d pages", now)
	if now != made {
		found += fmt.Sprintf(", created with %d", made)
	}
	known := asked == 0 || has.Current == 0 || slices.Contains([]uint32{made, has.Current, has.Building, has.Leaving}, asked)
	return judge(found,
		rule{!known, Fail, fmt.Sprintf(", but --pages is %d", asked), fmt.Sprintf("Remove --pages, or give --pages %d.", now)})
}

// judgeDurability judges whether committed transactions survive a crash of the server. SQLite syncs
// each commit to disk.
func judgeDurability(i ledger.Inspection) finding {
	if i.Engine != "PostgreSQL" {
		return finding{}
	}
	return judge("",
		rule{!i.Fsync, Warn, "fsync is off", "Turn it on: a crash of the server's machine may lose or damage the whole ledger."},
		rule{!i.FullPageWrites, Warn, "full_page_writes is off", "Turn it on: a crash of the server's machine may damage the ledger."},
		rule{i.SynchronousCommit == "off", Warn, "synchronous_commit is off", "Turn it on: a crash of the server loses acknowledged blocks."},
		rule{true, OK, "fsync on, synchronous_commit " + i.SynchronousCommit, ""})
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
		if d.facts[noSession] || s.err != nil {
			continue
		}
		began := d.Now()
		if at, err := s.client.Time(ctx).Result(); err == nil { // or another check reports it
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
	most := slices.MaxFunc(all, func(a, b apart) int { return cmp.Compare(a.least(), b.least()) })
	if most.least() <= time.Second {
		return okf("within a second of every server")
	}
	side := "ahead of"
	if most.ahead < 0 {
		side = "behind"
	}
	return judge(fmt.Sprintf("this machine is %.1f s %s %s", most.ahead.Abs().Seconds(), side, most.whose),
		rule{
			most.least() > 5*time.Minute && d.facts["iam"], Fail, "",
			"Synchronize this machine's clock (NTP): AWS refuses signatures that are more than 5 minutes off.",
		},
		rule{d.facts["postgres"], OK, "; harmless, because the ledger's clock counts", ""},
		rule{true, Warn, "", "Synchronize this machine's clock (NTP): `until` and `seen` expire by it."})
}
