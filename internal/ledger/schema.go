package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const (
	// schemaKey holds the version of the data in Redis, in decimal digits.
	schemaKey = "orgops:schema"
	// schema is the version that this package reads and writes.
	schema = 2
	// formerSchema is the version of the ledger before this one. Its data other than runs is
	// still in use, such as the states of domains.
	formerSchema = 1
	// formerRuns is the sorted set of its runs, by their creation.
	formerRuns = "orgops:v1:runs"
)

var takeOverScript = redis.NewScript(source("schema_take_over"))

// SchemaError says that Redis holds data that this version must neither read nor change.
type SchemaError struct{ reason string }

// Error names the data in Redis, and the remedy.
func (e *SchemaError) Error() string { return e.reason }

// CheckSchema marks an empty Redis with the version of this package, takes over one of the
// former version that has no runs, and otherwise returns what [Ledger.ReadSchema] does.
func (l *Ledger) CheckSchema(ctx context.Context) error {
	version, err := l.readSchema(ctx)
	if err != nil || version == schema {
		return err
	}
	if version == 0 {
		err = l.markEmpty(ctx)
	} else {
		err = takeOverScript.Run(ctx, l.rdb, []string{schemaKey}, formerSchema, schema).Err()
	}
	if err != nil {
		return fmt.Errorf("write the schema version: %w", noMemory(err))
	}
	return l.ReadSchema(ctx) // another process may have been first
}

// markEmpty stores the version in an empty Redis, and that its servers have forgotten nothing.
// They are read before: once the version is stored, a server may forget a write.
func (l *Ledger) markEmpty(ctx context.Context) error {
	servers, err := l.servers(ctx)
	if err != nil {
		return err
	}
	first, err := l.rdb.SetNX(ctx, schemaKey, schema, 0).Result()
	if err != nil || !first {
		return err
	}
	for _, s := range servers {
		if s != "" {
			err = errors.Join(err, l.rdb.HSetNX(ctx, serversKey, string(s), 0).Err())
		}
	}
	return err
}

// ReadSchema returns a [SchemaError] if Redis holds data that this version cannot use. An
// empty Redis is no error, nor is one that [Ledger.CheckSchema] would take over. It changes
// nothing.
func (l *Ledger) ReadSchema(ctx context.Context) error {
	_, err := l.readSchema(ctx)
	return err
}

// readSchema returns the stored version if this version can use the data; 0 if none is
// stored.
func (l *Ledger) readSchema(ctx context.Context) (version int, err error) {
	text, err := l.rdb.Get(ctx, schemaKey).Result()
	if absent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	version, err = strconv.Atoi(text)
	switch {
	case err != nil || version < formerSchema:
		return 0, &SchemaError{fmt.Sprintf("redis key %s holds %s, which is no version: is this Redis orgops's own?", schemaKey, quoted(text))}
	case version > schema:
		return 0, &SchemaError{fmt.Sprintf("redis holds runs of version %d, this orgops knows versions up to %d: use a newer orgops", version, schema)}
	case version == formerSchema:
		return version, l.noFormerRuns(ctx)
	}
	return version, nil
}

// noFormerRuns returns a [SchemaError] if there are runs of the former version. They are in
// its index, which is in another slot of a Cluster than the schema.
func (l *Ledger) noFormerRuns(ctx context.Context) error {
	n, err := l.rdb.ZCard(ctx, formerRuns).Result()
	if err != nil {
		return fmt.Errorf("count runs of version %d: %w", formerSchema, err)
	}
	if n == 0 {
		return nil
	}
	first, err := l.rdb.ZRange(ctx, formerRuns, 0, 0).Result()
	if err != nil {
		return fmt.Errorf("read runs of version %d: %w", formerSchema, err)
	}
	if len(first) == 0 { // deleted meanwhile
		return nil
	}
	return &SchemaError{fmt.Sprintf(
		"redis holds runs of version %d, which this orgops cannot read (number: %d, oldest: %s): with the older orgops list them (enqueue runs list), "+
			"let them end or cancel them, and delete each (enqueue runs delete), then start this one again", formerSchema, n, quoted(first[0]))}
}
