package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/importer"
)

// defaultMaxRemoved is the default of --max-removed.
const defaultMaxRemoved = "10%"

// syncFlags are the flags of an import that makes what a user has of a kind equal to the file.
type syncFlags struct {
	Sync       bool           `help:"${sync}"`
	User       string         `help:"${sync_user}"   placeholder:"ID"`
	Kind       string         `help:"${sync_kind}"   placeholder:"KIND"`
	MaxRemoved importer.Share `default:"10%"         help:"${max_removed}" placeholder:"SHARE"`
	DryRun     bool           `help:"${dry_run}"`
	Server     string         `help:"${sync_server}" placeholder:"URL"`
	Client     clientFlags    `embed:""`
}

// service returns the flags of the service that does the work, if one does.
func (f *syncFlags) service() *serviceFlags {
	return &serviceFlags{Server: f.Server, Client: f.Client}
}

// checkSync returns the mistakes in the flags of a sync, or in their use without one.
func (c *importCmd) checkSync(ctx context.Context) error {
	var all checks
	f := &c.Sync
	if !f.Sync {
		all.wantf(f.User == "", "--user: requires --sync")
		all.wantf(f.Kind == "", "--kind: requires --sync")
		all.wantf(f.MaxRemoved.String() == defaultMaxRemoved, "--max-removed: requires --sync")
		all.wantf(!f.DryRun, "--dry-run: requires --sync")
		all.wantf(f.Server == "", "--server: requires --sync: other imports write to the ledger "+
			"themselves")
		return all.err()
	}
	all.note(f.service().Check(ctx))
	all.note(activity.CheckID(f.User, "--user"))
	all.wantf(c.OnError == "stop", "--on-error: a sync does not skip lines, "+
		"because it would remove their activities")
	all.wantf(!c.Restart, "--restart: a sync always reads the whole file")
	kinds, err := c.Data.kinds()
	switch {
	case f.Kind == "":
		all.note(errors.New("--kind: required with --sync"))
	case err == nil && f.Server == "":
		k, ok := kinds.Named(f.Kind)
		all.wantf(ok, "--kind: unknown kind %q", f.Kind)
		all.wantf(!ok || k.InLedger(), "--kind: %s has a window, and cannot be listed", k.Name)
		all.wantf(c.Data.Ledger != noLedger, "--ledger: required to list what the user has")
	}
	return all.err()
}

// sync makes what the user has equal to the file. around wraps what it changes.
func (c *importCmd) sync(
	ctx context.Context, std stdio, around func(importer.Target) importer.Target,
) (err error) {
	source, err := activityfile.Open(c.File, c.Format, std.in)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer source.Close()
	s := &importer.Sync{Source: source, Most: c.Sync.MaxRemoved}
	s.List.User = c.Sync.User
	end, err := c.useTarget(ctx, s, std)
	if err == nil {
		s.To = around(s.To)
		err = errors.Join(c.bringAbout(ctx, s, std), end())
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", source.Name, err)
	}
	return nil
}

// useTarget sets what the sync changes: through a service, or in a ledger that it opens. end closes
// what it has opened.
func (c *importCmd) useTarget(
	ctx context.Context, s *importer.Sync, std stdio,
) (end func() error, err error) {
	if c.Sync.Server != "" {
		return c.useService(ctx, s)
	}
	d, err := c.openToSync(ctx, std)
	if err != nil {
		return nil, err
	}
	s.Kinds, s.Now = d.activities.Kinds(), d.recorder.Now
	// The rows of one user are side by side, so larger batches gain nothing.
	s.Batch = min(cmp.Or(c.Batch, sharedBatch), sharedBatch)
	s.List.Kind, _ = s.Kinds.Named(c.Sync.Kind) // as checkSync has found
	if s.To, err = importer.NewLedgerTarget(d.recorder, s.List); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d.close, nil
}

func (c *importCmd) useService(
	ctx context.Context, s *importer.Sync,
) (end func() error, err error) {
	flags := setsFlags{Kind: c.Sync.Kind, Service: *c.Sync.service()}
	service, err := flags.service(ctx)
	if err != nil {
		return nil, err
	}
	to := &importer.ServiceTarget{Client: service.Client, User: c.Sync.User, Kind: service.Kind}
	if s.Kinds, err = to.Kinds(); err != nil {
		return nil, err
	}
	s.List.Kind, _ = s.Kinds.Named(service.Kind.Name)
	s.To, s.Now = to, time.Now
	s.Batch = min(cmp.Or(c.Batch, importer.ServiceBatch), importer.ServiceBatch)
	return func() error {
		service.Client.Close()
		return nil
	}, nil
}

// openToSync opens the data. A dry run does not change it.
func (c *importCmd) openToSync(ctx context.Context, std stdio) (*data, error) {
	if c.Sync.DryRun {
		if err := c.Data.checkThere(ctx); err != nil {
			return nil, err
		}
		c.Data.passive = true
	}
	d, err := c.Data.open(ctx, c.Data.logger(std), nil)
	switch {
	case errors.Is(err, ledger.ErrInUse):
		return nil, fmt.Errorf("%w, or use it with --server", err)
	case err != nil:
		return nil, err
	case c.Sync.DryRun:
		return d, nil
	}
	if err := d.pingRedis(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("nothing was changed: %w", err), d.close())
	}
	return d, nil
}

// bringAbout reads the file and what the user has. Then it changes that, or prints the changes.
func (c *importCmd) bringAbout(ctx context.Context, s *importer.Sync, std stdio) error {
	start := time.Now()
	if err := s.Begin(ctx); err != nil {
		return fmt.Errorf("%w; nothing was changed", causeOr(ctx, err))
	}
	if n := s.Planned.Ended; n > 0 {
		std.note(fmt.Sprintf("%d lines have an until in the past, and do not count", n))
	}
	if c.Sync.DryRun {
		return errors.Join(c.printPlan(s, std), s.Check())
	}
	if err := s.Check(); err != nil {
		return err
	}
	s.Advance = newProgress(std, "changes").show
	if err := s.Run(ctx); err != nil {
		d := s.Done
		return fmt.Errorf("%w; added %d, updated %d and removed %d: run the same command again",
			causeOr(ctx, err), d.Added, d.Updated, d.Removed)
	}
	err := c.printDone(s.Done, time.Since(start), std)
	if n := s.Done.OverLimit; n > 0 {
		err = errors.Join(err, fmt.Errorf(
			"%d activities were not recorded: %s has reached the limit of the kind %s",
			n, s.List.User, s.List.Kind.Name,
		))
	}
	return err
}

func (c *importCmd) printDone(done importer.Synced, took time.Duration, std stdio) error {
	result := struct {
		importer.Synced

		Seconds float64 `json:"seconds"`
	}{done, took.Seconds()}
	return c.Result.write(std, result, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "added %d, updated %d, removed %d, unchanged %d in %v\n",
			done.Added, done.Updated, done.Removed, done.Unchanged, took.Round(time.Millisecond))
		return err
	})
}

// printPlan prints the changes as lines that import reads, and their number on standard error.
func (c *importCmd) printPlan(s *importer.Sync, std stdio) error {
	p := s.Planned
	if c.Result.json() {
		return writeJSON(std.out, p)
	}
	std.note(fmt.Sprintf("would add %d, update %d, remove %d and leave %d unchanged",
		p.Added, p.Updated, p.Removed, p.Unchanged))
	return printActivities(std.out, s.Changes())
}
