package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

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
	if _, err := f.servers(); err != nil {
		return err
	}
	if _, err := migrate.ParsePattern(f.Keys); err != nil {
		return fmt.Errorf("--keys: %w", err)
	}
	if f.ScanCount < 1 || f.ScanCount > maxScanCount {
		return fmt.Errorf("--scan-count: %d is not in 1 to %d", f.ScanCount, maxScanCount)
	}
	if f.ScanRate < 0 || f.ScanRate > maxScanRate {
		return fmt.Errorf("--scan-rate: %d is not in 0 to %d", f.ScanRate, maxScanRate)
	}
	return nil
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

// open connects to the servers and returns the sets. Call stop afterwards.
func (f *setsFlags) open(ctx context.Context, log *slog.Logger) (sets *migrate.Sets, stop func() error, err error) {
	servers, err := f.servers()
	if err != nil {
		return nil, nil, err
	}
	keys, err := migrate.ParsePattern(f.Keys)
	if err != nil {
		return nil, nil, fmt.Errorf("--keys: %w", err)
	}
	redis.SetLogger(redisLog{log})
	client := servers.Client()
	pinged, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := client.Ping(pinged).Err(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("--from: redis at %s: %w", servers.Name(), err), client.Close())
	}
	return &migrate.Sets{
		Client: client, Keys: keys, Reverse: f.Reverse, Scores: migrate.Scores(f.Scores), Count: int64(f.ScanCount), Rate: f.ScanRate,
	}, client.Close, nil
}

// noteOthers warns of skipped keys.
func noteOthers(sets *migrate.Sets, std stdio) {
	if n := sets.Others(); n > 0 {
		std.note(fmt.Sprintf("warning: skipped %d keys that are neither sets nor sorted sets", n))
	}
}
