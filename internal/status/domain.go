package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/cli"
	"orgops/internal/evidence"
	"orgops/internal/intake"
	"orgops/internal/ledger"
)

// Domain has the rows of a discovery domain, and the state that sweeps have stored. It is for
// those who may see the domain's organization: readers, operators, and support with that
// organization.
type Domain struct {
	DomainName

	Known  *KnownDomain     `json:"known,omitempty"`        // nil: it is not in the index of names
	Record *evidence.Record `json:"record,omitempty"`       // as a worker has read it for a row
	Rows   []DomainRow      `json:"rows,omitempty"`         // the newest first, or the one executed last
	More   int              `json:"more_rows,omitempty"`    // how many further rows a search has found
	Swept  *SweptDomain     `json:"domain_state,omitempty"` // by sweeps; nil: none is stored
	// Other is another organization with a domain of this id, by rows or sweeps; "": none.
	Other string `json:"-"`
}

// DomainRow is a row about the domain.
type DomainRow struct {
	Run       ledger.RunID `json:"run"`
	Kind      ledger.Kind  `json:"kind"`
	CreatedAt time.Time    `json:"created_at"` // of the run
	Row
	// Evidence is that of the proof of a domain that was verified, else of the last check that
	// did not find the token.
	Evidence *Findings `json:"evidence,omitempty"`
	// Before is what the row has replaced; nil: it is no update, or has changed nothing.
	Before *evidence.Before `json:"before,omitempty"`
	Ledger ledger.Run       `json:"-"`

	sentence string // that result, with advice; "": it is that of a proof, or not known
}

// DomainOf reads the domain from Redis. If rows is 0, it has the row that was executed last, which
// takes a few commands: the index of names has its place. Otherwise it has at most so many of its
// rows, and all stored rows of the tenant's runs about domains are searched.
func DomainOf(ctx context.Context, rdb redis.UniversalClient, l *ledger.Ledger, name DomainName,
	rows int) (Domain, error) {
	found := Domain{DomainName: name}
	subject, err := l.Subject(ctx, ledger.Tenant(name.Tenant), name.ID)
	if err == nil {
		var known KnownDomain
		if known, err = knownDomain(name.Tenant, subject); known.Organization == name.Organization {
			found.Known = &known
		} else {
			found.Other = known.Organization
		}
	}
	switch {
	case err != nil && !errors.Is(err, ledger.ErrNotFound):
		return found, err
	case rows > 0:
		err = found.search(ctx, l, rows)
	case found.Known != nil:
		err = found.addLast(ctx, l)
	default:
		err = nil
	}
	if err != nil {
		return found, err
	}
	return found, found.readSwept(ctx, rdb)
}

// search adds at most so many of the domain's rows.
func (d *Domain) search(ctx context.Context, l *ledger.Ledger, rows int) error {
	known := cmp.Or(d.Known, &KnownDomain{})
	for row, err := range intake.DomainRows(ctx, l, d.Tenant, d.ID, d.Organization, known.Name) {
		switch {
		case err != nil:
			return err
		case row.Organization != d.Organization:
			d.Other = cmp.Or(d.Other, row.Organization)
			continue
		case len(d.Rows) == rows:
			d.More++
			continue
		}
		if err := d.add(row); err != nil {
			return err
		}
	}
	return nil
}

// readSwept adds the state that sweeps have stored.
func (d *Domain) readSwept(ctx context.Context, rdb redis.UniversalClient) error {
	swept, ok, err := SweptDomainOf(ctx, rdb, d.Tenant, d.ID)
	if ok && swept.Organization != d.Organization {
		d.Other = cmp.Or(d.Other, swept.Organization)
	} else if ok {
		d.Swept = &swept
	}
	return err
}

// addLast adds the row that was executed last, unless its run is deleted.
func (d *Domain) addLast(ctx context.Context, l *ledger.Ledger) error {
	last := d.Known.last
	if last.run == "" {
		return nil
	}
	run, err := l.Get(ctx, ledger.Tenant(d.Tenant), last.run)
	var item int64
	if err == nil {
		item, err = l.ItemOf(ctx, last.in(run), last.row)
	}
	var row intake.DomainRow
	if err == nil {
		row, err = intake.DomainRowAt(ctx, l, run, item, d.ID, d.Organization, d.Known.Name)
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil
	case err != nil:
		return err
	case row.Domain != d.ID || row.Organization != d.Organization: // of a later run with the same id
		return nil
	}
	if err := d.add(row); err != nil {
		return err
	}
	// A check that was requested is earlier than that of the index of names.
	if last := d.Rows[len(d.Rows)-1]; last.Outcome == "" {
		d.Known.Next = last.NextCheck
	}
	return nil
}

// in returns the segment of the row in its run.
func (r domainRow) in(run ledger.Run) ledger.Segment {
	return ledger.Segment{Tenant: run.Tenant, Run: run.ID, Incarnation: run.Incarnation, Number: r.segment}
}

// add adds a row.
func (d *Domain) add(found intake.DomainRow) error {
	r := found.Run
	row := DomainRow{Run: r.ID, Kind: r.Kind, CreatedAt: r.CreatedAt, Row: settledRow(r, found.RowState), Ledger: r}

	// The evidence of the last check of an open row, or of the result.
	var e *evidence.Evidence
	sentence := found.Result.Detail
	if found.Phase != ledger.PhaseSettled {
		open := evidence.ReadOpen(r.Kind, found.RowState)
		row.Row = openRow(r, found.Item, open)
		d.Record = cmp.Or(d.Record, open.Record)
		e = open.Evidence
		sentence = open.Advice
	} else if stored := found.Result.Evidence; len(stored) > 0 {
		read, err := evidence.Read(stored)
		if err != nil {
			return fmt.Errorf("row %d of run %s: %w", found.Item, r.ID, err)
		}
		e = &read
	}

	// The row, without the evidence's record: the domain has it once.
	switch {
	case e == nil:
	case e.Before != nil:
		row.Before = e.Before
	default:
		d.Record = cmp.Or(d.Record, e.Record)
		if e.Compared == nil {
			row.sentence = cmp.Or(e.Advice(), sentence)
		}
		if len(e.Findings) > 0 {
			e.Findings[0].Sentence = e.Advice()
		}
		e.Record = nil
		row.Evidence = &Findings{Evidence: *e, Next: row.NextCheck}
	}
	d.Rows = append(d.Rows, row)
	return nil
}

// TXTRecord returns the record to publish, as a worker has read it last.
func (d Domain) TXTRecord() (TXTRecord, error) {
	record := TXTRecord{Organization: d.Organization, ID: d.ID}
	switch k, r := d.Known, d.Record; {
	case k != nil && k.Host != "" && k.TXT != "":
		record.Host, record.TXT, record.Domain = k.Host, k.TXT, k.Name
	case r != nil:
		record.Host, record.TXT, record.Domain = r.Host, r.TXT, r.Domain
	case k != nil:
		return record, cli.Fixed(
			fmt.Errorf("the TXT record of domain %s of organization %s is too long to be kept here", d.ID, d.Organization),
			"see the domain's page, which reads the tenant's record, or have a row of it wait: "+
				"enqueue domains verify --tenant %s --org %s --domain %s", d.Tenant, d.Organization, d.ID)
	default:
		return record, cli.Fixed(
			fmt.Errorf("the TXT record of domain %s of organization %s is not known here: no row of tenant %s about it was executed",
				d.ID, d.Organization, d.Tenant),
			"submit the domain again (enqueue domains verify), or name the record: enqueue domains check --host HOST --txt VALUE")
	}
	return record, nil
}

// Text returns the row's result, or why it is open and when it is checked next.
func (d DomainRow) Text() string {
	if d.Outcome == "" {
		return "open: " + d.Row.Text()
	}
	return d.Row.Text()
}

// txtRecord says what to publish.
func txtRecord(host, value string) string {
	if value == "" {
		return "at " + Whole(host) + "; its value is too long to be kept here"
	}
	return "at " + Whole(host) + ", with the value " + Whole(value)
}

// Write writes the domain as text.
func (d Domain) Write(out io.Writer) error {
	w := NewTable(out)
	w.Line("organization", d.Organization)
	w.Line("domain", d.ID)
	w.Line("tenant", d.Tenant)
	switch k, r := d.Known, d.Record; {
	case k != nil:
		w.Line("name", Shown(k.Name))
		w.Line("status", k.Status+", read at "+Stamp(k.Read))
		w.Line("TXT record", txtRecord(k.Host, k.TXT))
		if k.State != "" {
			w.Line("last check", k.State+" at "+Stamp(k.At))
		}
		if !k.Next.IsZero() {
			w.Line("next check", Stamp(k.Next))
		}
	case r != nil:
		w.Line("name", Shown(r.Domain))
		w.Line("TXT record", txtRecord(r.Host, r.TXT))
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	for i, row := range d.Rows {
		fmt.Fprintf(out, "run %s (%s, %s), row %d: %s\n", row.Run, row.Kind, Stamp(row.CreatedAt), row.Item, row.Text())
		if row.Before != nil {
			fmt.Fprintf(out, "before that row: %s\n", Shown(row.Before.String()))
		}
		if row.Evidence == nil {
			continue
		}
		fmt.Fprintln(out)
		if err := row.Evidence.Write(out, row.Evidence.When()); err != nil {
			return err
		}
		if i+1 < len(d.Rows) || d.More > 0 {
			fmt.Fprintln(out)
		}
	}
	if d.More > 0 {
		fmt.Fprintf(out, "and %d more\n", d.More)
	}
	if d.Swept == nil {
		return nil
	}
	if len(d.Rows) > 0 {
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, "what sweeps have seen:")
	return d.Swept.Write(out)
}
