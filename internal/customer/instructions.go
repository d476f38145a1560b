package customer

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	texttemplate "text/template"
	"time"

	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
	"orgops/dnscheck/report"
	"orgops/internal/remedy"
	"orgops/internal/stamp"
	"orgops/internal/status"
	"orgops/tasks"
)

// Instructions tell the owner of a domain, who may never have seen DNS, which record to publish.
type Instructions struct {
	status.DomainName

	Domain  string          `json:"domain,omitempty"` // empty: only its host is known
	Type    string          `json:"type"`
	Host    string          `json:"verification_host"`
	TXT     string          `json:"verification_txt"`
	TTL     int             `json:"ttl_seconds"`
	Publish *status.Publish `json:"publish,omitempty"` // nil: the zone is not known

	Verified bool `json:"verified"`
	Absent   bool `json:"absent,omitempty"` // it is verified, but the last sweeps did not find the record
	// Checked reports whether an open row has the record checked. Next is when; zero: soon.
	Checked bool      `json:"checked"`
	Next    time.Time `json:"next_check,omitzero"`
	// Command has the record checked if nothing does; "": it is checked, or the domain is verified.
	Command string `json:"command,omitempty"`

	// Mistake is the sentence of the mistake in the record, and Change says that its value is to be
	// changed: see [Instructions.correct].
	Mistake string `json:"-"`
	Change  bool   `json:"-"`
}

const (
	// recommendedTTL is how long resolvers keep the record, in seconds: a customer who has mistyped
	// it waits that long for the correction. Shorter ones are refused by some panels.
	recommendedTTL = 300
	// zoneWait bounds the search for the zone.
	zoneWait = 3 * time.Second
)

// InstructionsOf returns the record to publish for a domain. The zone is that of the domain, not of
// the host: the query for a host without a record would have the resolvers cache its absence.
// Without a checker, or an answer, the name relative to the zone is left out.
func InstructionsOf(ctx context.Context, d status.Domain, checker *dnscheck.Checker) (Instructions, error) {
	r, err := d.ToPublish()
	i := Instructions{DomainName: d.DomainName, Domain: r.Name, Type: "TXT", Host: r.Host, TXT: r.TXT,
		TTL: recommendedTTL, Verified: d.Known != nil && d.Known.Status == "verified"}
	switch {
	case err != nil:
		return i, err
	case status.Whole(i.Host) != i.Host || status.Whole(i.TXT) != i.TXT:
		return i, remedy.With(fmt.Errorf("the TXT record of domain %s has characters that cannot be copied: %s", d.ID,
			status.TXTRecord(i.Host, i.TXT)), "have the domain created again, and compare it with the tenant's record")
	}
	i.Absent = i.Verified && d.Swept != nil && d.Swept.Absence != nil
	i.checks(d)
	i.Publish = doubledIn(d, i.Host)
	if checker == nil || i.Domain == "" {
		return i, nil
	}
	ctx, cancel := context.WithTimeout(ctx, zoneWait)
	defer cancel()
	if zone, err := checker.ZoneOf(ctx, i.Domain); err == nil && zone.Name != "" {
		i.Publish = status.PublishIn(i.Host, zone)
	}
	return i, nil
}

// correct has the instructions name the mistake that the last check has found. A record at the host
// with a wrong value is changed; one at another name, or a value for somebody else, stays as it is.
func (i *Instructions) correct(found report.Finding) {
	i.Mistake = found.Advice(i.Host)
	switch found.Mistake {
	case report.MistakeQuoted, report.MistakePadded, report.MistakeCut, report.MistakeLetters, report.MistakeAlong,
		report.MistakeTyped, report.MistakeEmpty:
		i.Change = dnsname.Same(found.Host, i.Host)
	}
}

// doubledIn returns how the host's record is entered, by a record that the last check of the domain
// found with the domain twice; nil: it found none.
func doubledIn(d status.Domain, host string) *status.Publish {
	for _, row := range d.Rows {
		if row.Evidence == nil {
			continue
		}
		for _, finding := range row.Evidence.Findings {
			if name, zone := finding.Entered(dnsname.Unrooted(host)); zone != "" {
				return &status.Publish{Zone: zone, Name: name}
			}
		}
	}
	return nil
}

// checks says whether an open row has the record checked.
func (i *Instructions) checks(d status.Domain) {
	if i.Verified {
		return
	}
	i.Command = d.Verify().String()
	for _, row := range d.Rows {
		switch {
		case row.Outcome != "" || row.Kind != tasks.TypeVerify:
			continue
		case row.Ledger.Paused:
			i.Command = remedy.Resume(string(row.Run)).String()
			continue
		}
		i.Checked = true
		i.Command = ""
		if row.NextCheck.After(time.Now()) {
			i.Next = row.NextCheck.UTC()
		}
		return
	}
}

// The formats, and the texts of all of them, which are in one file.
var (
	//go:embed formats texts.tmpl
	formats              embed.FS
	textInstructions     = texttemplate.Must(inText("text.tmpl"))
	markdownInstructions = texttemplate.Must(inText("markdown.tmpl"))
	htmlInstructions     = template.Must(inHTML("html.tmpl"))
)

// functions are those of the formats and texts.
var functions = map[string]any{
	"whole": status.Whole,
	"name":  domainName,
	"iso":   stamp.UTC,
	"utc":   func(at time.Time) string { return at.UTC().Format("2 January 2006 at 15:04") + " UTC" },
	"soon":  func(at time.Time) bool { return at.Before(time.Now()) },
	"span":  codeSpan,
}

func inText(format string) (*texttemplate.Template, error) {
	return texttemplate.New(format).Funcs(functions).ParseFS(formats, "formats/"+format, "texts.tmpl")
}

func inHTML(format string) (*template.Template, error) {
	return template.New(format).Funcs(functions).ParseFS(formats, "formats/"+format, "texts.tmpl")
}

// domainName returns the name of a domain as its owner writes it, and as DNS has it if that is
// another form.
func domainName(ascii string) string {
	if name := dnsname.Unicode(ascii); name != ascii {
		return status.Whole(name) + " (" + status.Whole(ascii) + ")"
	}
	return status.Whole(ascii)
}

// codeSpan returns text in which Markdown finds no markup and no link.
func codeSpan(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		s = " " + s + " " // which are not shown
	}
	return fence + s + fence
}

// Write writes the instructions as text.
func (i Instructions) Write(out io.Writer) error { return textInstructions.Execute(out, i.printable()) }

// WriteMarkdown writes the instructions as Markdown.
func (i Instructions) WriteMarkdown(out io.Writer) error {
	return markdownInstructions.Execute(out, i.printable())
}

// WriteHTML writes the instructions as a part of an HTML page or mail.
func (i Instructions) WriteHTML(out io.Writer) error {
	return htmlInstructions.Execute(out, i.printable())
}

// Steps returns the steps alone, as HTML.
func (i Instructions) Steps() (template.HTML, error) {
	var steps strings.Builder
	err := htmlInstructions.ExecuteTemplate(&steps, "steps", i.printable())
	return template.HTML(steps.String()), err //nolint:gosec // the template has escaped it
}

// Text returns the instructions as text.
func (i Instructions) Text() (string, error) {
	var text strings.Builder
	err := i.Write(&text)
	return text.String(), err
}

// printable returns the instructions with their texts of strangers on one line each.
func (i Instructions) printable() Instructions {
	i.Domain = status.Whole(i.Domain)
	i.Host = status.Whole(i.Host)
	i.TXT = status.Whole(i.TXT)
	if i.Publish != nil {
		p := *i.Publish
		p.Zone = status.Whole(p.Zone)
		p.Name = status.Whole(p.Name)
		i.Publish = &p
	}
	return i
}
