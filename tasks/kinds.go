package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

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
	// Found: rows are found by a sweep, and cannot be submitted.
	Found bool

	parse func(object json.RawMessage, d Defaults) (Row, error)
}

// Defaults are what rows of domain:update get where they say nothing.
type Defaults struct {
	Status          string
	UseForDiscovery *bool
}

// Row is a row that was checked, by [Kind.Parse].
type Row struct {
	kind         string
	organization string
	id           string // of the discovery domain, or of the client
	host, txt    string
	status       string
	use          *bool
	object       json.RawMessage // of kinds whose rows are whole objects
}

// Organization is the organization that the row is about; empty for templates.
func (r Row) Organization() string { return r.organization }

// AppendIdentity appends to b what makes the row the work that it is: rows with
// the same identity are the same work. A template has none: two equal requests
// are two requests.
func (r Row) AppendIdentity(b []byte) []byte {
	if r.kind == TypeCreate {
		return b
	}
	// No text has a NUL in it, so that each part ends where it seems to.
	for _, part := range []string{r.organization, r.id, r.host, r.txt, r.status} {
		b = append(b, part...)
		b = append(b, 0)
	}
	switch {
	case r.use == nil:
		return b
	case *r.use:
		return append(b, 1)
	}
	return append(b, 2)
}

// Content returns the row as a JSON object, as the handlers of its kind read it.
func (r Row) Content() ([]byte, error) {
	var content any = updateRow{OrganizationID: r.organization, DiscoveryDomainID: r.id, Status: r.status, UseForOrganizationDiscovery: r.use}
	switch r.kind {
	case TypeVerify:
		content = verifyRow{
			OrganizationID: r.organization, DiscoveryDomainID: r.id, VerificationHost: r.host, VerificationTXT: r.txt, UseForOrganizationDiscovery: r.use,
		}
	case TypeRemove:
		content = removeRow{OrganizationID: r.organization, ClientID: r.id}
	case TypeCreate, TypeRecheck, TypeAct, TypeRelook:
		content = r.object
	}
	b, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("content of a row: %w", err)
	}
	return b, nil
}

var kinds = map[string]Kind{
	TypeVerify: {
		Name: TypeVerify,
		Columns: []Column{
			{Name: "organization_id", Required: true}, {Name: "discovery_domain_id", Required: true},
			{Name: "verification_host"}, {Name: "verification_txt"}, {Name: "use_for_organization_discovery", Bool: true},
		},
		parse: parseVerify,
	},
	TypeUpdate: {
		Name: TypeUpdate,
		Columns: []Column{
			{Name: "organization_id", Required: true}, {Name: "discovery_domain_id", Required: true},
			{Name: "status"}, {Name: "use_for_organization_discovery", Bool: true},
		},
		parse: parseUpdate,
	},
	TypeRemove: {
		Name:    TypeRemove,
		Columns: []Column{{Name: "organization_id", Required: true}, {Name: "client_id", Required: true}},
		parse:   parseRemove,
	},
	TypeCreate: {Name: TypeCreate, WholeObject: true, parse: parseCreate},
	// Their rows are found by sweeps, or decided on.
	TypeRecheck: {Name: TypeRecheck, WholeObject: true, Found: true, parse: parseFound(TypeRecheck)},
	TypeAct:     {Name: TypeAct, WholeObject: true, Found: true, parse: parseFound(TypeAct)},
	TypeRelook:  {Name: TypeRelook, WholeObject: true, Found: true, parse: parseFound(TypeRelook)},
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

// Parse checks one row, given as a JSON object with the kind's columns as
// members. The error names the member, the rule and the value.
func (k Kind) Parse(object json.RawMessage, d Defaults) (Row, error) { return k.parse(object, d) }

type verifyRow struct {
	OrganizationID              string `json:"organization_id"`
	DiscoveryDomainID           string `json:"discovery_domain_id"`
	VerificationHost            string `json:"verification_host,omitempty"`
	VerificationTXT             string `json:"verification_txt,omitempty"`
	UseForOrganizationDiscovery *bool  `json:"use_for_organization_discovery,omitempty"`
}

func (r *verifyRow) field(name string) any {
	switch name {
	case "organization_id":
		return &r.OrganizationID
	case "discovery_domain_id":
		return &r.DiscoveryDomainID
	case "verification_host":
		return &r.VerificationHost
	case "verification_txt":
		return &r.VerificationTXT
	case "use_for_organization_discovery":
		return &r.UseForOrganizationDiscovery
	}
	return nil
}

func parseVerify(object json.RawMessage, _ Defaults) (Row, error) {
	r, err := decodeRow[verifyRow](object)
	if err != nil {
		return Row{}, err
	}
	if err := validateVerify(r.OrganizationID, r.DiscoveryDomainID, r.VerificationHost, r.VerificationTXT); err != nil {
		return Row{}, err
	}
	return Row{
		kind: TypeVerify, organization: r.OrganizationID, id: r.DiscoveryDomainID,
		host: r.VerificationHost, txt: r.VerificationTXT, use: r.UseForOrganizationDiscovery,
	}, nil
}

type updateRow struct {
	OrganizationID              string `json:"organization_id"`
	DiscoveryDomainID           string `json:"discovery_domain_id"`
	Status                      string `json:"status,omitempty"`
	UseForOrganizationDiscovery *bool  `json:"use_for_organization_discovery,omitempty"`
}

func (r *updateRow) field(name string) any {
	switch name {
	case "organization_id":
		return &r.OrganizationID
	case "discovery_domain_id":
		return &r.DiscoveryDomainID
	case "status":
		return &r.Status
	case "use_for_organization_discovery":
		return &r.UseForOrganizationDiscovery
	}
	return nil
}

func parseUpdate(object json.RawMessage, d Defaults) (Row, error) {
	r, err := decodeRow[updateRow](object)
	if err != nil {
		return Row{}, err
	}
	if r.Status == "" {
		r.Status = d.Status
	}
	if r.UseForOrganizationDiscovery == nil {
		r.UseForOrganizationDiscovery = d.UseForDiscovery
	}
	row := Row{
		kind: TypeUpdate, organization: r.OrganizationID, id: r.DiscoveryDomainID,
		status: r.Status, use: r.UseForOrganizationDiscovery,
	}
	change := apiclient.DiscoveryDomainUpdate{UseForOrganizationDiscovery: r.UseForOrganizationDiscovery}
	if r.Status != "" {
		change.Status = new(apiclient.DomainStatus(r.Status))
	}
	return row, errors.Join(checkDomainIDs(row.organization, row.id), change.Validate())
}

type removeRow struct {
	OrganizationID string `json:"organization_id"`
	ClientID       string `json:"client_id"`
}

func (r *removeRow) field(name string) any {
	switch name {
	case "organization_id":
		return &r.OrganizationID
	case "client_id":
		return &r.ClientID
	}
	return nil
}

func parseRemove(object json.RawMessage, _ Defaults) (Row, error) {
	r, err := decodeRow[removeRow](object)
	if err != nil {
		return Row{}, err
	}
	err = errors.Join(apiclient.CheckID("organization_id", r.OrganizationID), apiclient.CheckID("client_id", r.ClientID))
	return Row{kind: TypeRemove, organization: r.OrganizationID, id: r.ClientID}, err
}

func parseCreate(object json.RawMessage, _ Defaults) (Row, error) {
	if _, err := apiclient.DecodeTemplateRequest(object); err != nil {
		return Row{}, err
	}
	return Row{kind: TypeCreate, object: object}, nil
}

// parseFound returns a function that reads a row of a kind which no one submits.
func parseFound(kind string) func(json.RawMessage, Defaults) (Row, error) {
	return func(object json.RawMessage, _ Defaults) (Row, error) {
		var r struct {
			OrganizationID    string `json:"organization_id"`
			DiscoveryDomainID string `json:"discovery_domain_id"`
		}
		if err := json.Unmarshal(object, &r); err != nil {
			return Row{}, err
		}
		return Row{kind: kind, organization: r.OrganizationID, id: r.DiscoveryDomainID, object: object}, checkDomainIDs(r.OrganizationID, r.DiscoveryDomainID)
	}
}

// maxToken bounds verification_txt in bytes: a TXT record of that many does not fit a DNS
// message (RFC 1035 3.2.1).
const maxToken = 4096

func validateVerify(organization, domain, host, txt string) error {
	if err := checkDomainIDs(organization, domain); err != nil {
		return err
	}
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

func checkDomainIDs(organization, domain string) error {
	return errors.Join(apiclient.CheckID("organization_id", organization), apiclient.CheckID("discovery_domain_id", domain))
}
