package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/feedfilter/feedfilter/internal/access"
)

type hashIDCmd struct {
	DataDir   string   `default:"./feedfilter-data" help:"${data_dir}" placeholder:"DIR"`
	IDKeyFile string   `help:"${hash_key}"          placeholder:"FILE"`
	Config    string   `help:"${config}"            placeholder:"FILE"`
	IDs       []string `arg:""                      help:"${hash_ids}" name:"id"`
}

// Run prints a hash a line.
func (c *hashIDCmd) Run(_ context.Context, std stdio) error {
	file := cmp.Or(c.IDKeyFile, filepath.Join(c.DataDir, idKeyFile))
	if _, err := os.Stat(file); err != nil { // OpenIDs would create a new key
		return fmt.Errorf("hash-id: the service's key: %w: see --data-dir and --id-key-file", err)
	}
	ids, err := access.OpenIDs(file)
	if err != nil {
		return fmt.Errorf("hash-id: %w", err)
	}
	for _, id := range c.IDs {
		if _, err := fmt.Fprintln(std.out, ids.Hash(id)); err != nil {
			return err
		}
	}
	return nil
}
