package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

const (
	pingTimeout = 3 * time.Second // of Redis, at the start
	maxPages    = 1 << 24
)

// dataFlags say where the data is and what it is made like. Every command that
// touches data has them.
type dataFlags struct {
	DataDir           string  `default:"./feedfilter-data" help:"${data_dir}" placeholder:"DIR"`
	Ledger            string  `help:"${ledger}"            placeholder:"URL"`
	Redis             string  `help:"${redis}"             placeholder:"URL"`
	LedgerRestored    bool    `help:"${restored}"`
	Filter            string  `default:"feed"              help:"${filter}"   placeholder:"NAME"`
	Pages             *uint32 `help:"${pages}"             placeholder:"N"`
	FalsePositiveRate float64 `default:"0.001"             help:"${rate}"     placeholder:"RATE"`

	StalenessBound time.Duration `default:"1s"  help:"${bound}" placeholder:"DURATION"`
	ScrubRate      int           `default:"500" help:"${scrub}" placeholder:"PAGES"`

	LogLevel string `default:"info"   enum:"debug,info,warn,error" help:"${level}" placeholder:"LEVEL"`
	Config   string `help:"${config}" placeholder:"FILE"`
}

// Validate is called by kong when all flags are set.
func (f *dataFlags) Validate() error {
	if n := f.pages(); f.Pages != nil && (n == 0 || n > maxPages || n&(n-1) != 0) {
		return fmt.Errorf("--pages: %d is not a power of two from 1 to %d", n, maxPages)
	}
	if r := f.FalsePositiveRate; !(r >= 1e-8 && r <= 0.5) {
		return fmt.Errorf("--false-positive-rate: %g is not in 1e-8 to 0.5", r)
	}
	if b := f.StalenessBound; b < 10*time.Millisecond || b > time.Minute {
		return fmt.Errorf("--staleness-bound: %v is not in 10ms to 1m", b)
	}
	if f.ScrubRate < 1 || f.ScrubRate > 100_000 {
		return fmt.Errorf("--scrub-rate: %d is not in 1 to 100000", f.ScrubRate)
	}
	scheme, _, _ := strings.Cut(f.Ledger, ":")
	if f.Ledger != "" && !slices.Contains([]string{"sqlite", "postgres", "postgresql"}, scheme) {
		return fmt.Errorf("--ledger: %q is not supported: want sqlite:<file> or postgres://<host>/<database>", scheme)
	}
	_, err := f.redisServers()
	return err
}

// pages returns the number of pages asked for, 0 for none in particular.
func (f *dataFlags) pages() uint32 {
	if f.Pages == nil {
		return 0
	}
	return *f.Pages
}

// logger logs to std.err, a JSON object a line.
func (f *dataFlags) logger(std stdio) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.LogLevel)) // one of the enum
	return slog.New(slog.NewJSONHandler(std.err, &slog.HandlerOptions{Level: level}))
}

// redisServers returns nil if the pages are to be held in the process.
func (f *dataFlags) redisServers() (*redisServers, error) {
	if f.Redis == "" {
		return nil, nil //nolint:nilnil // no Redis is an answer
	}
	servers, err := parseRedis(f.Redis)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	return servers, nil
}

// data is an open ledger, the pages, and the Recorder over both.
type data struct {
	ledger   *ledger.Ledger
	store    favfilter.Store
	redis    redis.UniversalClient // nil if the pages are held in the process
	addrs    string                // of Redis, or of Sentinel
	recorder *activity.Recorder
}

// open opens the data, and makes new data where there is none. Redis need not be up.
func (f *dataFlags) open(ctx context.Context, log *slog.Logger) (d *data, err error) {
	d = &data{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
			d = nil
		}
	}()
	if err := f.openStore(d, log); err != nil {
		return d, err
	}
	if err := f.openLedger(ctx, d); err != nil {
		return d, err
	}
	bound := f.StalenessBound
	if d.redis == nil && d.ledger.Shared() {
		bound = -1 // other processes write to the ledger, and not to these pages
	}
	d.recorder, err = activity.Open(ctx, activity.Config{
		Ledger:            d.ledger,
		Store:             d.store,
		FalsePositiveRate: f.FalsePositiveRate,
		StalenessBound:    bound,
		ScrubRate:         f.ScrubRate,
		Logger:            log,
	})
	return d, err
}

func (f *dataFlags) openStore(d *data, log *slog.Logger) error {
	servers, err := f.redisServers()
	if err != nil {
		return err
	}
	if servers == nil {
		d.store = &favfilter.Memory{}
		return nil
	}
	d.redis, d.addrs = servers.client(log), servers.addrs()
	if d.store, err = redisstore.New(d.redis, f.Filter); err != nil {
		return usageError{fmt.Errorf("--filter: %w", err)}
	}
	return nil
}

func (f *dataFlags) openLedger(ctx context.Context, d *data) error {
	var err error
	d.ledger, err = ledger.Open(ctx, f.ledgerURL(), ledger.Options{Pages: f.pages(), Restored: f.LedgerRestored})
	switch {
	case errors.Is(err, ledger.ErrInUse):
		return fmt.Errorf("%w: another feedfilter runs on this data; it has to be stopped first", err)
	case errors.Is(err, ledger.ErrPagesDiffer):
		return fmt.Errorf("--pages: %w", err)
	}
	return err
}

func (f *dataFlags) ledgerURL() string {
	if f.Ledger != "" {
		return f.Ledger
	}
	return "sqlite:" + filepath.Join(f.DataDir, "ledger.db")
}

// close lets what is on its way finish. Nobody may use the data any more.
func (d *data) close() error {
	var errs []error
	if d.recorder != nil {
		d.recorder.Close()
	}
	if d.redis != nil {
		errs = append(errs, d.redis.Close())
	}
	if d.ledger != nil {
		errs = append(errs, d.ledger.Close())
	}
	return errors.Join(errs...)
}

// pingRedis returns an error if the pages are in Redis and it does not answer.
func (d *data) pingRedis(ctx context.Context) error {
	if d.redis == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := d.redis.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis at %s: %w", d.addrs, err)
	}
	return nil
}
