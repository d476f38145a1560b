package tasks

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"orgops/apiclient/schema"
)

// Column is a column that the rows of a kind may have.
type Column struct {
	Name     string
	Bool     bool // true or false; text otherwise
	Required bool
	Exact    bool   // blanks around a text are part of it, and not left out
	Or       string // the column that a row may have instead of a required one; "": none
}

// Usage lists columns as a usage line does: required ones first, then the optional ones in
// brackets.
func Usage(columns []Column) string {
	var required, optional []string
	or := ""
	for _, c := range columns {
		if c.Required {
			required = append(required, c.Name)
			or = c.Or
		}
	}
	for _, c := range columns {
		if !c.Required && c.Name != or {
			optional = append(optional, c.Name)
		}
	}
	words := strings.Join(required, ", ")
	if or != "" {
		words += " (or " + or + ")"
	}
	switch {
	case len(optional) == 0:
		return words
	case words == "":
		return "[" + strings.Join(optional, ", ") + "]"
	}
	return words + "[, " + strings.Join(optional, ", ") + "]"
}

// Kind describes the rows of a run: what people read of them, and how one is checked.
type Kind struct {
	Name    string   // such as [TypeVerify]
	Command string   // of enqueue, such as "domains verify"; "": it is an option of another's
	Label   string   // what the command does, in a line
	Help    string   // of the command, apart from the columns
	Columns []Column // the first is the organization; nil: WholeObject
	// WholeObject: a row is one JSON object with members of its own, and
	// cannot come as CSV.
	WholeObject bool
	Submitter   Submitter
	Scopes      []string // of the API that the rows need; nil: those of other kinds
	// Awaits: rows wait for something to appear, until the give-up of their run.
	Awaits bool
	// Proves: results have proofs of domains as evidence.
	Proves bool
	// Together is the largest number of rows of one organization that one request changes; 0: a
	// request for each. Rows that are submitted one by one wait for each other ([CheckBatchWait]).
	Together int
	// Requests is how many a row needs, reads among them; 0: one.
	Requests int64

	check func(r *Row) error
}

// Submitter is who may submit rows of a kind.
type Submitter int

// The submitters.
const (
	Anyone    Submitter = iota // files, services, the intake
	Sweeps                     // their scans find the rows
	Operators                  // by a command, each by what sweeps have found: they are not retried
)

// The scopes of several kinds (specification 4; observed behaviour, reads).
const (
	ReadDomains   = "read:organization_discovery_domains"
	UpdateDomains = "update:organization_discovery_domains"
	ReadTemplates = "read:vdcs_templates"
)

// Has reports whether rows of the kind have that column.
func (k Kind) Has(column string) bool {
	return slices.ContainsFunc(k.Columns, func(c Column) bool { return c.Name == column })
}

// Defaults are the values of columns that a row leaves empty, by name.
type Defaults map[string]string

// Row is a row that was checked, by [Kind.Parse] or [Kind.ParseObject].
type Row struct {
	columns      []Column
	values       []string        // of the columns, in their order; "": none
	object       json.RawMessage // of kinds whose rows are whole objects
	organization string          // that the row is about
	domain       string          // the name that the row has for it; "": none
	template     schema.TemplateRequest
}

// Organization is the organization that the row is about; empty for templates.
func (r Row) Organization() string { return r.organization }

// Domain is the name of the domain that the row is about, as [dnsname.CheckDomain] returns it;
// empty if the row has none.
func (r Row) Domain() string { return r.domain }

// NeedsIDs reports whether the row names a domain without its organization, or is of a kind whose
// workers do not find it by its name: it can be stored with the ids of [Kind.WithIDs] only.
func (r Row) NeedsIDs() bool {
	return r.domain != "" && (r.organization == "" || !Kind{Columns: r.columns}.Has("domain"))
}

// WithIDs returns the row of a domain with these ids.
func (k Kind) WithIDs(r Row, organization, domain string) (Row, error) {
	values := slices.Clone(r.values)
	values[0] = organization
	values[1] = domain
	return k.Parse(values, nil)
}

// AppendSubject appends the values of the required columns to b, or a name: two rows about the same
// subject are the same work, or contradict each other.
func (r Row) AppendSubject(b []byte) []byte {
	for i, column := range r.columns {
		if column.Required {
			b = append(append(b, cmp.Or(r.values[i], r.domain)...), 0) // no text has a NUL
		}
	}
	return append(b, r.template.Name...)
}

// AppendIdentity appends the row's identity to b: rows with the same subject and identity
// are the same work.
func (r Row) AppendIdentity(b []byte) []byte {
	if r.object != nil {
		content, _ := json.Marshal(r.template) // it was read from JSON
		return append(b, content...)
	}
	for _, value := range r.values {
		b = append(append(b, value...), 0)
	}
	return b
}

// Content returns the row as a JSON object, as the handlers of its kind read it.
func (r Row) Content() ([]byte, error) {
	if r.object != nil {
		return json.Marshal(r.object)
	}
	b := []byte{'{'}
	for i, column := range r.columns {
		if r.values[i] == "" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendText(b, column.Name), ':')
		if column.Bool {
			b = append(b, r.values[i]...)
		} else {
			b = appendText(b, r.values[i])
		}
	}
	return append(b, '}'), nil
}

// appendText appends a text to JSON, as encoding/json writes it. That is slow, and needless
// for nearly every text of a row.
func appendText(to []byte, text string) []byte {
	isSpecial := func(c rune) bool {
		return c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
	}
	if strings.ContainsFunc(text, isSpecial) {
		b, _ := json.Marshal(text) // a text always has a JSON form
		return append(to, b...)
	}
	return append(append(append(to, '"'), text...), '"')
}

// Parse checks a row, given as the values of the kind's columns, in their order: text, or
// "true" or "false"; "" for none. The error names the column, the rule and the value.
func (k Kind) Parse(values []string, d Defaults) (Row, error) {
	r := Row{columns: k.Columns, values: values, organization: values[0]}
	for i, column := range k.Columns {
		if values[i] == "" {
			values[i] = d[column.Name]
		}
	}
	return r, k.check(&r)
}

// ParseObject checks a row of a kind whose rows are whole objects.
func (k Kind) ParseObject(object json.RawMessage) (Row, error) {
	r := Row{object: object}
	return r, k.check(&r)
}

// OrganizationOf returns the organization of a row's content, "" if it has none. Rows of one
// organization share a request if they share a task ([Kind].Together).
func OrganizationOf(content []byte) string {
	var r struct {
		OrganizationID string `json:"organization_id"`
	}
	if json.Unmarshal(content, &r) != nil {
		return ""
	}
	return r.OrganizationID
}
