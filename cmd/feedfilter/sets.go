package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/migrate"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// patience is the number of attempts of a call. Their pauses take some seconds, so a service may
// be restarted meanwhile.
const patience = 10

// setsFlags say where an app's exact sets are, and which running service has the same activities.
type setsFlags struct {
	From     string          `help:"${from}"      placeholder:"URL"            required:""`
	Keys     migrate.Pattern `help:"${keys}"      placeholder:"PATTERN"        required:""`
	Kind     string          `help:"${sets_kind}" placeholder:"KIND"           required:""`
	Service  serviceFlags    `embed:""`
	LogLevel string          `default:"info"      enum:"debug,info,warn,error" help:"${level}" placeholder:"LEVEL"`
	Config   string          `help:"${config}"    placeholder:"FILE"`
}

// Check implements [settings.Checker].
func (f *setsFlags) Check(context.Context) error {
	if f.From == "" { // another command was chosen
		return nil
	}
	var all checks
	_, err := f.servers()
	all.note(err)
	all.wantf(f.Service.Server != "", "--server: required, the URL of a running service")
	return all.err()
}

func (f *setsFlags) servers() (*redisurl.Servers, error) {
	servers, err := redisurl.Parse(f.From)
	if err == nil && servers.Managed != nil {
		err = errors.New("elasticache:// is not supported: " +
			"give the cache's endpoint as rediss:// or rediss+cluster://")
	}
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	return servers, nil
}

// use connects to the servers and the service, calls do with them, and warns of skipped keys.
// Errors say what failed.
func (f *setsFlags) use(
	ctx context.Context, std stdio, what string,
	do func(context.Context, stdio, *migrate.Sets, *migrate.Service) error,
) error {
	servers, err := f.servers()
	if err != nil {
		return err
	}
	redis.SetLogger(redisLog{(&dataFlags{LogLevel: f.LogLevel}).logger(std)})
	sets := &migrate.Sets{Client: servers.Client(), Keys: f.Keys, Scores: migrate.NoScores}
	service, err := f.service(ctx)
	if err == nil {
		sets.Phrases = service.Kind.Text
		err = do(ctx, std, sets, service)
	}
	if sets.Others > 0 {
		std.note(fmt.Sprintf(
			"warning: skipped %d keys that are neither sets nor sorted sets", sets.Others,
		))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return errors.Join(err, sets.Client.Close())
}

// service returns the service, which must have the kind.
func (f *setsFlags) service(ctx context.Context) (*migrate.Service, error) {
	once, err := f.Service.service(1)
	if err != nil {
		return nil, err
	}
	// A wrong address must fail at once, so this call has no retries.
	kind, err := migrate.FindKind(ctx, once, f.Kind)
	if err != nil {
		return nil, err
	}
	patient, err := f.Service.service(patience)
	return &migrate.Service{Kind: kind, Client: patient}, err
}
