package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// stoppedPause is how long a service waits before it follows again a source that somebody has to
// mend.
const stoppedPause = time.Minute

// maxResyncEvery is 30 days.
const maxResyncEvery = 30 * 24 * time.Hour

// maxNameOfPostgres is the length of a name in PostgreSQL, in bytes. It cuts longer ones.
const maxNameOfPostgres = 63

// sourceFlags say which database of an app to follow.
type sourceFlags struct {
	Source     string `help:"${source}" placeholder:"URL"`
	SourceName string `default:"app"    help:"${source_name}" placeholder:"NAME"`

	SourcePublication string `help:"${source_publication}" placeholder:"NAME"`

	OnError string `default:"skip" enum:"skip,stop" help:"${source_error}" placeholder:"WHAT"`

	ResyncEvery time.Duration `default:"24h" help:"${resync_every}" placeholder:"DURATION"`
}

// check returns the mistakes in the flags. tables is the file of tables, in the flag.
func (f *sourceFlags) check(data *dataFlags, flag, tables string) error {
	var all checks
	all.wantf(regexp.MustCompile(`^[a-z0-9_]{1,40}$`).MatchString(f.SourceName),
		"--source-name: %q is not 1 to 40 lower-case letters, digits and _", f.SourceName)
	all.wantf(!strings.HasSuffix(f.SourceName, "_resync"),
		"--source-name: %q ends in _resync, as the replication slot of a comparison does", f.SourceName)
	all.wantf(
		len(f.SourcePublication) <= maxNameOfPostgres,
		"--source-publication: longer than %d bytes", maxNameOfPostgres,
	)
	all.wantf(f.Source == "" || tables != "", "--source: requires --%s", flag)
	all.wantf(f.Source != "" || tables == "" || flag == "follow", "--%s: requires --source", flag)
	schemes := []string{"postgres", "postgresql"}
	all.wantf(f.Source == "" || slices.Contains(schemes, redisurl.Scheme(f.Source)),
		"--source: want postgres://<host>/<database>")
	all.wantf(f.ResyncEvery == 0 || f.ResyncEvery >= time.Minute && f.ResyncEvery <= maxResyncEvery,
		"--resync-every: %v is neither 0 nor in 1m to 720h", f.ResyncEvery)
	all.wantf(tables == "" || data.Ledger != noLedger, "--%s: requires a ledger", flag)
	if tables != "" {
		if kinds, err := data.kinds(); err == nil { // otherwise --kinds is refused
			_, err := readTables(tables, kinds)
			all.wantf(err == nil, "--%s: %w", flag, err)
		}
	}
	return all.err()
}

func readTables(file string, kinds *activity.Kinds) (follow.Tables, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	tables, err := follow.ParseTables(text, kinds)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return tables, nil
}

// options returns what a follower of the source, or a receiver of its events, needs.
func (f *sourceFlags) options(
	kinds *activity.Kinds, file string, log *slog.Logger, hashID func(id string) string,
) (o follow.Options, err error) {
	tables, err := readTables(file, kinds)
	host, _ := os.Hostname()
	return follow.Options{
		Name:        f.SourceName,
		URL:         f.Source,
		Publication: f.SourcePublication,
		Tables:      tables,
		Kinds:       kinds,
		Holder:      fmt.Sprintf("%s %d %s", host, os.Getpid(), rand.Text()[:8]),
		Skip:        f.OnError == "skip",
		ResyncEvery: f.ResyncEvery,
		Log:         log,
		HashID:      hashID,
	}, err
}

// looker returns a follower that can only look at the source.
func (f *sourceFlags) looker(
	kinds *activity.Kinds, file string, log *slog.Logger,
) (*follow.Follower, error) {
	o, err := f.options(kinds, file, log, nil)
	if err != nil {
		return nil, err
	}
	return follow.New(nil, o), nil
}

type followCmd struct {
	Data    dataFlags   `embed:""`
	Source  sourceFlags `embed:""`
	Tables  string      `help:"${follow}"         placeholder:"FILE"`
	Look    bool        `help:"${follow_check}"   name:"check"`
	Create  bool        `help:"${follow_create}"`
	Resync  bool        `help:"${follow_resync}"`
	Release string      `help:"${follow_release}" placeholder:"KIND"`

	Monitor monitorFlags `embed:""`

	IDKeyFile string `help:"${id_key_file}" placeholder:"FILE"`
}

// Check implements [settings.Checker].
func (c *followCmd) Check(context.Context) error {
	var all checks
	all.note(c.Data.checkFiles())
	if c.Release != "" {
		all.wantf(c.Tables == "" && !c.Look && !c.Create && !c.Resync, "--release: give it alone")
		return all.err()
	}
	all.wantf(c.Tables != "", "--tables: required")
	all.note(c.Source.check(&c.Data, "tables", c.Tables))
	return all.err()
}

// Run follows the source until ctx ends.
func (c *followCmd) Run(ctx context.Context, std stdio) (err error) {
	if c.Look {
		return c.report(ctx, std)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(60) // keeps a million rows of a transaction within 200 MiB
	}
	log := c.Data.logger(std)
	control, err := c.Monitor.open(ctx, &c.Data, log)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	d, err := c.openData(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	r, err := d.withLedger("to follow a source")
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if c.Release != "" {
		return c.release(ctx, r, std)
	}
	ids, warning, err := openIDs(c.IDKeyFile, c.Data.DataDir, false)
	if err != nil {
		return err
	}
	if warning != "" {
		log.WarnContext(ctx, "access", "warning", warning)
	}
	o, err := c.Source.options(r.Kinds(), c.Tables, log, ids.Hash)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	o.Create, o.Resync = c.Create, c.Resync
	f := follow.New(r, o)
	if control != nil {
		end, err := c.watch(ctx, control, d, r, f, log)
		if err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	return f.Run(ctx)
}

// watch serves metrics and health, and looks at the source, until end is called.
func (c *followCmd) watch(
	ctx context.Context, control *accessControl, d *data,
	r *activity.Recorder, f *follow.Follower, log *slog.Logger,
) (end func() error, err error) {
	sources := func() []follow.Status { return follow.Statuses(r, f) }
	halt, err := c.Monitor.serve(ctx, control, &c.Data, d, sources, log)
	if err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { f.Watch(watching) })
	return func() error {
		cancel()
		watch.Wait()
		return halt()
	}, nil
}

// openData opens the data of the service.
func (c *followCmd) openData(ctx context.Context, log *slog.Logger) (*data, error) {
	d, err := c.Data.open(ctx, log, nil)
	if errors.Is(err, ledger.ErrInUse) {
		err = fmt.Errorf("%w; or follow within the service: serve --follow", err)
	}
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	return d, nil
}

// release makes a kind ordinary, and says what else is to do.
func (c *followCmd) release(ctx context.Context, r *activity.Recorder, std stdio) error {
	kind := c.Release
	if k, ok := r.Kinds().Named(kind); ok { // the kind of a source may have left the file of kinds
		kind = k.Name
	}
	if err := r.Release(ctx, kind); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	name := "feedfilter_" + c.Source.SourceName
	std.note(kind + " is an ordinary kind now. If no kind of the source is followed, run on it: " +
		"SELECT pg_drop_replication_slot('" + name + "'); DROP PUBLICATION IF EXISTS " + name)
	return nil
}

// report prints what the source looks like, and the rows that are not valid.
func (c *followCmd) report(ctx context.Context, std stdio) error {
	kinds, err := c.Data.kinds()
	if err != nil {
		return err
	}
	f, err := c.Source.looker(kinds, c.Tables, c.Data.logger(std))
	if err != nil {
		return err
	}
	report, err := f.Check(ctx, true)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if err := report.Print(std.out); err != nil {
		return err
	}
	if n, rows := len(report.Problems), report.Invalid; n+rows > 0 {
		return fmt.Errorf(
			"follow: the source lacks %d things, and has %d rows that are not valid", n, rows,
		)
	}
	return nil
}

// makeFollower makes what follows a source in this process, if something does: a follower, or a
// receiver of events that come by HTTP. It returns what tells of all sources.
func (r *running) makeFollower() (
	events *follow.Receiver, sources func() []follow.Status, err error,
) {
	recorder := r.data.recorder
	if recorder == nil {
		return nil, nil, nil // without a ledger, nothing is followed
	}
	var local follow.Local
	if r.Follow != "" {
		o, err := r.Source.options(recorder.Kinds(), r.Follow, r.log, r.control.access.IDs.Hash)
		switch {
		case err != nil:
			return nil, nil, err
		case r.Source.Source == "":
			events = follow.NewReceiver(recorder, o)
			local = events
		default:
			r.follower = follow.New(recorder, o)
			local = r.follower
		}
	}
	return events, func() []follow.Status { return follow.Statuses(recorder, local) }, nil
}

// follow follows a source beside the service. A source that somebody has to mend is tried again now
// and then.
func (r *running) follow(ctx context.Context) {
	if r.follower == nil {
		return
	}
	ctx, end := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { r.follower.Watch(ctx) })
	following.Go(func() {
		for ctx.Err() == nil {
			if err := r.follower.Run(ctx); err != nil {
				r.log.ErrorContext(
					ctx, "stopped following the source",
					"error", err, "again_in", stoppedPause.String(),
					"effect", "feeds lack all that the app writes from now on, of all tables and users",
					"do", "correct what the error names, then run follow --resync: see docs/FOLLOW.md",
				)
			}
			select {
			case <-ctx.Done():
			case <-time.After(stoppedPause):
			}
		}
	})
	r.onClose(func() error {
		end()
		following.Wait()
		return nil
	})
}
