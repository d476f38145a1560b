package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/tasks"
)

// oneRun is the argument of commands for a run.
type oneRun struct {
	ID     string `arg:"" name:"run" help:"Run id."`
	Tenant string `noenv:"true" placeholder:"NAME" help:"Tenant of the run, if several have one of that id."`
}

// readRun connects to read, and returns the run.
func (t *tool) readRun(ctx context.Context, of oneRun) (ledger.Run, error) {
	if err := t.connectToRead(ctx); err != nil {
		return ledger.Run{}, err
	}
	return t.find(ctx, of)
}

// find returns the run. Without a tenant it looks in all of them.
func (t *tool) find(ctx context.Context, of oneRun) (ledger.Run, error) {
	if err := ifGiven(of.Tenant, tasks.CheckTenant); err != nil {
		return ledger.Run{}, cli.Usage(err)
	}
	run, err := t.ledger.Get(ctx, ledger.Tenant(of.Tenant), ledger.RunID(of.ID))
	return run, nameTenant(err)
}

// nameTenant adds to the error of an id that several tenants have how to choose one.
func nameTenant(err error) error {
	if _, ok := errors.AsType[*ledger.AmbiguousError](err); ok {
		return cli.Usage(cli.Fixed(err, "name it by --tenant"))
	}
	return err
}

// oneDomain is a single domain instead of a file.
type oneDomain struct {
	Org    string `noenv:"true" placeholder:"ORG" help:"Organization id of a single domain, instead of a file."`
	Domain string `noenv:"true" placeholder:"ID" help:"Discovery domain id in that organization."`
}

func (o oneDomain) check() error {
	if o.Org == "" || o.Domain == "" {
		return cli.Usage(errors.New("--org and --domain go together: a domain is named by both"))
	}
	return nil
}

// row is the single row, or nil where a file is meant.
func (o oneDomain) row() ([]byte, error) {
	if o == (oneDomain{}) {
		return nil, nil
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"organization_id": o.Org, "discovery_domain_id": o.Domain})
}

// ifGiven checks a flag that may be empty.
func ifGiven(value string, check func(string) error) error {
	if value == "" {
		return nil
	}
	return check(value)
}

// flag is a flag, and whether it is given.
type flag struct {
	given bool
	name  string
}

// firstGiven names the first of the flags that is given; "": none is.
func firstGiven(flags ...flag) string {
	for _, f := range flags {
		if f.given {
			return f.name
		}
	}
	return ""
}

// parseNotBefore reads when the rows of a run may start: a time, or a duration from now
// on. An empty text is the zero time.
func parseNotBefore(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if after, bad := time.ParseDuration(text); bad == nil {
		at, err = now.Add(after), nil
	}
	switch {
	case err != nil:
		return time.Time{},
			fmt.Errorf(
				"not-before: want a time such as 2026-12-01T02:00:00Z, or a duration from now on such as 8h, got %.40q", text)
	case !at.After(now):
		return time.Time{}, fmt.Errorf("not-before: %s is in the past", at.UTC().Format(time.RFC3339))
	}
	return at.UTC(), nil
}
