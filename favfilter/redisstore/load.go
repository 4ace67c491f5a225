package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Load implements [favfilter.Store]. It sends one MGET for each page number, all in one pipeline.
// Successive parts of one page number are one command. It adds one GETRANGE for each held page. The
// pages lack their collision bits.
//
// On a single server, calls that happen at the same time share pipelines.
func (s *Store) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	reads := make([]command, 0, 1+len(held))
	for i, id := range ids {
		if i == 0 || ids[i-1].Number != id.Number {
			args := append(make([]any, 0, 1+len(ids)-i), "mget")
			reads = append(reads, command{page: id.Number, args: args})
		}
		last := &reads[len(reads)-1]
		last.args = append(last.args, s.key(id, "bits"))
	}
	for _, id := range held {
		reads = append(reads, command{
			page: id.Number,
			args: []any{"getrange", s.key(id, "bits"), 0, favfilter.HeaderBytes - 1},
		})
	}
	pages := len(ids) + len(held)
	var cmds []*redis.Cmd
	if s.coalescer == nil || pages == 0 || pages > coalescedPages {
		cmds = s.sendReads(ctx, reads)
	} else {
		var err error
		if cmds, err = s.coalescer.read(ctx, pages, reads); err != nil {
			return nil, nil, s.failed("load", err, slices.Concat(ids, held)...)
		}
	}
	first := len(cmds) - len(held)
	versions := versionsIn(cmds[first:])
	loaded := make([]favfilter.Loaded, 0, len(ids))
	for _, cmd := range cmds[:first] {
		values, err := cmd.Slice()
		if err != nil {
			return nil, versions, s.failed("load", err, ids...)
		}
		for _, value := range values {
			loaded = append(loaded, s.decode(ids[len(loaded)], value, nil))
		}
	}
	return loaded, versions, nil
}

// sendReads sends the commands of Load in one pipeline.
func (s *Store) sendReads(ctx context.Context, reads []command) []*redis.Cmd {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return s.send(ctx, "load", reads)
}

// versionsIn returns the versions that cmds have read; nil if one of them failed.
func versionsIn(cmds []*redis.Cmd) []favfilter.Version {
	all := make([]favfilter.Version, len(cmds))
	for i, cmd := range cmds {
		header, err := cmd.Text()
		if err != nil {
			return nil
		}
		all[i] = favfilter.Version(header)
	}
	return all
}

// LoadWhole implements [favfilter.Store]. It sends one MGET for each page, all in one pipeline.
func (s *Store) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	loaded := make([]favfilter.Loaded, len(ids))
	for i, cmd := range s.readWhole(ctx, ids) {
		var err error
		if loaded[i], err = s.decodeWhole(ids[i], cmd); err != nil {
			return nil, s.failed("load whole", err, ids...)
		}
	}
	return loaded, nil
}

// readWhole reads both strings of each page.
func (s *Store) readWhole(ctx context.Context, ids []favfilter.PageID) []*redis.Cmd {
	reads := make([]command, len(ids))
	for i, id := range ids {
		reads[i] = command{
			page: id.Number,
			args: []any{"mget", s.key(id, "bits"), s.key(id, "regions")},
		}
	}
	return s.send(ctx, "whole", reads)
}

// decodeWhole decodes a page from its two strings, or a value.
func (s *Store) decodeWhole(id favfilter.PageID, cmd *redis.Cmd) (favfilter.Loaded, error) {
	values, err := cmd.Slice()
	if err != nil {
		return favfilter.Loaded{}, err
	}
	collisions, _ := values[1].(string) // if missing: "", which is damage if the page has regions
	return s.decode(id, values[0], []byte(collisions)), nil
}

// Peek implements [favfilter.Store]. It runs one script for each page, all in one pipeline.
func (s *Store) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	calls := make([]command, len(ids))
	for i, id := range ids {
		calls[i] = s.run(s.peek, id, 0)
	}
	statuses := make([]favfilter.Status, len(ids))
	var failure error
	failed := 0
	for i, cmd := range s.send(ctx, s.peek.name, calls) {
		st, err := statusOf(cmd)
		if err != nil {
			failed, failure = failed+1, err
			st.Err = s.failed("peek at", err, ids[i])
		}
		if st.Damage != nil {
			st.Damage = fmt.Errorf("page %v of filter %s: %w", ids[i], s.name, st.Damage)
		}
		statuses[i] = st
	}
	if failed > 0 && failed == len(ids) {
		return nil, s.failed("peek at", failure, ids...)
	}
	return statuses, nil
}

// statusOf decodes the reply of peek.lua.
func statusOf(cmd *redis.Cmd) (favfilter.Status, error) {
	reply, err := answer(cmd)
	if err != nil {
		return favfilter.Status{}, err
	}
	var n [3]uint32
	if _, err := binary.Decode([]byte(reply[2]), binary.BigEndian, &n); err != nil {
		return favfilter.Status{}, fmt.Errorf("the script answered the numbers %x: %w", reply[2], err)
	}
	return favfilter.Stored{
		Header:        []byte(reply[0]),
		Build:         []byte(reply[1]),
		BitsLength:    int(n[0]),
		RegionsLength: int(n[1]),
		Collided:      int(n[2]),
	}.Status(), nil
}
