package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/feedfilter/feedfilter/internal/migrate"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

const maxScanRate = 1_000_000

// setsFlags say where an app's exact sets are, and which running service has the same activities.
type setsFlags struct {
	From     string       `help:"${from}"      placeholder:"URL"                  required:""`
	Keys     string       `help:"${keys}"      placeholder:"PATTERN"              required:""`
	Kind     string       `help:"${sets_kind}" placeholder:"KIND"                 required:""`
	Scores   string       `default:"ignore"    enum:"ignore,seconds,milliseconds" help:"${scores}" placeholder:"UNIT"`
	ScanRate int          `default:"0"         help:"${scan_rate}"                placeholder:"N"`
	Service  serviceFlags `embed:""`
	LogLevel string       `default:"info"      enum:"debug,info,warn,error"       help:"${level}"  placeholder:"LEVEL"`
	Config   string       `help:"${config}"    placeholder:"FILE"`
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
	all.wantf(f.ScanRate >= 0 && f.ScanRate <= maxScanRate, "--scan-rate: %d is not in 0 to %d", f.ScanRate, maxScanRate)
	all.wantf(f.Service.Server != "", "--server: required, the URL of a running service")
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

// use connects to the servers and the service, calls do with the sets, and warns of skipped keys.
// Errors say what failed.
func (f *setsFlags) use(
	ctx context.Context, std stdio, what string, do func(*migrate.Sets, *migrate.Service) error,
) (err error) {
	servers, err := f.servers()
	if err != nil {
		return err
	}
	sets := &migrate.Sets{Scores: migrate.Scores(f.Scores), Pace: rate.NewLimiter(rate.Inf, 1)}
	if f.ScanRate > 0 {
		sets.Pace.SetLimit(rate.Limit(f.ScanRate))
	}
	if sets.Keys, err = migrate.ParsePattern(f.Keys); err != nil {
		return err
	}
	redis.SetLogger(redisLog{(&dataFlags{LogLevel: f.LogLevel}).logger(std)})
	sets.Client = servers.Client()
	pinged, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err = sets.Client.Ping(pinged).Err(); err != nil {
		err = fmt.Errorf("--from: redis at %s: %w", servers.Name(), err)
	} else {
		err = f.with(ctx, sets, do)
	}
	if n := sets.Others.Load(); n > 0 {
		std.note(fmt.Sprintf("warning: skipped %d keys that are neither sets nor sorted sets", n))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return errors.Join(err, sets.Client.Close())
}

// with calls do with the sets and the service.
func (f *setsFlags) with(ctx context.Context, sets *migrate.Sets, do func(*migrate.Sets, *migrate.Service) error) error {
	c, err := f.Service.service()
	if err != nil {
		return err
	}
	service, err := migrate.NewService(ctx, c, f.Kind)
	if err != nil {
		return err
	}
	return do(sets, service)
}
