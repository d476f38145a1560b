package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"orgops/dnscheck/dnsname"
	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
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
	if err := ifGiven(of.Tenant, ids.CheckTenant); err != nil {
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
		o.Domain = name
		o.noFile = true
		*file = ""
	}
}

// row returns the single row and its tenant, which is the named one, or else that of the domain;
// nil where a file is meant.
func (o oneDomain) row(ctx context.Context, t *tool, tenant string) (row []byte, of string, err error) {
	if o.Org == "" && o.Domain == "" {
		return nil, cmp.Or(tenant, tasks.DefaultTenant), nil
	}

	// A worker finds the id of a name of an organization.
	if o.byName && o.isName() && o.Org != "" {
		if tenant == "" {
			if tenant, err = o.tenantOfName(ctx, t); err != nil {
				return nil, "", err
			}
		}
		row, err = json.Marshal(map[string]string{"organization_id": o.Org, "domain": dnsname.Typed(o.Domain)})
		return row, tenant, err
	}

	name, err := o.named(ctx, t, tenant)
	if err != nil {
		return nil, "", err
	}
	members := map[string]string{"organization_id": name.Organization, "discovery_domain_id": name.ID}
	if o.byName && o.isName() {
		members["domain"] = dnsname.Typed(o.Domain)
	}
	row, err = json.Marshal(members)
	return row, name.Tenant, err
}

func (o oneDomain) isName() bool { return strings.Contains(o.Domain, ".") }

// check checks the flags.
func (o oneDomain) check(tenant string) error {
	if o.Domain == "" {
		return cli.Usage(errors.New("--org names the organization of a domain: name the domain by --domain"))
	}
	err := errors.Join(ifGiven(tenant, ids.CheckTenant), ifGiven(o.Org, tasks.CheckOrganization))
	if !o.isName() {
		err = errors.Join(err, tasks.CheckDomainID(o.Domain))
	}
	return cli.Usage(err)
}

// named returns the domain's ids. Those that are not given are those of the only domain of that
// name or id, in the named tenant or in whichever has it.
func (o oneDomain) named(ctx context.Context, t *tool, tenant string) (status.DomainName, error) {
	name := status.DomainName{Tenant: tenant, Organization: o.Org, ID: o.Domain}
	if err := o.check(tenant); err != nil {
		return name, err
	}
	hasIDs := o.Org != "" && !o.isName()
	if tenant != "" && hasIDs {
		return name, nil
	}
	all, similar, err := o.lookUp(ctx, t, tenant)
	if err != nil {
		return name, err
	}
	switch {
	case len(all) == 1:
		return all[0].DomainName, nil
	case hasIDs: // of a domain of which no row was executed yet
		name.Tenant = tasks.DefaultTenant
		return name, nil
	}
	return name, o.unknown(ctx, t, name, similar)
}

// tenantOfName returns the tenant that has a domain of the name in the organization, or else the
// default one.
func (o oneDomain) tenantOfName(ctx context.Context, t *tool) (string, error) {
	if err := o.check(""); err != nil {
		return "", err
	}
	all, _, err := o.lookUp(ctx, t, "")
	if err != nil || len(all) == 0 {
		return tasks.DefaultTenant, err
	}
	return all[0].Tenant, nil
}

// mostCandidates is how many domains an error lists.
const mostCandidates = 10

// lookUp returns the only domain of that name or id, in a list; it is empty if there is none, and
// similar are those whose names begin so. Several are an error that lists them.
func (o oneDomain) lookUp(ctx context.Context, t *tool, tenant string) (all, similar []status.KnownDomain, err error) {
	if err := t.connectToRead(ctx); err != nil {
		return nil, nil, err
	}
	found, err := status.Find(ctx, t.redis, status.DomainQuery{Tenant: tenant, ID: o.Domain, Name: o.Domain,
		Organization: o.Org, Swept: true, Most: mostCandidates})
	if none, ok := errors.AsType[*status.NoTenantError](err); ok {
		return nil, nil, t.unknownTenant(ctx, none.Name, "")
	}
	if err != nil || found.Prefix || len(found.Domains) == 0 {
		return nil, found.Domains, err
	}
	if len(found.Domains) == 1 {
		return found.Domains, nil, nil
	}

	// Several have it: by which flags they differ.
	what := "several tenants"
	flags := "--tenant and --org"
	if inOneTenant(found.Domains) {
		what = "several organizations of tenant " + found.Domains[0].Tenant
		flags = "--org"
	}
	err = fmt.Errorf("%s have domain %s: %s", what, status.Shown(o.Domain), listed(found.Domains))
	return nil, nil, cli.Usage(remedy.With(err, "name one of them by %s", flags))
}

// unknown is the error of a domain that was not found, with those whose names begin so.
func (o oneDomain) unknown(ctx context.Context, t *tool, asked status.DomainName, similar []status.KnownDomain) error {
	if asked.Tenant == "" {
		asked.Tenant = t.onlyTenant(ctx)
	}
	where := ""
	if asked.Organization != "" {
		where += " of organization " + asked.Organization
	}
	if asked.Tenant != "" {
		where += " of tenant " + asked.Tenant
	}
	err := fmt.Errorf("no domain %s%s is known here", status.Shown(asked.ID), where)
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
	return remedy.With(err, "%s, or name %s", status.LearnNames(asked.Tenant), also)
}

// inOneTenant reports whether all domains are of one tenant. They are in the order of their
// tenants.
func inOneTenant(all []status.KnownDomain) bool { return all[0].Tenant == all[len(all)-1].Tenant }

// listed returns domains in a line, with their tenants if there are several of these.
func listed(all []status.KnownDomain) string {
	var texts []string
	for _, k := range all {
		of := k.Organization
		if !inOneTenant(all) {
			of += " of tenant " + k.Tenant
		}
		texts = append(texts, fmt.Sprintf("%s of %s (%s, %s)", status.Shown(k.Name), of, k.ID, k.Status))
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

// parseSince reads a time of the flag --since.
func parseSince(text string) (time.Time, error) {
	at, err := cli.ParseAgo(text, time.Now())
	if err != nil {
		return time.Time{}, fmt.Errorf("since: %w", err)
	}
	return at, nil
}

// parseNotBefore reads when the rows of a run may start. An empty text is the zero time.
func parseNotBefore(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := cli.ParseAhead(text, now)
	if err != nil {
		return time.Time{}, fmt.Errorf("not-before: %w", err)
	}
	if !at.After(now) {
		return time.Time{}, fmt.Errorf("not-before: %s is in the past", stamp.UTC(at))
	}
	return at, nil
}
