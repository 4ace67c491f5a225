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
	"strings"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

func (d *doctor) dataDir(context.Context) finding {
	if d.DataDir == "" {
		return finding{}
	}
	return judgeDirectory(d.DataDir)
}

// judgeDirectory judges whether a directory is writable, or can be created with its parents.
func judgeDirectory(name string) finding {
	const todo = "Correct --data-dir or --ledger, " +
		"or make the service's user the owner of the directory."
	const least = 1 << 20 // bytes of free space that a database needs to be opened and written
	name, err := filepath.Abs(name)
	if err != nil {
		return fail(words(err), todo)
	}
	found, there := name+" is writable", name // there is the nearest that exists
	info, err := os.Stat(there)
	for errors.Is(err, fs.ErrNotExist) && there != filepath.Dir(there) {
		found, there = name+" does not exist yet and can be created", filepath.Dir(there)
		info, err = os.Stat(there)
	}
	switch {
	case err != nil:
		return fail(words(err), todo)
	case !info.IsDir():
		return fail(there+" is not a directory", todo)
	}
	if err := access(there, mayWrite|mayEnter); err != nil {
		return fail(fmt.Sprintf("%s is not writable: %v", there, err), todo)
	}
	if free, err := freeSpace(there); err == nil && free < least {
		return fail(
			fmt.Sprintf("%s has %d KiB of free space, needs at least %d", there, free>>10, least>>10),
			"Free some space, or enlarge the disk.",
		)
	}
	return okf("%s", found)
}

// judgeFile judges whether a ledger's file, and the files beside it, are writable or can be
// created.
func judgeFile(name string) finding {
	for _, file := range []string{name, name + "-wal", name + ".lock"} {
		if err := access(file, mayWrite); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(
				fmt.Sprintf("%s is not writable: %v", file, err),
				"Make the service's user the owner of the file.",
			)
		}
	}
	return judgeDirectory(filepath.Dir(name))
}

// checkLedger inspects the ledger, which neither creates nor migrates it.
func (d *doctor) checkLedger(ctx context.Context) finding {
	if d.Ledger == "" {
		return skip("no ledger (--ledger none)")
	}
	i, err := ledger.Inspect(ctx, d.Ledger)
	absent := errors.Is(err, fs.ErrNotExist)
	postgres := strings.HasPrefix(d.Ledger, "postgres")
	switch {
	case err != nil && !absent && postgres:
		return fail(
			words(err),
			"Check that the server runs, accepts connections from this machine, "+
				"and has that database and user. A first start needs CREATE on the database.",
		)
	case err != nil && !absent:
		return fail(
			words(err),
			"Check the file and its permissions, or correct --ledger or --data-dir.",
		)
	case !postgres:
		if f := judgeFile(i.Name); f.status == Fail {
			return f
		}
	}
	if absent {
		return warn(
			"no ledger yet at "+i.Name,
			"Nothing before a first start: the service creates it, "+
				"unless Redis has pages of another one. Otherwise correct --ledger or --data-dir.",
		)
	}
	d.ledger = &i
	return d.judgeLedger(i)
}

// judgeLedger judges the server or file, the user's rights, the schema, the number of pages, and
// whether commits survive a crash of the server. SQLite syncs each commit to disk.
func (d *doctor) judgeLedger(i ledger.Inspection) finding {
	found := fmt.Sprintf("%s %s, %s; schema version %d", i.Engine, i.Version, i.Name, i.Schema)
	created, has := i.Identity.Pages, i.Layouts // an older schema does not report its layouts
	fitting := []uint32{0, created, has.Current, has.Building, has.Leaving}
	now := cmp.Or(has.Building, has.Current, created)
	if now != 0 {
		found += fmt.Sprintf("; %d pages", now)
	}
	const crash = "Turn it on: a crash of the server may lose or damage acknowledged blocks."
	switch {
	case i.Standby:
		return fail(
			found+", a standby",
			"Name the primary in --ledger, or all servers: "+
				"of several hosts, the service uses the primary.",
		)
	case i.ReadOnly:
		return fail(
			found+", read only",
			"Turn off default_transaction_read_only of the server, the database or the role.",
		)
	case i.Denied:
		return fail(
			found+", but the user may not change its tables",
			"Grant the user INSERT, UPDATE and DELETE on all tables of the schema, "+
				"or make it their owner.",
		)
	case i.Schema > i.Known:
		return fail(
			fmt.Sprintf("%s, this program supports at most %d", found, i.Known),
			"Use the version of feedfilter that migrated the ledger, or a later one.",
		)
	case i.Schema < i.Oldest:
		return fail(
			fmt.Sprintf("%s, this program supports at least %d", found, i.Oldest),
			"Start version 0.1.0 on it once, which migrates it.",
		)
	case has.Current != 0 && !slices.Contains(fitting, d.Pages):
		return fail(
			fmt.Sprintf("%s, but --pages is %d", found, d.Pages),
			fmt.Sprintf("Remove --pages, or give --pages %d.", now),
		)
	case i.Engine == "PostgreSQL" && !i.Fsync:
		return warn(found+"; fsync is off", crash)
	case i.Engine == "PostgreSQL" && !i.FullPageWrites:
		return warn(found+"; full_page_writes is off", crash)
	case i.SynchronousCommit == "off":
		return warn(found+"; synchronous_commit is off", crash)
	case i.Schema < i.Known:
		return warn(
			fmt.Sprintf("%s, latest is %d", found, i.Known),
			"Nothing: the service migrates it when it starts. "+
				"Older versions of feedfilter do not start on it afterwards.",
		)
	}
	return okf("%s", found)
}

// sources judges whether every source in the ledger is followed, and whether the service could
// follow its own.
func (d *doctor) sources(ctx context.Context) finding {
	var all []string
	status, todo := OK, ""
	if d.ledger != nil {
		for _, s := range d.ledger.Sources {
			by := s.Holder
			if !s.Until.After(d.ledger.Clock) {
				by, status = "nobody", Warn
				todo = "Start an instance that follows it, or release its kinds: " +
					"feedfilter follow --release KIND."
			}
			all = append(all, fmt.Sprintf("%s is followed by %s", s.Name, by))
		}
	}
	if d.Source == nil {
		return finding{status, strings.Join(all, "; "), todo}
	}
	report, err := d.Source(ctx)
	switch {
	case err != nil:
		return fail(
			words(err),
			"Check --source, and that the server runs and accepts connections from this machine.",
		)
	case len(report.Problems) > 0:
		return fail(
			report.Problems[0].What,
			"Run feedfilter follow --check: it prints all that is missing, as SQL.",
		)
	}
	all = append(all, fmt.Sprintf(
		"PostgreSQL %s at --source, replication slot %s", report.Server, report.Slot,
	))
	return finding{status, strings.Join(all, "; "), todo}
}

// pages reads some pages, as feeds do, and compares their ledger with that of --ledger.
func (d *doctor) pages(ctx context.Context) finding {
	const most, usual = 16, 16384
	if len(d.servers) == 0 {
		return finding{}
	}
	store, err := redisstore.New(d.client, d.Filter)
	if err != nil {
		return finding{} // the check "configuration" reports it
	}
	pages := cmp.Or(d.Pages, usual)
	if d.ledger != nil {
		pages = cmp.Or(d.ledger.Identity.Pages, pages)
	}
	ids := make([]favfilter.PageID, min(pages, most))
	for i := range ids {
		ids[i].Number = uint32(i) * (pages / uint32(len(ids)))
	}
	loaded, _, err := store.Load(ctx, ids)
	if err != nil {
		return d.fail(err)
	}
	exist, damaged, foreign := 0, 0, 0
	for _, l := range loaded {
		switch {
		case l.Damage != nil:
			damaged++
		case l.Page != nil:
			exist++
			if d.ledger != nil && l.Page.Header().Identity.Incarnation != d.ledger.Identity.Incarnation {
				foreign++
			}
		}
	}
	found := fmt.Sprintf(
		"%d pages read, %d exist, %d damaged, %d of another ledger", len(ids), exist, damaged, foreign,
	)
	switch {
	case exist+damaged == 0 && (d.ledger == nil || d.ledger.Empty):
		return okf("%d pages read, none exists yet: activities create them", len(ids))
	case damaged > 0:
		return warn(
			found,
			"A running service rebuilds them. "+
				"Make sure that nothing else writes keys that begin with fav:{"+d.Filter+"/.",
		)
	case foreign > 0:
		return warn(
			found,
			"A running service rebuilds them after a restore. "+
				"Otherwise correct --ledger, --redis or --filter.",
		)
	}
	return okf("%s", found)
}
