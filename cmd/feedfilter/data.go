package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/pagefile"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/kindfile"
	"github.com/feedfilter/feedfilter/internal/metrics"
	"github.com/feedfilter/feedfilter/internal/redisurl"
	"github.com/feedfilter/feedfilter/internal/tracing"
)

const (
	pingTimeout     = 3 * time.Second  // for Redis, at the start
	identityTimeout = 30 * time.Second // for a search for pages in an empty Redis
	maxPages        = 1 << 24
	noLedger        = "none" // a value of --ledger
	ledgerFile      = "ledger.db"
	maxListCache    = 1 << 20 // in MiB: 1 TiB
)

// dataFlags say where the data is and how it is stored. Every command that reads or writes data
// has them.
type dataFlags struct {
	DataDir           string  `default:"./feedfilter-data" help:"${data_dir}" placeholder:"DIR"`
	Ledger            string  `help:"${ledger}"            placeholder:"URL"`
	Redis             string  `help:"${redis}"             placeholder:"URL"`
	LedgerRestored    bool    `help:"${restored}"`
	Filter            string  `default:"feed"              help:"${filter}"   placeholder:"NAME"`
	Pages             *uint32 `help:"${pages}"             placeholder:"N"`
	FalsePositiveRate float64 `default:"0.001"             help:"${rate}"     placeholder:"RATE"`
	Kinds             string  `help:"${kinds}"             placeholder:"FILE"`

	StalenessBound time.Duration `default:"1s"   help:"${bound}"     placeholder:"DURATION"`
	ScrubRate      int           `default:"500"  help:"${scrub}"     placeholder:"PAGES"`
	DedicatedPage  int           `default:"2048" help:"${dedicated}" placeholder:"KEYS"`
	PageCache      *string       `hidden:""` // of version 0.1: refused, as is OwnPage
	OwnPage        *string       `hidden:""`
	ListCache      int           `default:"64"   help:"${lists}"     placeholder:"MIB"`

	passive        bool          // see [activity.Config.Passive]
	afterTimeout   time.Duration // see [activity.Config.AfterTimeout]
	followedWithin time.Duration // see [activity.Config.FollowedWithin]

	LogLevel  string `default:"info"   enum:"debug,info,warn,error" help:"${level}"      placeholder:"LEVEL"`
	LogFormat string `default:"json"   enum:"json,text"             help:"${format_log}" placeholder:"FORMAT"`
	Config    string `help:"${config}" placeholder:"FILE"`

	meters *metrics.Registry // of the service; nil for other commands
	tracer *tracing.Tracer   // nil unless requests are traced
}

// Check implements [settings.Checker].
func (f *dataFlags) Check(context.Context) error {
	var c checks
	n, r, b := f.pages(), f.FalsePositiveRate, f.StalenessBound
	c.wantf(f.DataDir != "", "--data-dir: empty, want a directory")
	c.wantf(
		f.Pages == nil || n > 0 && n <= maxPages && n&(n-1) == 0,
		"--pages: %d is not a power of two from 1 to %d", n, maxPages,
	)
	c.wantf(r >= 1e-8 && r <= 0.5, "--false-positive-rate: %g is not in 1e-8 to 0.5", r)
	c.wantf(
		b >= 10*time.Millisecond && b <= time.Minute,
		"--staleness-bound: %v is not in 10ms to 1m", b,
	)
	c.wantf(
		f.ScrubRate >= 1 && f.ScrubRate <= 100_000,
		"--scrub-rate: %d is not in 1 to 100000", f.ScrubRate,
	)
	c.wantf(
		f.DedicatedPage >= pages.MinSharedKeys,
		"--dedicated-page: %d is less than %d", f.DedicatedPage, pages.MinSharedKeys,
	)
	c.wantf(
		f.ListCache >= 1 && f.ListCache <= maxListCache,
		"--list-cache: %d is not in 1 to %d", f.ListCache, maxListCache,
	)
	c.wantf(
		f.PageCache == nil,
		"--page-cache: gone: large pages and those of lists are now held in --list-cache, "+
			"valid by their version in Redis; writes no longer wait for it. Remove the flag",
	)
	c.wantf(f.OwnPage == nil, "--own-page: has another name: --dedicated-page")
	scheme := redisurl.Scheme(f.Ledger)
	schemes := []string{"sqlite", "postgres", "postgresql"}
	c.wantf(
		f.Ledger == "" || f.Ledger == noLedger || slices.Contains(schemes, scheme),
		"--ledger: %q is not supported: want sqlite:<file>, postgres://<host>/<database> or none",
		scheme,
	)
	c.wantf(f.Ledger != noLedger || !f.LedgerRestored, "--ledger-restored: requires a ledger")
	servers, err := f.redisServers()
	c.note(err)
	reader := servers != nil && servers.Managed != nil && servers.Managed.Reader
	c.wantf(
		f.Ledger != noLedger || !reader,
		"--redis: reader=true requires a ledger, which shows what replicas lack",
	)
	return c.err()
}

// checkFiles returns the mistakes in the file of kinds and in the name of the filter. doctor
// reports these as findings instead.
func (f *dataFlags) checkFiles() error {
	var c checks
	_, err := f.kinds()
	c.note(err)
	if f.Redis != "" {
		_, err := redisstore.New(nil, f.Filter)
		c.wantf(err == nil, "--filter: %w", err)
	}
	return c.err()
}

// kinds returns the kinds of the service.
func (f *dataFlags) kinds() (*activity.Kinds, error) {
	if f.Kinds == "" {
		return activity.BuiltinKinds(), nil
	}
	file, err := os.ReadFile(f.Kinds)
	if err != nil {
		return nil, usageError{fmt.Errorf("--kinds: %w", err)}
	}
	kinds, err := kindfile.Parse(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("--kinds %s: %w", f.Kinds, err)}
	}
	return kinds, nil
}

// pages returns --pages, 0 if it is not set.
func (f *dataFlags) pages() uint32 {
	if f.Pages == nil {
		return 0
	}
	return *f.Pages
}

// logger returns a logger to std.err, in JSON or as text.
func (f *dataFlags) logger(std stdio) *slog.Logger {
	log, _ := f.leveledLogger(std.err)
	return log
}

// leveledLogger returns a logger and its level, which may be changed.
func (f *dataFlags) leveledLogger(to io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	_ = level.UnmarshalText([]byte(f.LogLevel)) // one of the enum
	options := &slog.HandlerOptions{Level: level}
	if f.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(to, options)), level
	}
	return slog.New(slog.NewJSONHandler(to, options)), level
}

// redisServers returns the servers of --redis, nil if the pages are in the process.
func (f *dataFlags) redisServers() (*redisurl.Servers, error) {
	if f.Redis == "" {
		return nil, nil //nolint:nilnil // no Redis is an answer
	}
	servers, err := redisurl.Parse(f.Redis)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	return servers, nil
}

// data is an open ledger, the pages, and the Recorder over both.
type data struct {
	ledger     *ledger.Ledger // nil without
	store      favfilter.Store
	replica    favfilter.Store // nil unless feeds read replicas
	redis      *redisClients   // nil if the pages are in the process
	activities activity.Activities
	recorder   *activity.Recorder // the activities; nil without a ledger
	windows    *pagefile.File     // nil if no pages are kept in a file
}

// open opens the data, and creates it if there is none. Redis may be down. fill, unless it is nil,
// may restore pages before they are in use.
func (f *dataFlags) open(
	ctx context.Context, log *slog.Logger, fill func(*data) error,
) (d *data, err error) {
	d = &data{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
			d = nil
		}
	}()
	kinds, err := f.kinds()
	if err == nil {
		err = f.openStore(ctx, d, log)
	}
	if err == nil && f.Ledger != noLedger {
		err = f.openLedger(ctx, d)
	}
	if err == nil && fill != nil {
		err = fill(d)
	}
	if err != nil {
		return d, err
	}
	return d, flagged(f.openActivities(ctx, d, kinds, log))
}

// withLedger returns the Recorder for a call that needs a ledger, or an [*activity.NoLedgerError].
func (d *data) withLedger(call string) (*activity.Recorder, error) {
	if d.recorder == nil {
		return nil, &activity.NoLedgerError{Call: call}
	}
	return d.recorder, nil
}

// openActivities opens activities with the ledger of d, or without one. The store of d must be
// open.
func (f *dataFlags) openActivities(
	ctx context.Context, d *data, kinds *activity.Kinds, log *slog.Logger,
) error {
	if d.ledger != nil {
		r, err := activity.Open(ctx, f.recorderConfig(d, kinds, log))
		if err == nil {
			d.recorder, d.activities = r, r
		}
		return err
	}
	plain, err := activity.OpenPlain(ctx, activity.PlainConfig{
		Store:             d.store,
		Pages:             f.pages(),
		Kinds:             kinds,
		FalsePositiveRate: f.FalsePositiveRate,
		Persist:           d.persist(),
		Logger:            log,
	})
	if err == nil {
		d.activities = plain
	}
	return err
}

// persist returns a function that writes the process's pages to their file; nil if there is no
// file.
func (d *data) persist() func(context.Context) error {
	if d.windows == nil {
		return nil
	}
	return d.windows.Flush
}

// recorderConfig returns the configuration of a Recorder. The ledger and the store of d must be
// open.
func (f *dataFlags) recorderConfig(
	d *data, kinds *activity.Kinds, log *slog.Logger,
) activity.Config {
	c := activity.Config{
		Store:             d.store,
		Replica:           d.replica,
		Kinds:             kinds,
		FalsePositiveRate: f.FalsePositiveRate,
		StalenessBound:    f.StalenessBound,
		ScrubRate:         f.ScrubRate,
		MaxSharedKeys:     f.DedicatedPage,
		ListCache:         f.ListCache << 20,
		Passive:           f.passive,
		Persist:           d.persist(),
		AfterTimeout:      f.afterTimeout,
		FollowedWithin:    f.followedWithin,
		Logger:            log,
	}
	f.useLedger(&c, d.ledger)
	if d.redis == nil && d.ledger.Shared() {
		c.StalenessBound = -1 // other processes write to the ledger, but not to these pages
	}
	return c
}

// flagged names the flags that an error of [activity.Open] is about.
func flagged(err error) error {
	switch {
	case errors.Is(err, ledger.ErrKindHasData), errors.Is(err, ledger.ErrKindTaken):
		return fmt.Errorf("--kinds: %w", err)
	case errors.Is(err, ledger.ErrSettingsDiffer):
		return fmt.Errorf("--staleness-bound, --redis: %w", err)
	default:
		return err
	}
}

func (f *dataFlags) openStore(ctx context.Context, d *data, log *slog.Logger) error {
	servers, err := f.redisServers()
	if err != nil {
		return err
	}
	if servers == nil {
		d.store = &favfilter.Memory{}
		return nil
	}
	var meter *metrics.Redis
	if f.meters != nil {
		meter = f.meters.Redis()
	}
	if d.redis, err = connect(ctx, servers, meter, log, f.DataDir); err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	err = errors.Join(f.tracer.Redis(d.redis.pages), f.tracer.Redis(d.redis.replicas))
	if err != nil {
		return err
	}
	if d.store, err = redisstore.New(d.redis.pages, f.Filter); err != nil {
		return usageError{fmt.Errorf("--filter: %w", err)}
	}
	if d.redis.replicas != nil {
		d.replica, err = redisstore.NewReader(d.redis.replicas, f.Filter)
	}
	return err
}

func (f *dataFlags) openLedger(ctx context.Context, d *data) error {
	err := f.checkNew(ctx, d)
	if err != nil {
		return err
	}
	d.ledger, err = ledger.Open(ctx, f.ledgerURL(), ledger.Options{
		Pages:    f.pages(),
		Restored: f.LedgerRestored,
		Tracer:   f.tracer.Postgres(),
		// Only a process that stays has metrics. Others seldom need a second connection.
		KeepConnections: f.meters != nil,
	})
	switch {
	case errors.Is(err, ledger.ErrInUse):
		return fmt.Errorf("%w: another feedfilter uses this data: stop it first", err)
	case errors.Is(err, ledger.ErrPagesDiffer):
		return fmt.Errorf("--pages: %w", err)
	}
	return err
}

func (f *dataFlags) ledgerURL() string {
	return cmp.Or(f.Ledger, "sqlite:"+filepath.Join(f.DataDir, ledgerFile))
}

// checkThere returns an error if the ledger does not exist, because opening it would create it.
func (f *dataFlags) checkThere(ctx context.Context) error {
	if i, err := ledger.Inspect(ctx, f.ledgerURL()); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no ledger at %s: see --data-dir and --ledger", i.Name)
	}
	return nil // opening it reports other errors
}

// checkNew returns an error if nothing was ever recorded in the ledger, and Redis has pages of
// another one, or may have. Most likely the URL is wrong. The pages would be rebuilt without what
// the other ledger has.
func (f *dataFlags) checkNew(ctx context.Context, d *data) error {
	if d.redis == nil || f.LedgerRestored {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	// Read Redis before the ledger, which another process may be creating.
	found, unread := pages.FindIdentity(limited, d.store)
	if unread == nil && (found == nil || found.Incarnation == 0) {
		return nil // activity.Open refuses pages without a ledger
	}
	i, err := ledger.Inspect(ctx, f.ledgerURL())
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case !missing && (err != nil || !i.Empty): // opening it reports the error
		return nil
	case unread != nil:
		return fmt.Errorf(
			"nothing was recorded in ledger %s yet: "+
				"it needs Redis, which may have pages of another one: %w",
			i.Name, cmp.Or(d.pingRedis(ctx), unread),
		)
	case found.Incarnation == i.Identity.Incarnation:
		return nil
	}
	return fmt.Errorf(
		"%w: nothing was recorded in ledger %s yet, but Redis has pages of another one: "+
			"correct --ledger, --redis or --filter; "+
			"to replace that ledger, empty Redis, or start once with --ledger-restored",
		favfilter.ErrMismatch, i.Name,
	)
}

// close finishes what is in flight, and closes the data.
func (d *data) close() error {
	var errs []error
	if d.activities != nil {
		d.activities.Close()
	}
	if d.windows != nil {
		errs = append(errs, d.windows.Close())
	}
	if d.redis != nil {
		errs = append(errs, d.redis.close())
	}
	if d.ledger != nil {
		errs = append(errs, d.ledger.Close())
	}
	return errors.Join(errs...)
}

// pingRedis returns an error if the pages are in Redis and Redis does not answer.
func (d *data) pingRedis(ctx context.Context) error {
	if d.redis == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := d.redis.pages.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis at %s: %w", d.redis.addrs, err)
	}
	return nil
}
