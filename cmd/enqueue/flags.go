package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"orgops/apiclient/schema"
	"orgops/dnscheck/dnsname"
	"orgops/internal/cli"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/tasks"
)

type oneRun struct {
	ID     string `arg:"" name:"run" help:"Run id."`
	Tenant string `noenv:"true" placeholder:"NAME" help:"Tenant of the run, if several have one of that id."`
}

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
	return run, t.unknownRun(ctx, of.Tenant, []string{of.ID}, err)
}

// oneDomain is a single domain instead of a file.
type oneDomain struct {
	Org    string `noenv:"true" placeholder:"ORG" help:"Organization id of a single domain, if several have it or no row about it was executed yet."`
	Domain string `noenv:"true" placeholder:"NAME|ID" help:"A single domain instead of a file: its name or its discovery domain id."`
	noFile bool   // the domain was given as a file, which does not exist
	byName bool   // a row may have the domain's name
}

// take sets the domain if the file argument is a domain's name, and no such file exists.
func (o *oneDomain) take(file *string) {
	name := *file
	switch path.Ext(name) {
	case ".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".gz":
		return
	}
	if _, err := dnsname.CheckDomain(name); err != nil || o.Domain != "" {
		return
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		o.Domain, o.noFile, *file = name, true, ""
	}
}

// row is the single row, or nil where a file is meant.
func (o oneDomain) row(ctx context.Context, t *tool, tenant string) ([]byte, error) {
	if o.Org == "" && o.Domain == "" {
		return nil, nil
	}
	members := map[string]string{"organization_id": o.Org}
	if o.byName && strings.Contains(o.Domain, ".") {
		members["domain"] = o.Domain
	}
	if o.Org == "" || members["domain"] == "" { // else a worker finds it
		name, err := o.named(ctx, t, tenant)
		if err != nil {
			return nil, err
		}
		members["organization_id"], members["discovery_domain_id"] = name.Organization, name.ID
	}
	return json.Marshal(members)
}

// named returns the domain's ids. Unless they are given, they are those of the index of names.
func (o oneDomain) named(ctx context.Context, t *tool, tenant string) (status.DomainName, error) {
	name, isName := status.DomainName{Tenant: tenant, Organization: o.Org, ID: o.Domain}, strings.Contains(o.Domain, ".")
	err := errors.Join(tasks.CheckTenant(tenant), ifGiven(o.Org, tasks.CheckOrganization))
	if o.Domain == "" {
		err = errors.New("--org names the organization of a domain: name the domain by --domain")
	} else if !isName {
		err = errors.Join(err, schema.CheckID("discovery_domain_id", o.Domain))
	}
	if err != nil {
		return name, cli.Usage(err)
	}
	if !isName && o.Org != "" {
		return name, nil
	}
	if err := t.connectToRead(ctx); err != nil {
		return name, err
	}
	found, err := status.Find(ctx, t.ledger, tenant, o.Domain, mostCandidates,
		func(k status.KnownDomain) bool { return o.Org == "" || o.Org == k.Organization })
	switch all := found.Domains; {
	case err != nil:
		return name, err
	case found.Prefix:
		return name, o.unknown(name, all)
	case len(all) > 1:
		return name, cli.Usage(cli.Fixed(fmt.Errorf("several organizations of tenant %s have domain %s: %s", tenant,
			status.Shown(o.Domain), listed(all)), "name one of them by --org"))
	default:
		return all[0].DomainName, nil
	}
}

// mostCandidates is how many domains an error lists.
const mostCandidates = 10

// unknown is the error of a domain that is not in the index of names, and those whose names
// begin so.
func (o oneDomain) unknown(asked status.DomainName, similar []status.KnownDomain) error {
	where := "tenant " + asked.Tenant
	if asked.Organization != "" {
		where = "organization " + asked.Organization + " of " + where
	}
	err := fmt.Errorf("no domain %s of %s is known here", status.Shown(asked.ID), where)
	if o.noFile {
		err = fmt.Errorf("no such file, and %w", err)
	}
	if len(similar) > 0 {
		err = fmt.Errorf("%w; there is %s", err, listed(similar))
	}
	also := "it by --org and its id"
	if o.byName {
		also = "its organization by --org"
	}
	return cli.Fixed(err, "%s, or name %s", status.LearnNames(asked.Tenant), also)
}

func listed(all []status.KnownDomain) string {
	var texts []string
	for _, k := range all {
		texts = append(texts, fmt.Sprintf("%s of %s (%s, %s)", status.Shown(k.Name), k.Organization, k.ID, k.Status))
	}
	return strings.Join(texts, ", ")
}

// ifGiven checks a flag that may be empty.
func ifGiven(value string, check func(string) error) error {
	if value == "" {
		return nil
	}
	return check(value)
}

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
	if after, bad := cli.ParseDuration(text); bad == nil {
		at, err = now.Add(after), nil
	}
	switch {
	case err != nil:
		return time.Time{},
			fmt.Errorf(
				"not-before: want a time such as 2026-12-01T02:00:00Z, or a duration from now on such as 8h or 2d, got %.40q", text)
	case !at.After(now):
		return time.Time{}, fmt.Errorf("not-before: %s is in the past", at.UTC().Format(time.RFC3339))
	}
	return at.UTC(), nil
}
