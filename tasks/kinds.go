package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// Column is a column that the rows of a kind may have.
type Column struct {
	Name     string
	Bool     bool // true or false; text otherwise
	Required bool
}

// Kind describes the rows of a run: their columns, and how one is checked.
type Kind struct {
	Name    string
	Columns []Column
	// WholeObject: a row is one JSON object with members of its own, and
	// cannot come as CSV.
	WholeObject bool
	// Found: rows are found by a sweep, or chosen by a command, and cannot be submitted.
	Found bool

	check func(r *Row, d Defaults) error
}

// Defaults are the values of rows of domain:update for columns that have none.
type Defaults struct {
	Status          string
	UseForDiscovery *bool
}

// Row is a row that was checked, by [Kind.Parse] or [Kind.ParseObject].
type Row struct {
	columns      []Column
	values       []string        // of the columns, in their order; "": none
	object       json.RawMessage // of kinds whose rows are whole objects
	organization string          // that the row is about
	template     apiclient.TemplateRequest
}

// Organization is the organization that the row is about; empty for templates.
func (r Row) Organization() string { return r.organization }

// AppendSubject appends the values of the required columns to b, or a template's name: two
// rows about the same subject are the same work, or contradict each other.
func (r Row) AppendSubject(b []byte) []byte {
	for i, column := range r.columns {
		if column.Required {
			b = append(append(b, r.values[i]...), 0) // no text has a NUL
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

var kinds = map[string]Kind{
	TypeVerify: {
		Name: TypeVerify,
		Columns: []Column{
			{Name: "organization_id", Required: true}, {Name: "discovery_domain_id", Required: true},
			{Name: "verification_host"}, {Name: "verification_txt"}, {Name: "use_for_organization_discovery", Bool: true},
		},
		check: checkVerify,
	},
	TypeUpdate: {
		Name: TypeUpdate,
		Columns: []Column{
			{Name: "organization_id", Required: true}, {Name: "discovery_domain_id", Required: true},
			{Name: "status"}, {Name: "use_for_organization_discovery", Bool: true},
		},
		check: checkUpdate,
	},
	TypeRemove: {
		Name:    TypeRemove,
		Columns: []Column{{Name: "organization_id", Required: true}, {Name: "client_id", Required: true}},
		check:   checkRemove,
	},
	TypeCreate: {Name: TypeCreate, WholeObject: true, check: checkCreate},
	// Their rows are found by sweeps, or chosen by a command.
	TypeRecheck: {Name: TypeRecheck, WholeObject: true, Found: true, check: checkFound},
	TypeRevoke:  {Name: TypeRevoke, WholeObject: true, Found: true, check: checkFound},
}

// Kinds are the kinds of runs whose rows can be submitted, by name.
func Kinds() []Kind {
	var all []Kind
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if !kinds[name].Found {
			all = append(all, kinds[name])
		}
	}
	return all
}

// KindOf is the kind of that name.
func KindOf(name string) (Kind, bool) {
	k, ok := kinds[name]
	return k, ok
}

// Parse checks a row, given as the values of the kind's columns, in their order: text, or
// "true" or "false"; "" for none. The error names the column, the rule and the value.
func (k Kind) Parse(values []string, d Defaults) (Row, error) {
	r := Row{columns: k.Columns, values: values}
	return r, k.check(&r, d)
}

// ParseObject checks a row of a kind whose rows are whole objects.
func (k Kind) ParseObject(object json.RawMessage) (Row, error) {
	r := Row{object: object}
	return r, k.check(&r, Defaults{})
}

func checkVerify(r *Row, _ Defaults) error {
	r.organization = r.values[0]
	if err := checkDomainIDs(r.organization, r.values[1]); err != nil {
		return err
	}
	host, txt := r.values[2], r.values[3]
	if host != "" {
		if err := dnscheck.CheckHost(host); err != nil {
			return fmt.Errorf("verification_host: %w", err)
		}
	}
	if len(txt) > maxToken {
		return fmt.Errorf("verification_txt: at most %d bytes, got %d", maxToken, len(txt))
	}
	return nil
}

// maxToken bounds verification_txt in bytes: a TXT record of that many does not fit a DNS
// message (RFC 1035 3.2.1).
const maxToken = 4096

func checkUpdate(r *Row, d Defaults) error {
	r.organization = r.values[0]
	status, use := &r.values[2], &r.values[3]
	if *status == "" {
		*status = d.Status
	}
	if *use == "" && d.UseForDiscovery != nil {
		*use = strconv.FormatBool(*d.UseForDiscovery)
	}
	var change apiclient.DiscoveryDomainUpdate
	if *status != "" {
		change.Status = new(apiclient.DomainStatus(*status))
	}
	if *use != "" {
		change.UseForOrganizationDiscovery = new(*use == "true")
	}
	return errors.Join(checkDomainIDs(r.organization, r.values[1]), change.Validate())
}

func checkRemove(r *Row, _ Defaults) error {
	r.organization = r.values[0]
	return errors.Join(apiclient.CheckID("organization_id", r.organization), apiclient.CheckID("client_id", r.values[1]))
}

func checkCreate(r *Row, _ Defaults) (err error) {
	r.template, err = apiclient.DecodeTemplateRequest(r.object)
	return err
}

// checkFound checks a row of a kind that no one submits.
func checkFound(r *Row, _ Defaults) error {
	var ids struct {
		OrganizationID    string `json:"organization_id"`
		DiscoveryDomainID string `json:"discovery_domain_id"`
	}
	if err := json.Unmarshal(r.object, &ids); err != nil {
		return err
	}
	r.organization = ids.OrganizationID
	return checkDomainIDs(ids.OrganizationID, ids.DiscoveryDomainID)
}

func checkDomainIDs(organization, domain string) error {
	return errors.Join(apiclient.CheckID("organization_id", organization), apiclient.CheckID("discovery_domain_id", domain))
}
