package ledger

import (
	"context"
	"fmt"
	"strconv"
)

const (
	// PageFormat is the latest format version of pages that this version of the program reads. The
	// ledger does not interpret it, but keeps what all processes may build.
	PageFormat = 4
	// firstPageFormat is that of ledgers that do not say another.
	firstPageFormat = 3

	pageFormatName = "page_format" // in the table meta
)

// PageFormats says in which format version processes build pages.
type PageFormats struct {
	Built int // the version to build
	// Older is set while a process is connected that cannot read pages of version [PageFormat]. It
	// does not count processes that have not called Agree.
	Older bool
}

// PageFormats returns in which format version processes build pages: [PageFormat] in a new ledger,
// and an earlier one in a ledger that was made before that, until RaisePageFormat.
func (l *Ledger) PageFormats(ctx context.Context) (PageFormats, error) {
	c, what := &Call{Operation: "page_formats"}, "ledger: read the format of pages"
	return ask(ctx, l, c, what, func(ctx context.Context) (f PageFormats, err error) {
		meta, err := readMeta(ctx, l.db)
		if err != nil {
			return f, err
		}
		if f.Built, err = builtFormat(meta); err != nil || f.Built >= PageFormat {
			return f, err
		}
		f.Older, err = l.db.older(ctx)
		return f, err
	})
}

// RaisePageFormat makes [PageFormat] the version to build. A process that cannot read it would
// rebuild each page that it meets, and others would rebuild it again. So the caller must know from
// PageFormats that there has been none for some time: one may have lost its connection for a
// moment. Repeating the call is safe.
func (l *Ledger) RaisePageFormat(ctx context.Context) error {
	what := "ledger: raise the format of pages"
	return run(ctx, l, "raise_page_format", what, func(ctx context.Context) error {
		return update(ctx, l.db, putPageFormat())
	})
}

func putPageFormat() statement {
	return statement{sql: putMetaSQL, args: []any{pageFormatName, strconv.Itoa(PageFormat)}}
}

func builtFormat(meta map[string]string) (int, error) {
	value, ok := meta[pageFormatName]
	if !ok {
		return firstPageFormat, nil
	}
	format, err := strconv.Atoi(value)
	if err != nil {
		return 0, fmt.Errorf("damaged format of pages: %q", value)
	}
	return format, nil
}

// older reports whether a process holds a lock for its settings, but none for a format of pages.
func (d *postgresDatabase) older(ctx context.Context) (older bool, err error) {
	err = d.query(ctx, statement{
		sql: olderSQL, args: []any{d.settingsKey, d.formatKey}, into: []any{&older},
	})
	return older, err
}

// older is false: one process has the file open.
func (d *sqliteDatabase) older(context.Context) (bool, error) { return false, nil }
