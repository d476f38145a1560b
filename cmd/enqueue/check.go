package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
	"orgops/internal/cli"
	"orgops/internal/discovery"
	"orgops/internal/rowfile"
	"orgops/internal/status"
	"orgops/internal/terminal"
	"orgops/tasks"
)

type checkCommand struct {
	File string `arg:"" optional:"" help:"A domain's name; or a CSV file with a header, JSON Lines, or a JSON array, with verification_host and verification_txt, which may be gzipped. -: read standard input."`
	Host string `noenv:"true" placeholder:"NAME" help:"Full name of the TXT record."`
	TXT  string `name:"txt" noenv:"true" placeholder:"VALUE" help:"Expected value of the TXT record."`
	oneDomain
	Tenant string `placeholder:"NAME" help:"Tenant of the domain, whose resolvers are queried (default: the one that has the domain; of other records, default)."`
	rowsFlags
	Resolvers      []string `placeholder:"A,B,C" help:"Resolvers to query: ADDRESS, tcp://ADDRESS or https://ADDRESS/dns-query#NAME, with or without @PERSPECTIVE (default: the DNS settings of the tenant's workers if Redis has them, else the worker's defaults)."`
	ResolverQuorum int      `default:"0" help:"Resolvers that must return the token (default and minimum: all of two, all but one of three to five, all but two of six or more)."`
	RequireDNSSEC  bool     `name:"require-dnssec" help:"Count only answers authenticated by DNSSEC."`
	DNSMode        string   `name:"dns-mode" placeholder:"MODE" help:"Servers to query: authority (the domain's own name servers, then the resolvers; default) or resolvers."`
	RefuseAliases  bool     `help:"Refuse a TXT record reached through an alias (CNAME or DNAME) out of the domain."`
}

// rowsAtOnce is the number of rows of a file that are checked at a time: enough that one whose
// name servers do not answer for ten seconds does not delay the others, and few enough for
// public resolvers, which limit the queries of an address.
const rowsAtOnce = 16

func (*checkCommand) Help() string {
	return `Check the record now, as a worker does before it sets a domain to verified, and change nothing.
If the token is missing, names are queried where such records often end up by mistake.

The record of a domain that is given by its name or id is the one that a worker has read last; this
requires Redis. Otherwise Redis is optional: it has the DNS settings of the tenant's workers.

Examples:

    enqueue domains check acme.example
    enqueue domains check --host _v.example.com --txt 4c9e01d2

Exit status: 0 if every token is there, 3 if one is not.`
}

func (c *checkCommand) Run(ctx context.Context, t *tool) error {
	c.take(&c.File)
	if err := c.findTenant(ctx, t); err != nil {
		return err
	}
	c.settle(ctx, t)
	checker, err := c.checker()
	if err != nil {
		return cli.Usage(err)
	}
	defer checker.Close()
	records, err := c.records(ctx, t)
	if err != nil {
		return err
	}
	checked := 0
	missing := 0
	for found, err := range inOrder(ctx, records, func(ctx context.Context, r toCheck) (status.CheckResult, error) {
		if r.bad != nil {
			return status.CheckResult{Error: r.bad.Error()}, nil
		}
		return status.Check(ctx, checker, r.Domain)
	}) {
		if err != nil {
			return err
		}
		if checked++; found.Findings == nil || found.State != dnscheck.Present.String() {
			missing++
		}
		if checked > 1 && !t.JSON {
			fmt.Fprintln(t.Stdout)
		}
		write := func(out io.Writer) error { return terminal.WriteCheck(out, found) }
		if err := t.print(found, write); err != nil {
			return err
		}
	}
	if missing > 0 {
		return &cli.StatusError{Status: cli.StatusRejected, Err: fmt.Errorf("not present: %d of %d", missing, checked)}
	}
	return nil
}

// findTenant completes a domain by its tenant and ids, and the flags by its tenant.
func (c *checkCommand) findTenant(ctx context.Context, t *tool) error {
	if c.oneDomain == (oneDomain{}) || c.File != "" {
		c.Tenant = cmp.Or(c.Tenant, tasks.DefaultTenant)
		return nil
	}
	name, err := c.named(ctx, t, c.Tenant)
	if err != nil {
		return err
	}
	c.Tenant = name.Tenant
	c.Org = name.Organization
	c.Domain = name.ID
	return nil
}

// settle completes the flags: without --resolvers it takes the DNS settings of the tenant's
// workers from Redis, or else the defaults.
func (c *checkCommand) settle(ctx context.Context, t *tool) {
	if len(c.Resolvers) == 0 {
		settings, _, err := t.announced(ctx, c.Tenant)
		if err != nil {
			t.log.DebugContext(ctx, "settings of the tenant's workers not read", "tenant", c.Tenant, "error", err)
		}
		if len(settings.Resolvers) == 0 {
			c.Resolvers = dnscheck.DefaultResolvers()
		} else {
			t.log.InfoContext(ctx, "querying the resolvers of the tenant's workers", "tenant", c.Tenant,
				"resolvers", settings.Resolvers)
			c.Resolvers = settings.Resolvers
			c.ResolverQuorum = cmp.Or(c.ResolverQuorum, settings.ResolverQuorum)
		}
		c.DNSMode = cmp.Or(c.DNSMode, settings.DNSMode)
		c.RequireDNSSEC = c.RequireDNSSEC || settings.RequireDNSSEC
		c.RefuseAliases = c.RefuseAliases || settings.RefuseAliases
	}
	c.DNSMode = cmp.Or(c.DNSMode, dnscheck.ModeAuthority.String())
}

func (c *checkCommand) checker() (*dnscheck.Checker, error) {
	config := dnscheck.Config{Quorum: c.ResolverQuorum, RequireDNSSEC: c.RequireDNSSEC, RefuseAliases: c.RefuseAliases}
	for _, s := range c.Resolvers {
		r, err := dnscheck.ParseResolver(s)
		if err != nil {
			return nil, fmt.Errorf("resolvers: %w", err)
		}
		config.Resolvers = append(config.Resolvers, r)
	}
	var err error
	if config.Mode, err = dnscheck.ParseMode(c.DNSMode); err != nil {
		return nil, err
	}
	return dnscheck.New(config)
}

// toCheck is a domain whose record is checked.
type toCheck struct {
	discovery.Domain
	bad error // why the row of a file has none; nil: it has one
}

// records returns the records that the arguments name, to be read once.
func (c *checkCommand) records(ctx context.Context, t *tool) (records iter.Seq2[toCheck, error], err error) {
	byHost := c.Host != "" || c.TXT != ""
	byDomain := c.oneDomain != oneDomain{}
	byFile := c.File != ""
	if named := slices.DeleteFunc([]bool{byHost, byDomain, byFile}, func(is bool) bool { return !is }); len(named) != 1 {
		return nil, cli.Usage(errors.New("name one: a domain, or --host and --txt, or a file (-: stdin)"))
	}
	if byFile {
		return c.rows(ctx, t)
	}
	record := discovery.Domain{Host: c.Host, TXT: c.TXT}
	if byDomain {
		if record, err = c.stored(ctx, t); err != nil {
			return nil, err
		}
	} else if c.Host == "" || c.TXT == "" {
		return nil, cli.Usage(errors.New("--host and --txt go together: a record is named by both"))
	} else if err := dnsname.CheckHost(c.Host); err != nil {
		return nil, cli.Usage(err)
	}
	return func(yield func(toCheck, error) bool) { yield(toCheck{Domain: record}, nil) }, nil
}

func (c *checkCommand) stored(ctx context.Context, t *tool) (discovery.Domain, error) {
	name, err := c.named(ctx, t, c.Tenant)
	if err != nil {
		return discovery.Domain{}, err
	}
	found, err := t.readDomain(ctx, name, 0)
	if err != nil {
		return discovery.Domain{}, err
	}
	return found.ToPublish()
}

// rows returns the records of the file: any rows of domains verify that have host and value.
func (c *checkCommand) rows(ctx context.Context, t *tool) (iter.Seq2[toCheck, error], error) {
	file, err := t.open(ctx, c.File, nil)
	if err != nil {
		return nil, err
	}
	reader, err := c.read(file)
	if err != nil {
		file.close()
		return nil, err
	}
	return func(yield func(toCheck, error) bool) {
		defer file.close()
		for {
			row, err := reader.Next()
			if errors.Is(err, io.EOF) {
				if notes := reader.Notes(); notes != "" {
					fmt.Fprintf(t.Stderr, "%s: %s\n", file.name, notes)
				}
				return
			}
			record := toCheck{bad: row.Err}
			if err == nil && row.Err == nil {
				v := row.Values
				record.Domain = discovery.Domain{Host: v[0], TXT: v[1], OrganizationID: v[2], ID: v[3]}
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}, nil
}

func (c *checkCommand) read(file *rowsFile) (*rowfile.Reader, error) {
	schema := rowfile.Schema{Ignore: c.IgnoreColumns, Columns: []tasks.Column{
		{Name: "verification_host", Required: true}, {Name: "verification_txt", Required: true, Exact: true},
		{Name: "organization_id"}, {Name: "discovery_domain_id"}, {Name: "domain"},
		{Name: "use_for_organization_discovery", Bool: true},
	}}
	reader, err := rowfile.Open(file.name, file, schema)
	if header, ok := errors.AsType[*rowfile.HeaderError](err); ok {
		return nil, cli.Usage(header)
	}
	return reader, err
}

// inOrder yields the results of check for the records, in their order. At most rowsAtOnce
// checks are running. It ends after an error of a record or of the context.
func inOrder(ctx context.Context, records iter.Seq2[toCheck, error],
	check func(context.Context, toCheck) (status.CheckResult, error)) iter.Seq2[status.CheckResult, error] {
	type outcome struct {
		found status.CheckResult
		err   error
	}
	return func(yield func(status.CheckResult, error) bool) {
		asking, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		results := make(chan chan outcome, rowsAtOnce-1) // one more is being waited for
		running.Go(func() {
			defer close(results)
			for record, err := range records {
				one := make(chan outcome, 1)
				select {
				case results <- one:
				case <-asking.Done():
					return
				}
				if err != nil {
					one <- outcome{err: err}
					return
				}
				running.Go(func() {
					found, err := check(asking, record)
					one <- outcome{found, err}
				})
			}
		})
		for one := range results {
			if o := <-one; !yield(o.found, o.err) || o.err != nil {
				return
			}
		}
		if ctx.Err() != nil {
			yield(status.CheckResult{}, ctx.Err())
		}
	}
}
