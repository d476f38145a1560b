package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// remembered reads and writes what is remembered of domains, for the handlers.
type remembered struct{ cfg Config }

// errRememberedMeanwhile leaves a domain to another execution that has just written.
var errRememberedMeanwhile = later("another execution has changed the state of this domain meanwhile", time.Second)

// read is what is remembered of a domain, and the bytes that say so.
func (r remembered) read(ctx context.Context, id string) (m Memory, raw []byte, err error) {
	if raw, err = r.cfg.Memories.Memory(ctx, id); err != nil || raw == nil {
		return m, nil, err
	}
	m, err = ReadMemory(raw)
	return m, raw, err
}

// write replaces what is remembered, tells what has not been told, and returns the
// bytes that are there then.
func (r remembered) write(ctx context.Context, id string, former []byte, m *Memory, counted ...string) (raw []byte, err error) {
	if r.cfg.Notices == nil {
		m.Untold = nil
	}
	if raw, err = json.Marshal(m); err != nil {
		return nil, fmt.Errorf("store the state of domain %s: %w", id, err)
	}
	if !bytes.Equal(raw, former) {
		ok, err := r.cfg.Memories.Remember(ctx, id, former, raw, m.attended(), m.Tick, counted...)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errRememberedMeanwhile
		}
	}
	return r.tell(ctx, id, raw, m)
}

// tell tells what has not been told, and then forgets that. An execution that is
// killed in between leaves it to the next one, so that each is told at least once.
func (r remembered) tell(ctx context.Context, id string, former []byte, m *Memory) (raw []byte, err error) {
	if len(m.Untold) == 0 {
		return former, nil
	}
	for _, n := range m.Untold {
		if r.cfg.Notices == nil {
			break
		}
		n.Data.Tenant = r.cfg.Tenant
		if err := r.cfg.Notices.Tell(ctx, n); err != nil {
			return nil, fmt.Errorf("notify %s: %w", n.Type, err)
		}
	}
	m.Untold = nil
	if raw, err = json.Marshal(m); err != nil {
		return nil, fmt.Errorf("store the state of domain %s: %w", id, err)
	}
	ok, err := r.cfg.Memories.Remember(ctx, id, former, raw, m.attended(), m.Tick)
	if err == nil && !ok {
		err = errRememberedMeanwhile
	}
	return raw, err
}

// change reads, changes and writes, until nobody comes in between.
func (r remembered) change(ctx context.Context, id string, do func(Memory) (after Memory, counted []string)) (Memory, error) {
	m, raw, err := r.read(ctx, id)
	if err != nil {
		return m, err
	}
	return r.changeRead(ctx, id, m, raw, do)
}

// changeRead is change of what was read before.
func (r remembered) changeRead(ctx context.Context, id string, m Memory, raw []byte, do func(Memory) (after Memory, counted []string)) (Memory, error) {
	const tries = 5
	for try := range tries {
		var err error
		if try > 0 {
			if m, raw, err = r.read(ctx, id); err != nil {
				return m, err
			}
		}
		after, counted := do(m)
		if raw == nil && after.V == 0 {
			return after, nil // nothing was remembered, and nothing is to be
		}
		if _, err = r.write(ctx, id, raw, &after, counted...); !errors.Is(err, errRememberedMeanwhile) {
			return after, err
		}
	}
	return Memory{}, errRememberedMeanwhile
}

// forget forgets a domain that is no more.
func (r remembered) forget(ctx context.Context, id string) error {
	m, raw, err := r.read(ctx, id)
	if err != nil || raw == nil {
		return err
	}
	if raw, err = r.tell(ctx, id, raw, &m); err != nil {
		return err
	}
	ok, err := r.cfg.Memories.Remember(ctx, id, raw, nil, false, m.Tick)
	if err == nil && !ok {
		err = errRememberedMeanwhile
	}
	return err
}
