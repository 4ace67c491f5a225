package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// postgres is an exact table. A feed check is one query that returns the candidates to be kept.
type postgres struct{ pool *pgxpool.Pool }

const (
	createEntries = `CREATE TABLE entries (owner text, kind text, target text, PRIMARY KEY (owner, kind, target))`
	insertHides   = `INSERT INTO entries SELECT 'writer', 'hide', p FROM unnest($1::text[]) AS p ON CONFLICT DO NOTHING`
	keepQuery     = `
SELECT c.n FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS c(post, author, n)
WHERE NOT EXISTS (SELECT FROM entries e WHERE e.owner = $1 AND e.kind IN ('block', 'blocked-by') AND e.target = c.author)
  AND NOT EXISTS (SELECT FROM entries e WHERE e.owner = $1 AND e.kind IN ('hide', 'seen') AND e.target = c.post)
ORDER BY c.n`
)

func openPostgres(ctx context.Context, r *run) (*postgres, error) {
	server := pgtest.Start(r.host, "shared_buffers=1GB", "max_wal_size=4GB") //nolint:contextcheck // the host has it
	config, err := pgxpool.ParseConfig(server.URL())
	if err != nil {
		return nil, err
	}
	config.MaxConns = goroutines
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	r.host.Cleanup(pool.Close)
	_, err = pool.Exec(ctx, createEntries)
	return &postgres{pool}, err
}

func (p *postgres) load(ctx context.Context, people *bench.Population) error {
	return p.copy(ctx, keysOf(people.Activities()))
}

func (p *postgres) loadSeen(ctx context.Context, people *bench.Population) error {
	if err := p.copy(ctx, keysOf(people.Seen())); err != nil {
		return err
	}
	_, err := p.pool.Exec(ctx, "VACUUM ANALYZE entries")
	return err
}

func (p *postgres) copy(ctx context.Context, all iter.Seq[entry]) error {
	next, stop := iter.Pull(all)
	defer stop()
	_, err := p.pool.CopyFrom(ctx, pgx.Identifier{"entries"}, []string{"owner", "kind", "target"}, pgx.CopyFromFunc(func() ([]any, error) {
		e, ok := next()
		if !ok {
			return nil, nil
		}
		return []any{e.Owner, e.Kind, e.Target}, nil
	}))
	return err
}

func (p *postgres) check(ctx context.Context, f *bench.Feed, dropped []bool) error {
	posts, authors := make([]string, len(f.Posts)), make([]string, len(f.Posts))
	for i := range f.Posts {
		posts[i], authors[i] = f.Posts[i].ID, f.Posts[i].Author
	}
	rows, err := p.pool.Query(ctx, keepQuery, f.Viewer, posts, authors)
	if err != nil {
		return err
	}
	kept, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for i := range dropped {
		dropped[i] = true
	}
	for _, n := range kept {
		if n < 1 || n > int64(len(f.Posts)) {
			return fmt.Errorf("candidate %d of %d is kept", n, len(f.Posts))
		}
		if dropped != nil {
			dropped[n-1] = false
		}
	}
	return nil
}

// bytes returns the size of the table and its index.
func (p *postgres) bytes(ctx context.Context) (int64, error) {
	var n int64
	err := p.pool.QueryRow(ctx, "SELECT pg_total_relation_size('entries')").Scan(&n)
	return n, err
}

func (p *postgres) unhide(ctx context.Context, f *bench.Feed) error {
	batch := &pgx.Batch{}
	for _, post := range f.Posts {
		batch.Queue("DELETE FROM entries WHERE owner = $1 AND kind = 'hide' AND target = $2", f.Viewer, post.ID)
	}
	return p.pool.SendBatch(ctx, batch).Close()
}

func (p *postgres) write(keys int) bench.Call {
	next := newPosts("row", keys)
	return bench.Call{Name: "INSERT", Do: func(ctx context.Context, _ int) error {
		posts := make([]string, keys)
		for i := range posts {
			posts[i] = next()
		}
		tag, err := p.pool.Exec(ctx, insertHides, posts)
		if err == nil && tag.RowsAffected() == 0 {
			err = errors.New("nothing was inserted")
		}
		return err
	}}
}
