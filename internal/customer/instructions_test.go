package customer_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"orgops/dnscheck"
	"orgops/dnscheck/dnschecktest"
	"orgops/dnscheck/report"
	"orgops/internal/customer"
	"orgops/internal/evidence"
	"orgops/internal/ledger"
	"orgops/internal/status"
	"orgops/tasks"
)

func TestInstructionsSayWhatToPublish(t *testing.T) {
	checker := dnschecktest.ExampleCom(t)
	name := status.DomainName{Organization: "org_1", ID: "ord_1", Tenant: "acme"}
	known := func(change func(*status.KnownDomain)) status.Domain {
		k := status.KnownDomain{DomainName: name, Name: "example.com", Host: "_v.org_1.example.com", TXT: "token-1",
			Status: "pending"}
		if change != nil {
			change(&k)
		}
		return status.Domain{DomainName: name, Known: &k}
	}
	with := func(d status.Domain, rows ...status.DomainRow) status.Domain {
		d.Rows = rows
		return d
	}
	next := time.Now().Add(time.Hour)
	open := status.DomainRow{Run: "run-1", Kind: tasks.TypeVerify, Row: status.Row{NextCheck: next}}
	for _, test := range []struct {
		name    string
		domain  status.Domain
		checker *dnscheck.Checker
		want    []string // in the text
		not     []string
		command string
		err     string
	}{
		{name: "a known zone, and it is not checked before that", domain: known(nil), checker: checker, want: []string{
			"Publish a DNS record for example.com\n", "By its name servers, that is GoDaddy.",
			"   Type:       TXT\n   Name:       _v.org_1\n   Full name:  _v.org_1.example.com\n   Value:      token-1\n" +
				"   TTL:        300 seconds (5 minutes), or the shortest that is offered\n",
			"enter _v.org_1 only. If it wants the full name, enter _v.org_1.example.com.",
			"At GoDaddy: Under DNS, choose Add New Record and TXT.",
			"is appended to it. See https://www.godaddy.com/help/add-a-txt-record-19232.", "Tell us when you have published the record: it is not checked before that",
		}, not: []string{"We look", "quotation marks"},
			command: "enqueue domains verify --tenant acme --org org_1 --domain ord_1"},
		{name: "without DNS", domain: known(nil), want: []string{
			"   Type:       TXT\n   Full name:  _v.org_1.example.com\n   Value:      token-1\n",
			"leave out the domain at the end of the name", "without quotation marks"},
			not: []string{"GoDaddy", "   Name:"}, command: "enqueue domains verify --tenant acme --org org_1 --domain ord_1"},
		{name: "without DNS, and the record was found with the domain twice", domain: with(known(nil), status.DomainRow{
			Evidence: &status.Findings{Evidence: evidence.Evidence{Diagnosis: report.Diagnosis{Findings: []report.Finding{
				{Mistake: report.MistakeDoubled, Host: "_v.org_1.example.com.example.com"}}}}}}), want: []string{
			"   Type:       TXT\n   Name:       _v.org_1\n   Full name:  _v.org_1.example.com\n",
			"adds example.com to the name by itself, as most do, enter _v.org_1 only."},
			command: "enqueue domains verify --tenant acme --org org_1 --domain ord_1"},
		{name: "an unknown zone", domain: known(func(k *status.KnownDomain) { k.Name = "example.net" }), checker: checker,
			not: []string{"   Name:"}, command: "enqueue domains verify --tenant acme --org org_1 --domain ord_1"},
		{name: "a waiting row", domain: with(known(nil), open),
			want: []string{"We look for the record by ourselves, next on " + next.UTC().Format("2 January 2006 at 15:04 UTC,")},
			not:  []string{"Tell us"}},
		{name: "a row whose time has come", domain: with(known(nil), status.DomainRow{Kind: tasks.TypeVerify,
			Row: status.Row{NextCheck: time.Now().Add(-time.Second)}}), want: []string{"by ourselves, soon, and"}},
		{name: "a paused run", domain: with(known(nil), status.DomainRow{Run: "run-1", Kind: tasks.TypeVerify,
			Ledger: ledger.Run{Control: ledger.Control{Paused: true}}}), want: []string{"it is not checked before that"},
			command: "enqueue runs resume run-1"},
		{name: "a paused run and another", domain: with(known(nil), status.DomainRow{Kind: tasks.TypeVerify,
			Ledger: ledger.Run{Control: ledger.Control{Paused: true}}}, open), want: []string{"We look"}},
		{name: "a settled row, and one of another kind", domain: with(known(nil),
			status.DomainRow{Kind: tasks.TypeVerify, Row: status.Row{Outcome: "expired", NextCheck: next}},
			status.DomainRow{Kind: tasks.TypeUpdate, Row: status.Row{NextCheck: next}}),
			want:    []string{"it is not checked before that"},
			command: "enqueue domains verify --tenant acme --org org_1 --domain ord_1"},
		{name: "verified", domain: known(func(k *status.KnownDomain) { k.Status = "verified" }),
			want: []string{"The domain is verified: leave"}, not: []string{"We look", "Tell us"}},
		{name: "absent in sweeps", domain: func() status.Domain {
			d := known(func(k *status.KnownDomain) { k.Status = "verified" })
			d.Swept = &status.SweptDomain{Absence: &status.Absence{}}
			return d
		}(), want: []string{"the record is no longer there: publish it again"}, not: []string{"The domain is verified"}},
		{name: "too long for the index, and an open row has it", domain: func() status.Domain {
			d := with(known(func(k *status.KnownDomain) { k.TXT = "" }), open)
			d.Record = &evidence.Record{Domain: "example.com", Host: "_v.example.com", TXT: strings.Repeat("x", 200)}
			return d
		}(), want: []string{"Value:      " + strings.Repeat("x", 200) + "\n"}},
		{name: "too long", domain: known(func(k *status.KnownDomain) { k.TXT = "" }), err: "is too long to be kept here"},
		{name: "not known", domain: status.Domain{DomainName: name}, err: "no row of tenant acme about it was executed"},
		{name: "letters that cannot be copied", domain: known(func(k *status.KnownDomain) { k.TXT = "a\u202eb\n" }),
			err: `has characters that cannot be copied: at _v.org_1.example.com, with the value a\u202eb\n`},
	} {
		t.Run(test.name, func(t *testing.T) {
			i, err := customer.InstructionsOf(t.Context(), test.domain, test.checker)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := i.Text()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, not := range test.not {
				if strings.Contains(text, not) {
					t.Errorf("%q in\n%s", not, text)
				}
			}
			if i.Command != test.command {
				t.Errorf("command %q, want %q", i.Command, test.command)
			}
		})
	}
}

// TestInstructionsEscapeTheRecord has a tenant's record say everything that is markup somewhere.
func TestInstructionsEscapeTheRecord(t *testing.T) {
	const hostile = "https://evil.example ``` [a](https://evil.example) <a href=x onclick=x>| **b** &amp; \x1b[31m\n# h\n```\n"
	i := customer.Instructions{Domain: "D" + hostile, Type: "TXT", Host: "H" + hostile, TXT: "V" + hostile, TTL: 300,
		Publish: &status.Publish{Zone: "Z" + hostile, Name: "N" + hostile}}
	for name, write := range map[string]func(*strings.Builder) error{
		"text":     func(b *strings.Builder) error { return i.Write(b) },
		"markdown": func(b *strings.Builder) error { return i.WriteMarkdown(b) },
		"html":     func(b *strings.Builder) error { return i.WriteHTML(b) },
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			for r := range strings.SplitSeq(text, "\n") {
				if strings.ContainsRune(r, '\x1b') || strings.HasPrefix(r, "# h") || strings.HasPrefix(r, "```") {
					t.Errorf("the line %q", r)
				}
			}
			switch name {
			case "markdown":
				checkMarkdown(t, text)
			case "html":
				checkHTML(t, text)
			}
		})
	}
}

// checkMarkdown checks that the hostile texts are in a code block or a code span.
func checkMarkdown(t *testing.T, text string) {
	t.Helper()
	parts := strings.Split(text, "   ```text\n")
	if len(parts) != 2 {
		t.Fatalf("%d code blocks in\n%s", len(parts)-1, text)
	}
	block, after, ended := strings.Cut(parts[1], "\n   ```\n")
	if !ended || strings.Count(block, "\n") != 4 {
		t.Errorf("the code block has other than five lines:\n%s", block)
	}
	for _, prose := range []string{parts[0], after} {
		for i, part := range strings.Split(prose, "````") { // longer than any in the text
			if outside := i%2 == 0; outside && strings.ContainsAny(part, "<[`*#|\\") && !strings.HasPrefix(part, "## ") {
				t.Errorf("outside of code: %q", part)
			} else if !outside && (!strings.HasPrefix(part, " ") || !strings.HasSuffix(part, " ")) {
				t.Errorf("code without blanks at its ends: %q", part)
			}
		}
	}
}

// checkHTML checks that there are no elements and attributes but those of the instructions.
func checkHTML(t *testing.T, text string) {
	t.Helper()
	values := 0
	for z := html.NewTokenizer(strings.NewReader(text)); z.Next() != html.ErrorToken; {
		token := z.Token()
		switch token.Type {
		case html.TextToken:
			if strings.HasPrefix(token.Data, "Vhttps://evil.example ``` [a](https://evil.example) <a href=x onclick=x>| **b** &amp; ") {
				values++
			}
		case html.StartTagToken:
			if !strings.Contains(" h2 code p ol li table tr th td ", " "+token.Data+" ") ||
				len(token.Attr) > 0 && token.Data != "th" {
				t.Errorf("element %s", token)
			}
		}
	}
	if values != 1 {
		t.Errorf("the value is %d times in\n%s", values, text)
	}
}
