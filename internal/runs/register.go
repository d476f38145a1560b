package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Register creates a run of the rows that came with a task of that generation: at
// most [ChunkRows], each a JSON object. The run is like any other, sealed at once, but
// List leaves it out, as there may be very many. Where the same rows are there
// already nothing changes; where others are, the error is a [MismatchError].
//
// A task may outlive its run: for 30 days after a registered run was deleted the error
// is [ErrNotFound].
func (l *Ledger) Register(ctx context.Context, run, kind, tenant string, generation int, createdAt time.Time, rows [][]byte) error {
	if len(rows) == 0 || len(rows) > ChunkRows {
		return fmt.Errorf("run %s: register %d rows: want 1 to %d", run, len(rows), ChunkRows)
	}
	plain := join(rows)
	sum := sha256.Sum256(plain)
	r := Run{ID: run, Kind: kind, Tenant: tenant, Format: "jsonl", Digest: hex.EncodeToString(sum[:]), First: generation}
	if err := checkNew(r); err != nil {
		return err
	}
	if err := l.checkFree(ctx, run, kind); err != nil {
		return err
	}
	packed, err := deflate(plain)
	if err != nil {
		return fmt.Errorf("run %s: register: %w", run, err)
	}
	fields, err := r.fields()
	if err != nil {
		return fmt.Errorf("run %s: register: %w", run, err)
	}
	want := map[string]string{"kind": kind, "tenant": tenant, "content": r.Digest}
	created := strconv.FormatInt(toMillis(createdAt), 10)
	args := append([]any{kind, tenant, r.Digest, created, len(rows), sum[:], packed}, fields...)
	if err := l.noteSingle(ctx, run); err != nil { // first, so that none is left out
		return fmt.Errorf("run %s: register: %w", run, err)
	}
	status, _, err := l.do(ctx, registerScript, run, want, args...)
	if err == nil && status == "created" {
		err = l.rdb.SAdd(ctx, sealedKey, run).Err()
	}
	if err != nil {
		return fmt.Errorf("run %s: register: %w", run, err)
	}
	return nil
}
