package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// postgres is an exact table. A feed check is one query that returns the candidates to be kept.
type postgres struct{ pool *pgxpool.Pool }

const (
	createEntries = `CREATE TABLE entries (
		owner text, kind text, target text, PRIMARY KEY (owner, kind, target))`
	insertHides = `INSERT INTO entries SELECT 'writer', 'hide', p FROM unnest($1::text[]) AS p`
	keepQuery   = `SELECT c.n
		FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS c(post, author, n)
		WHERE NOT EXISTS (SELECT FROM entries e
				WHERE e.owner = $1 AND e.kind IN ('block', 'blocked-by') AND e.target = c.author)
			AND NOT EXISTS (SELECT FROM entries e
				WHERE e.owner = $1 AND e.kind IN ('hide', 'seen') AND e.target = c.post)
		ORDER BY c.n`
)

// openPostgres adds the row of a table in PostgreSQL.
func (r *run) openPostgres(ctx context.Context) error {
	server := pgtest.Start(r.host, "shared_buffers=1GB", "max_wal_size=4GB")
	config, err := pgxpool.ParseConfig(server.URL())
	if err != nil {
		return err
	}
	config.MaxConns = goroutines
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	r.host.Cleanup(pool.Close)
	if _, err := pool.Exec(ctx, createEntries); err != nil {
		return err
	}
	all := everything(r.people)
	rows := pgx.CopyFromSlice(len(all), func(i int) ([]any, error) {
		return []any{all[i].owner, all[i].kind, all[i].target}, nil
	})
	columns := []string{"owner", "kind", "target"}
	if _, err := pool.CopyFrom(ctx, pgx.Identifier{"entries"}, columns, rows); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE entries"); err != nil {
		return err
	}
	var bytes int64 // of the table and its index
	err = pool.QueryRow(ctx, "SELECT pg_total_relation_size('entries')").Scan(&bytes)
	if err != nil {
		return err
	}
	p := &postgres{pool}
	r.add(&way{
		name:   "PostgreSQL, anti-join",
		word:   "postgres",
		exact:  true,
		checks: each(p.check),
		write:  p.write,
		bytes:  float64(bytes) / float64(len(all)),
	})
	return nil
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
	if err != nil || dropped == nil {
		return err
	}
	for i := range dropped {
		dropped[i] = true
	}
	for _, n := range kept {
		if n < 1 || n > int64(len(f.Posts)) {
			return fmt.Errorf("candidate %d of %d is kept", n, len(f.Posts))
		}
		dropped[n-1] = false
	}
	return nil
}

func (p *postgres) write(keys int) bench.Call {
	next := newPosts("row", keys)
	return bench.Call{Name: "INSERT", Do: func(ctx context.Context, _ int) error {
		posts := make([]string, keys)
		for i := range posts {
			posts[i] = next()
		}
		_, err := p.pool.Exec(ctx, insertHides, posts)
		return err
	}}
}
