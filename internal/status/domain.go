package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient/schema"
	"orgops/internal/discovery"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/remedy"
	"orgops/internal/results"
	"orgops/internal/stamp"
	"orgops/internal/sweep"
	"orgops/internal/tenant"
	"orgops/tasks"
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
	// Since is when an open row began to wait for what it awaits, such as the record; zero: it awaits
	// nothing. Until is when it expires if its checks find nothing until then, and later if they have
	// no answer; zero: not known.
	Since time.Time `json:"waiting_since,omitzero"`
	Until time.Time `json:"checked_until,omitzero"`
	// Evidence is that of the proof of a domain that was verified, else of the last check that
	// did not find the token.
	Evidence *Findings `json:"evidence,omitempty"`
	// Before is what the row has replaced; nil: it is no update, or has changed nothing.
	Before *evidence.Before `json:"before,omitempty"`
	Undo   *Undo            `json:"undo,omitempty"` // of the run of an update; nil: it has changed nothing
	Fix    remedy.Fix       `json:"fix,omitzero"`   // for a failed or waiting row
	Ledger ledger.Run       `json:"-"`

	begun    time.Time // by the first execution; zero: there was none
	sentence string    // that result, with advice; "": it is that of a proof, or not known
}

// DomainOf reads the domain from Redis. If rows is 0, it has the row that was executed last, which
// takes a few commands: the index of names has its place. Otherwise it has at most so many of its
// rows, and all stored rows of the tenant's runs about domains are searched.
func DomainOf(ctx context.Context, rdb redis.Cmdable, l *ledger.Ledger, name DomainName,
	rows int) (Domain, error) {
	// Its entry in the index of names.
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

	// Its rows.
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

	// What else is stored of it, and what to do about each row.
	if err := found.readSwept(ctx, rdb); err != nil {
		return found, err
	}
	if err := found.readAwaited(ctx, rdb); err != nil {
		return found, err
	}
	for i, row := range found.Rows {
		if row.Outcome == ledger.Lost && found.Swept != nil && (*sweep.Revocation)(found.Swept.Revoked).Done() {
			found.Rows[i].RevokedBy = ledger.RunID(found.Swept.Revoked.Run)
		}
		found.Rows[i].Fix = found.fix(row)
	}
	return found, nil
}

// search adds at most so many of the domain's rows.
func (d *Domain) search(ctx context.Context, l *ledger.Ledger, rows int) error {
	known := cmp.Or(d.Known, &KnownDomain{})
	for row, err := range results.DomainRows(ctx, l, d.Tenant, d.ID, d.Organization, known.Name) {
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
func (d *Domain) readSwept(ctx context.Context, rdb redis.Cmdable) error {
	swept, ok, err := SweptDomainOf(ctx, rdb, d.Tenant, d.ID)
	if ok && swept.Organization != d.Organization {
		d.Other = cmp.Or(d.Other, swept.Organization)
	} else if ok {
		d.Swept = &swept
	}
	return err
}

// readAwaited adds since when and until when open rows wait.
func (d *Domain) readAwaited(ctx context.Context, rdb redis.Cmdable) error {
	awaits := func(row DomainRow) bool {
		kind, _ := tasks.KindOf(string(row.Kind))
		return row.Outcome == "" && kind.Awaits
	}
	if !slices.ContainsFunc(d.Rows, awaits) {
		return nil
	}
	settings, known, err := tenant.ReadAnnounced(ctx, rdb, d.Tenant)
	if err != nil {
		return err
	}
	for i, row := range d.Rows {
		switch ofRun := row.Ledger.GiveUp; {
		case !awaits(row):
		case !known && ofRun == 0:
			d.Rows[i].Since = row.CreatedAt
		default:
			d.Rows[i].Since, d.Rows[i].Until = tasks.Awaited(row.CreatedAt, row.begun, ofRun, time.Duration(settings.GiveUp))
		}
	}
	return nil
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
	var row results.DomainRow
	if err == nil {
		row, err = results.DomainRowAt(ctx, l, run, item, d.ID, d.Organization, d.Known.Name)
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

// EvidenceTitle names the evidence of the row, for a heading.
func (d DomainRow) EvidenceTitle() string {
	switch {
	case !d.Evidence.IsProof():
		return "Last check that did not find the expected record"
	case d.Kind == tasks.TypeRecheck:
		return "Proof by a sweep, after the verification"
	}
	return "Proof of the verification"
}

// add adds a row.
func (d *Domain) add(found results.DomainRow) error {
	r := found.Run
	row := DomainRow{Run: r.ID, Kind: r.Kind, CreatedAt: r.CreatedAt, Row: settledRow(r, found.RowState), Ledger: r,
		begun: found.Checkpoint.FirstBegun}

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
		row.Undo = UndoOf(r)
	default:
		d.Record = cmp.Or(d.Record, e.Record)
		if r.Kind == tasks.TypeRecheck { // its reason is for operators; the sweep's state has the sentence
			sentence = ""
		}
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

// FixOfAbsence returns the remedy for a verified domain whose record is gone.
func (d Domain) FixOfAbsence() string {
	if d.Swept != nil && d.Swept.Absence != nil {
		return d.Swept.Fix
	}
	return publishAgain // it was found gone by a check just now
}

// RevokedBy returns the revocation that is in effect if the domain's record is verified, or is not;
// nil: it was not revoked, or others have changed its record since.
func (d Domain) RevokedBy(verified bool) *Revocation {
	if d.Swept == nil || d.Swept.Revoked == nil {
		return nil
	}
	revoked := d.Swept.Revoked
	routed := d.Known != nil && d.Known.Flag != nil && *d.Known.Flag
	if revoked.Set == sweep.SetPending && verified {
		return nil
	}
	if revoked.Set == sweep.Unroute && (!verified || routed) {
		return nil
	}
	return revoked
}

// fix returns the remedy for a row of the domain.
func (d Domain) fix(row DomainRow) remedy.Fix {
	switch {
	case row.Outcome == "" && row.Ledger.Paused:
		return remedy.To("%s", ToContinue(row.Ledger))
	case row.Outcome == "":
		return row.Evidence.fix()
	case row.Well():
		return remedy.Fix{}
	case row.RetriedBy != "":
		return remedy.To("it was submitted again; its result: %s", remedy.Command{Name: "runs show", Run: string(row.RetriedBy)})
	case row.Outcome == ledger.Withdrawn:
		return remedy.To(takeBack)
	case (row.Outcome == ledger.Lost || row.Outcome == ledger.Unproven) && d.Swept != nil:
		return remedy.To("%s", d.Swept.Fix) // it may have been found or revoked since
	}

	// A row that would end in the same way again.
	if out, ok := errors.AsType[*remedy.Error](results.NotRetried(row.Ledger, row.Outcome)); ok {
		return out.Fix
	}

	// Any other is submitted alone: the other failed rows of its run may be those of other customers.
	// A domain to be verified has a command of its own, also while a scan finds more rows of the run
	// and none is retried.
	when := "once the cause is fixed"
	switch row.Outcome {
	case ledger.Expired:
		when = "once the customer has corrected the record"
	case ledger.Cancelled:
		when = "if it is still wanted"
	}
	if row.Kind == tasks.TypeVerify {
		return remedy.To(when+": %s", d.Verify())
	}
	if !row.MayRetry {
		return remedy.To(when + ", submit it again")
	}
	return remedy.To(when+": %s", remedy.RetryRow(string(row.Run), row.Item))
}

// ToPublish returns the domain with the record to publish, as a worker has read it last.
func (d Domain) ToPublish() (discovery.Domain, error) {
	switch known := d.Known; {
	case known != nil && known.Host != "" && known.TXT != "":
		return known.record(), nil
	case d.Record != nil:
		return d.Record.DiscoveryDomain(d.Organization, d.ID), nil
	case known != nil:
		return discovery.Domain{}, remedy.With(
			fmt.Errorf("the TXT record of domain %s of organization %s is too long to be kept here", d.ID, d.Organization),
			"see the domain's page, which reads the tenant's record, or have a row of it wait: "+
				"%s", d.Verify())
	default:
		return discovery.Domain{}, remedy.With(
			fmt.Errorf("the TXT record of domain %s of organization %s is not known here: no row of tenant %s about it was executed",
				d.ID, d.Organization, d.Tenant),
			"submit the domain again (enqueue domains verify), or name the record: enqueue domains check --host HOST --txt VALUE")
	}
}

// Text returns the row's result, or why it is open and when it is checked next.
func (d DomainRow) Text() string {
	if d.Outcome == "" {
		return "open: " + d.Row.Text()
	}
	return d.Row.Text()
}

// Facts returns since when the row waits and until when it is checked, or when it was settled.
func (d DomainRow) Facts() []Fact {
	if d.Outcome == ledger.Expired {
		waited := Fact{Name: "waited", Text: "since " + stamp.UTC(d.CreatedAt)}
		if !d.SettledAt.IsZero() {
			waited.Text += ", until " + stamp.UTC(d.SettledAt)
		}
		return facts(waited)
	}
	until := Fact{Name: "checked until"}
	if !d.Until.IsZero() {
		until.Text = stamp.UTC(d.Until) + ", or longer while checks have no answer"
	}
	all := []Fact{
		{Name: "waiting since", Text: stamp.UTC(d.Since)},
		until,
		{Name: "settled", Text: stamp.UTC(d.SettledAt)},
	}
	if d.Before != nil {
		all = append(all, Fact{Name: "before that row", Text: Shown(d.Before.String())})
	}
	return facts(append(all, d.Undo.facts()...)...)
}

// TXTRecord describes the record to publish.
func TXTRecord(host, value string) string {
	if value == "" {
		return "at " + Whole(host) + "; its value is too long to be kept here"
	}
	return "at " + Whole(host) + ", with the value " + Whole(value)
}

// Name returns the domain's name; "": not known.
func (d Domain) Name() string {
	switch {
	case d.Known != nil:
		return d.Known.Name
	case d.Record != nil:
		return d.Record.Domain
	}
	return ""
}

// Facts returns whose domain it is, and its record without that of DNS.
func (d Domain) Facts() []Fact {
	all := []Fact{
		{Name: "organization", Text: Whole(d.Organization), Copied: true},
		{Name: "domain", Text: Whole(d.ID), Copied: true},
		{Name: "tenant", Text: Shown(d.Tenant)},
		{Name: "name", Text: Shown(d.Name())},
	}
	k := d.Known
	if k == nil || k.Status == "" {
		return facts(all...)
	}
	state := Fact{Name: "status", Text: Shown(k.Status), Tone: "wait"}
	if k.Status == string(schema.StatusVerified) {
		state.Tone = "good"
	}
	if !k.Read.IsZero() {
		state.Text += ", read at " + stamp.UTC(k.Read)
	}
	used := Fact{Name: "used for discovery"}
	switch {
	case k.Flag != nil:
		used.Text = strconv.FormatBool(*k.Flag)
	case k.Read.IsZero(): // the platform's record has none
		used.Text = "unknown"
	}
	return facts(append(all, state, used)...)
}
