package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/feedfilter/feedfilter/elasticache"
)

// recallTime is what is left to see what a service would do that AWS does not answer.
const recallTime = 4 * time.Second

// checkAWS asks AWS where the cache is.
func (d *Doctor) checkAWS(ctx context.Context) finding {
	config := d.servers.Managed.Config
	config.Logger = d.config.Logger
	file := config.File
	config.File = ""
	cache, err := d.openAWS(ctx, config, file != "")
	if err == nil {
		return d.judgeAWS(cache, &config, okf)
	}
	if file == "" {
		return fail(words(err), awsTodo(err))
	}
	cache, date, recalled := d.recall(ctx, config, file)
	switch {
	case cache == nil:
		return fail(words(err), awsTodo(err))
	case !recalled:
		return d.judgeAWS(cache, &config, okf)
	}
	return d.judgeAWS(cache, &config, func(format string, args ...any) finding {
		return warn(fmt.Sprintf("%s; a service that is started now goes by what AWS said last, at %s, as %s has it: %s",
			words(err), date.UTC().Format("2006-01-02 15:04 UTC"), file, fmt.Sprintf(format, args...)),
			awsTodo(err)+" Without that file no service starts.")
	})
}

// openAWS has AWS describe the cache; in less than the time there is, if something else can be tried yet.
func (d *Doctor) openAWS(ctx context.Context, config elasticache.Config, more bool) (*elasticache.Cache, error) {
	if end, ok := ctx.Deadline(); ok && more {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-min(recallTime, time.Until(end)/2)))
		defer cancel()
	}
	cache, err := elasticache.Open(ctx, config)
	if err == nil {
		d.closers = append(d.closers, func() error { cache.Close(); return nil })
	}
	return cache, err
}

// recall opens the cache as a service does that AWS does not answer, by what is in file, and tells when that was written; recalled
// is false if AWS has answered now. It returns nil if there is nothing to go by. A copy of the file is opened: what AWS says is
// written there.
func (d *Doctor) recall(
	ctx context.Context, config elasticache.Config, file string,
) (cache *elasticache.Cache, date time.Time, recalled bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, date, false
	}
	if info, err := os.Stat(file); err == nil {
		date = info.ModTime()
	}
	dir, err := os.MkdirTemp("", "feedfilter-doctor-")
	if err != nil {
		return nil, date, false
	}
	d.closers = append(d.closers, func() error { return os.RemoveAll(dir) }) // once the cache is closed
	config.File = filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(config.File, text, 0o600); err != nil { //nolint:gosec // in a directory that was made for it
		return nil, date, false
	}
	before, _ := os.Stat(config.File)
	if cache, err = d.openAWS(ctx, config, false); err != nil {
		return nil, date, false
	}
	after, err := os.Stat(config.File)
	return cache, date, err == nil && os.SameFile(before, after)
}

// judgeAWS takes over what is known of the cache, and says it by means of say.
func (d *Doctor) judgeAWS(cache *elasticache.Cache, config *elasticache.Config, say func(format string, args ...any) finding) finding {
	single, cluster, err := d.servers.Managed.Options(cache, false)
	if err != nil {
		return fail(words(err), "Correct --redis.")
	}
	d.servers.Single, d.servers.Cluster, d.cache = single, cluster, cache
	mode := "one primary"
	if cache.ClusterMode() {
		mode = "cluster mode"
	}
	encrypted := "no TLS"
	if cache.TLS() {
		encrypted = "TLS"
	}
	return say("%s: %s, %s, at %s", config.String(), mode, encrypted, cache.Addr())
}

func awsTodo(err error) string {
	switch {
	case errors.Is(err, elasticache.ErrNotFound):
		return "Correct the name or ?region= in --redis, or use credentials of the account that has the cache."
	case errors.Is(err, elasticache.ErrAccessDenied):
		return "Allow the identity of this process what the error names, or give it valid credentials (and see to this machine's clock)."
	case errors.Is(err, elasticache.ErrNotAvailable):
		return "Wait until the cache is available, or restore it."
	case errors.Is(err, elasticache.ErrNoTLS):
		return "Enable encryption in transit of the cache, or leave out user=."
	case errors.Is(err, elasticache.ErrConfig):
		return "Correct --redis, or the configuration of AWS in the environment."
	default:
		return "Let this machine reach the API of ElastiCache in that region."
	}
}
