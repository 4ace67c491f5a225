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
	if f.From == "" { // the flags of another command
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
		err = errors.New("give the endpoint of a cache as rediss:// or rediss+cluster://")
	}
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	return servers, nil
}

// open returns the sets, on servers that answer, until stop is called.
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

// noteOthers says that keys were passed over.
func noteOthers(sets *migrate.Sets, std stdio) {
	if n := sets.Others(); n > 0 {
		std.note(fmt.Sprintf("warning: %d keys of the pattern are neither sets nor sorted sets, and were passed over", n))
	}
}
