package ledger

import (
	"context"
	"fmt"
	"strconv"

	"orgops/internal/untrusted"
)

const (
	// schemaKey holds the version of the data in Redis, in decimal digits.
	schemaKey = "orgops:schema"
	// schema is the version that this package reads and writes.
	schema = 4
)

// SchemaError says that Redis holds data that this version must neither read nor change.
type SchemaError struct{ reason string }

// Error names the data in Redis, and the remedy.
func (e *SchemaError) Error() string { return e.reason }

// CheckSchema marks an empty Redis with the version of this package, and otherwise returns
// what [Ledger.ReadSchema] does.
func (l *Ledger) CheckSchema(ctx context.Context) error {
	if stored, err := l.readSchema(ctx); err != nil || stored {
		return err
	}
	if err := l.rdb.SetNX(ctx, schemaKey, schema, 0).Err(); err != nil {
		return fmt.Errorf("write the schema version: %w", noMemory(err))
	}
	return l.ReadSchema(ctx) // another process may have been first
}

// ReadSchema returns a [SchemaError] if Redis holds data that this version cannot use. An
// empty Redis is no error. It changes nothing.
func (l *Ledger) ReadSchema(ctx context.Context) error {
	_, err := l.readSchema(ctx)
	return err
}

// readSchema reports whether a version is stored that this package can use.
func (l *Ledger) readSchema(ctx context.Context) (stored bool, err error) {
	text, err := l.rdb.Get(ctx, schemaKey).Result()
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the schema version: %w", err)
	}
	version, err := strconv.Atoi(text)
	switch {
	case err != nil || version <= 0:
		return false,
			&SchemaError{fmt.Sprintf("redis key %s holds %s, which is no version: is this Redis orgops's own?",
				schemaKey, untrusted.Value(text))}
	case version > schema:
		return false,
			&SchemaError{
				fmt.Sprintf("redis holds runs of version %d, this orgops knows versions up to %d: use a newer orgops",
					version, schema),
			}
	case version < schema:
		return false, &SchemaError{fmt.Sprintf(
			"redis holds data of version %d, which this orgops cannot read: let its runs end with the older orgops, stop that, and start this one on an empty Redis", version)}
	}
	return true, nil
}
