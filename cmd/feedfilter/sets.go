package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/feedfilter/feedfilter/internal/migrate"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

const (
	maxScanCount = 100_000
	maxScanRate  = 1_000_000
)

// setsFlags say where an app's exact sets are.
type setsFlags struct {
	From      string `help:"${from}"      placeholder:"URL"                  required:""`
	Keys      string `help:"${keys}"      placeholder:"PATTERN"              required:""`
	Kind      string `help:"${sets_kind}" placeholder:"KIND"                 required:""`
	Reverse   bool   `help:"${reverse}"`
	Scores    string `default:"ignore"    enum:"ignore,seconds,milliseconds" help:"${scores}" placeholder:"UNIT"`
	ScanCount int    `default:"1000"      help:"${scan_count}"               placeholder:"N"`
	ScanRate  int    `default:"0"         help:"${scan_rate}"                placeholder:"N"`
}

// Check implements [settings.Checker].
func (f *setsFlags) Check(context.Context) error {
	if f.From == "" { // another command was chosen
		return nil
	}
	var all checks
	_, err := f.servers()
	all.note(err)
	_, err = migrate.ParsePattern(f.Keys)
	all.wantf(err == nil, "--keys: %w", err)
	all.wantf(f.ScanCount >= 1 && f.ScanCount <= maxScanCount, "--scan-count: %d is not in 1 to %d", f.ScanCount, maxScanCount)
	all.wantf(f.ScanRate >= 0 && f.ScanRate <= maxScanRate, "--scan-rate: %d is not in 0 to %d", f.ScanRate, maxScanRate)
	return all.err()
}

func (f *setsFlags) servers() (*redisurl.Servers, error) {
	servers, err := redisurl.Parse(f.From)
	if err == nil && servers.Managed != nil {
		err = errors.New("elasticache:// is not supported: give the cache's endpoint as rediss:// or rediss+cluster://")
	}
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	return servers, nil
}

// use connects to the servers, calls do with the sets, and warns of skipped keys. Errors say what
// failed.
func (f *setsFlags) use(ctx context.Context, log *slog.Logger, std stdio, what string, do func(*migrate.Sets) error) (err error) {
	servers, err := f.servers()
	if err != nil {
		return err
	}
	sets := &migrate.Sets{Reverse: f.Reverse, Scores: migrate.Scores(f.Scores), Count: int64(f.ScanCount), Pace: rate.NewLimiter(rate.Inf, 1)}
	if f.ScanRate > 0 {
		sets.Pace.SetLimit(rate.Limit(f.ScanRate))
	}
	if sets.Keys, err = migrate.ParsePattern(f.Keys); err != nil {
		return err
	}
	redis.SetLogger(redisLog{log})
	sets.Client = servers.Client()
	pinged, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err = sets.Client.Ping(pinged).Err(); err != nil {
		err = fmt.Errorf("--from: redis at %s: %w", servers.Name(), err)
	} else {
		err = do(sets)
	}
	if n := sets.Others.Load(); n > 0 {
		std.note(fmt.Sprintf("warning: skipped %d keys that are neither sets nor sorted sets", n))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return errors.Join(err, sets.Client.Close())
}
