package scan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/semaphore"

	"orgops/apiclient"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/tasks/handlers"
)

// Config configures the scans of a tenant.
type Config struct {
	API    func(apiclient.Binding) API
	States States
	Lists  Lists
	// Protected reports whether no client is removed from an organization everywhere; nil: none is
	// protected.
	Protected func(organization string) bool
	Logger    *slog.Logger
}

// Handlers returns the handlers of the scans' rows, by kind.
func Handlers(cfg Config) map[ledger.Kind]engine.Handler {
	requests := semaphore.NewWeighted(Parallel)
	of := func(request request, ofSweep bool) engine.Handler {
		return engine.One(scanner{cfg.API, request, ofSweep, cfg.Lists, cfg.Protected, requests, cfg.Logger}.scan)
	}
	return map[ledger.Kind]engine.Handler{
		ledger.ScanOf(handlers.Verify):  of(pending{}, false),
		ledger.ScanOf(handlers.Recheck): of(swept{cfg.States}, true),
		ledger.ScanOf(handlers.Remove):  of(nil, false), // it reads no domains
	}
}

// scanFor is how long an execution goes on to make steps. The next one begins up to a second later.
const scanFor = 10 * time.Second

// scan makes one step after the other. Attempts count for a step, not for the scan. The last one
// ends the scan early: the rows that were found stay, and the organizations that were not reached
// are counted.
func (s scanner) scan(ctx context.Context, x *engine.Execution, row *engine.Row) *engine.Consequence {
	at, err := readPosition(row.Content)
	if err != nil {
		return engine.Fail(err)
	}

	// A scan reads domains, or the organizations that have a client.
	r := &reader{scanner: s, x: x}
	read := r.read
	if at.Client != "" {
		read = (&clientSearch{reader: r}).read
	}

	// Step by step, each stored with the rows that it has found, until the scan ends or its time is
	// up: then another execution goes on from the stored position.
	for begun := x.Now(); !at.Ended; {
		switch {
		case x.Stopping():
			return engine.Fail(engine.ErrStopping)
		case x.Now().Sub(begun) >= scanFor:
			return engine.Later("", 0)
		}

		// An error that does not pass ends the scan with the rows that it has.
		o, err := read(ctx, at, row.Attempts >= putOffAfter)
		if why := early(row, err); why != "" && !errors.Is(ctx.Err(), context.Canceled) {
			s.logger.ErrorContext(ctx, "scan ends early", "run", x.Run, "reason", why)
			o = at.givenUp(why)
			err = nil
		}
		var step ledger.ScanStep
		if err == nil {
			step, err = o.step()
		}
		if err == nil {
			err = x.AddStep(ctx, step)
		}
		if err != nil {
			return engine.Fail(err)
		}
		row.Progressed()
		at = o.position
	}
	s.logger.InfoContext(ctx, "scan has found its rows", "run", x.Run, "kind", x.Kind, "organizations_read", at.Read,
		"organizations_missed", at.Missed, "ended_early", at.Early)
	return engine.Settle(ledger.Result{})
}

// early returns why the error of a step ends the scan; "": it does not.
func early(row *engine.Row, err error) string {
	switch j := engine.Decide(err); {
	case err == nil:
		return ""
	case ledger.Settles(j.Outcome):
		return j.Reason
	case j.Counts && row.Attempts+1 >= engine.MaxAttempts:
		return fmt.Sprintf("given up after %d attempts: %s", row.Attempts+1, j.Reason)
	}
	return ""
}
