package elasticache

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
)

// remembered is the last description, as Config.File has it.
type remembered struct {
	Cache   string `json:"cache"` // and where it is: a file of another cache's is of no use
	Region  string `json:"region"`
	Cluster bool   `json:"cluster"`
	TLS     bool   `json:"tls"`
	Token   bool   `json:"token"`
	Addr    string `json:"addr"`
	Reader  string `json:"reader"`
}

// remember writes d where the next process finds it, if it is to. A failure is no harm now.
func (c *Cache) remember(ctx context.Context, d description) {
	if c.config.File == "" {
		return
	}
	err := c.writeFile(remembered{
		Cache: c.config.String(), Region: c.config.Region,
		Cluster: d.cluster, TLS: d.tls, Token: d.token, Addr: d.addr, Reader: d.reader,
	})
	if err != nil {
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

// recall returns what remember wrote last of this cache.
func (c *Cache) recall() (description, bool) {
	if c.config.File == "" {
		return description{}, false
	}
	text, err := os.ReadFile(c.config.File)
	var r remembered
	if err != nil || json.Unmarshal(text, &r, json.RejectUnknownMembers(true)) != nil ||
		r.Cache != c.config.String() || r.Region != c.config.Region || r.Addr == "" {
		return description{}, false
	}
	return description{cluster: r.Cluster, tls: r.TLS, token: r.Token, addr: r.Addr, reader: r.Reader}, true
}
