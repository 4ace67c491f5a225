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

// recallTime is reserved for reading the cached answer if AWS does not respond.
const recallTime = 4 * time.Second

// checkAWS asks AWS where the cache is. If AWS does not answer, it uses the last answer, as a
// service does.
func (d *Doctor) checkAWS(ctx context.Context) finding {
	config := d.servers.Managed.Config
	config.Logger = d.config.Logger
	file := config.File
	config.File = ""
	limited, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok && file != "" {
		limited, cancel = context.WithDeadline(ctx, end.Add(-min(recallTime, time.Until(end)/2)))
	}
	defer cancel()
	cache, err := d.openAWS(limited, config)
	if err == nil {
		return d.judgeAWS(cache, &config)
	}
	text, noFile := os.ReadFile(file)
	dir, noDir := os.MkdirTemp("", "feedfilter-doctor-")
	if noDir == nil {
		d.closers = append(d.closers, func() error { return os.RemoveAll(dir) }) // once the cache is closed
	}
	if noFile != nil || noDir != nil {
		return fail(words(err), awsTodo(err))
	}
	config.File = filepath.Join(dir, filepath.Base(file))          // a copy, because the client writes AWS's answer to it
	if err := os.WriteFile(config.File, text, 0o600); err != nil { //nolint:gosec // in a new temporary directory
		return fail(words(err), "Free space in the directory of temporary files.")
	}
	cache, refused := d.openAWS(ctx, config)
	if refused != nil {
		return fail(words(err), awsTodo(err))
	}
	f := d.judgeAWS(cache, &config)
	if f.status != OK {
		return f
	}
	return warn(fmt.Sprintf("%s; a service started now uses the last answer of AWS, in %s: %s", words(err), file, f.found),
		awsTodo(err)+" Without that file, no service starts.")
}

func (d *Doctor) openAWS(ctx context.Context, config elasticache.Config) (*elasticache.Cache, error) {
	cache, err := elasticache.Open(ctx, config)
	if err == nil {
		d.closers = append(d.closers, func() error { cache.Close(); return nil })
	}
	return cache, err
}

// judgeAWS derives the Redis options from the description of the cache, and judges them.
func (d *Doctor) judgeAWS(cache *elasticache.Cache, config *elasticache.Config) finding {
	if d.servers.Managed.Reader {
		if _, _, err := d.servers.Managed.Options(cache, true); err != nil {
			return fail(words(err), "Remove reader=true from --redis.")
		}
	}
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
	return okf("%s: %s, %s, at %s", config.String(), mode, encrypted, cache.Addr())
}

func awsTodo(err error) string {
	switch {
	case errors.Is(err, elasticache.ErrNotFound):
		return "Correct the name or ?region= in --redis, or use credentials of the account that owns the cache."
	case errors.Is(err, elasticache.ErrAccessDenied):
		return "Grant this process's identity the action that the error names, or give it valid credentials; check this machine's clock."
	case errors.Is(err, elasticache.ErrNotAvailable):
		return "Wait until the cache is available, or restore it."
	case errors.Is(err, elasticache.ErrNoTLS):
		return "Enable encryption in transit on the cache, or remove user= from --redis."
	case errors.Is(err, elasticache.ErrConfig):
		return "Correct --redis, or the AWS configuration in the environment."
	default:
		return "Give this machine AWS credentials, such as a role, and let it reach the ElastiCache API of that region."
	}
}
