package elasticache

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
)

// remembered is the last description, as stored in Config.File.
type remembered struct {
	Cache       string      `json:"cache"` // with Region, identifies the cache: another cache's file must not be used
	Region      string      `json:"region"`
	Description description `json:",embed"`
}

// remember saves d in Config.File for the next process, if there is such a file name. A failure
// does no harm to this process.
func (c *Cache) remember(ctx context.Context, d description) {
	if c.config.File == "" {
		return
	}
	if err := c.writeFile(remembered{c.config.String(), c.config.Region, d}); err != nil {
		c.log.WarnContext(ctx, "the description of the cache cannot be kept", "file", c.config.File, "error", err)
	}
}

func (c *Cache) writeFile(r remembered) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.config.File), 0o700); err != nil {
		return err
	}
	fresh := fmt.Sprintf("%s.%d", c.config.File, os.Getpid())
	if err := os.WriteFile(fresh, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, c.config.File)
}

// recall returns the description of this cache that remember saved last.
func (c *Cache) recall() (description, bool) {
	if c.config.File == "" {
		return description{}, false
	}
	text, err := os.ReadFile(c.config.File)
	var r remembered
	if err != nil || json.Unmarshal(text, &r, json.RejectUnknownMembers(true)) != nil ||
		r.Cache != c.config.String() || r.Region != c.config.Region || r.Description.Addr == "" {
		return description{}, false
	}
	return r.Description, true
}
