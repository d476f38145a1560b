package sandbox

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// The names of the operations in the request log and in faults.
const (
	OpUpdateDiscoveryDomain     = "update_discovery_domain"
	OpGetDiscoveryDomain        = "get_discovery_domain"
	OpFindDiscoveryDomain       = "find_discovery_domain"
	OpListDiscoveryDomains      = "list_discovery_domains"
	OpListOrganizations         = "list_organizations"
	OpGetOrganization           = "get_organization"
	OpRemoveOrganizationClients = "remove_organization_clients"
	OpListOrganizationClients   = "list_organization_clients"
	OpCreateTemplate            = "create_template"
	OpListTemplates             = "list_templates"
	OpToken                     = "token"
)

// operation is one method of one path. A * in the path is an identifier: the first of an
// organization, the second of a discovery domain or, after name/, the domain itself.
type operation struct {
	name, method, path, scope string
	paged                     bool   // accepts the parameters of a list
	parameter                 string // that its query may also have; empty: none
	do                        func(*Sandbox, *call) answer
}

const (
	domainPath    = "/organizations/*/discovery-domains/*"
	byNamePath    = "/organizations/*/discovery-domains/name/*"
	templatesPath = "/verifiable-credentials/verification/templates"
)

var operations = []operation{
	{name: OpUpdateDiscoveryDomain, method: http.MethodPatch, path: domainPath,
		scope: "update:organization_discovery_domains", do: (*Sandbox).updateDiscoveryDomain},
	{name: OpGetDiscoveryDomain, method: http.MethodGet, path: domainPath, scope: "read:organization_discovery_domains",
		do: (*Sandbox).getDiscoveryDomain},
	{name: OpFindDiscoveryDomain, method: http.MethodGet, path: byNamePath, scope: "read:organization_discovery_domains",
		do: (*Sandbox).findDiscoveryDomain},
	{name: OpListDiscoveryDomains, method: http.MethodGet, path: "/organizations/*/discovery-domains",
		scope: "read:organization_discovery_domains", paged: true, do: (*Sandbox).listDiscoveryDomains},
	{name: OpListOrganizations, method: http.MethodGet, path: "/organizations", scope: "read:organizations", paged: true,
		parameter: associationFor, do: (*Sandbox).listOrganizations},
	{name: OpGetOrganization, method: http.MethodGet, path: "/organizations/*", scope: "read:organizations",
		do: (*Sandbox).getOrganization},
	{name: OpRemoveOrganizationClients, method: http.MethodDelete, path: "/organizations/*/clients",
		scope: "delete:organization_clients", do: (*Sandbox).removeOrganizationClients},
	{name: OpListOrganizationClients, method: http.MethodGet, path: "/organizations/*/clients",
		scope: "read:organization_clients", paged: true, do: (*Sandbox).listOrganizationClients},
	{name: OpCreateTemplate, method: http.MethodPost, path: templatesPath, scope: "create:vdcs_templates",
		do: (*Sandbox).createTemplate},
	{name: OpListTemplates, method: http.MethodGet, path: templatesPath, scope: "read:vdcs_templates", paged: true,
		do: (*Sandbox).listTemplates},
}

// call is one request, as far as it could be read.
type call struct {
	Request

	http      *http.Request
	op        *operation // nil: no operation of the API
	allowed   []string   // methods of the path; empty: unknown path
	body      []byte
	tooLarge  bool
	mediaType string
	tree      any // the body; nil if treeErr is set
	treeErr   error
	query     url.Values
	queryErr  error
	list      listQuery
	wrong     func(*Domain) // changes discovery domains in the answer; may be nil
}

// in answers for the organization in the path, under the tenant's lock.
func (s *Sandbox) in(c *call, do func(*organization) answer) (a answer) {
	if !s.tenant.in(c.Organization, func(o *organization) { a = do(o) }) {
		return refuse(http.StatusNotFound, "No organization found by that id or name", "")
	}
	return a
}

func (s *Sandbox) updateDiscoveryDomain(c *call) answer {
	update, err := checkDomainUpdate(c.tree)
	if err != nil {
		return badBody(err)
	}
	return s.in(c, func(o *organization) answer {
		h, ok := o.domains.get(c.Domain)
		if !ok {
			return s.domainAnswer(c, Domain{}, false)
		}
		d := h.current()
		d.Status = cmp.Or(update.status, d.Status)
		switch {
		case update.use != nil:
			d.Use = update.use
		case s.options.FlagDefault == FlagTrue:
			d.Use = new(true)
		}
		h.change(d, s.now(), s.options.ReadLag)
		return s.domainAnswer(c, d, true)
	})
}

func (s *Sandbox) getDiscoveryDomain(c *call) answer {
	return s.in(c, func(o *organization) answer {
		h, _ := o.domains.get(c.Domain)
		d, ok := s.read(h)
		return s.domainAnswer(c, d, ok)
	})
}

// findDiscoveryDomain reads a record by the domain's name, which is unique in an
// organization.
func (s *Sandbox) findDiscoveryDomain(c *call) answer {
	return s.in(c, func(o *organization) answer {
		for h := range o.domains.all() {
			if d, ok := s.read(h); ok && strings.EqualFold(d.Domain, c.Domain) {
				return s.domainAnswer(c, d, true)
			}
		}
		return s.domainAnswer(c, Domain{}, false)
	})
}

// read returns a record as reads see it after the lag; false: they see none.
func (s *Sandbox) read(h *history) (Domain, bool) { return h.asOf(s.now().Add(-s.options.ReadLag)) }

func (s *Sandbox) domainAnswer(c *call, d Domain, found bool) answer {
	if !found {
		return refuse(http.StatusNotFound, "No organization domain found by that id", "")
	}
	return answer{status: http.StatusOK, body: s.shown(c, d)}
}

func (s *Sandbox) shown(c *call, d Domain) Domain {
	if c.wrong != nil {
		c.wrong(&d)
	}
	if s.options.OldRecords {
		d.Use = nil
	}
	return d
}

func (s *Sandbox) listDiscoveryDomains(c *call) answer {
	return s.in(c, func(o *organization) answer {
		return listAnswer(c.list, "domains", &o.domains, func(h *history) (Domain, bool) {
			d, ok := s.read(h)
			if !ok {
				return Domain{}, false
			}
			return s.shown(c, d), true
		})
	})
}

// associationFor is the parameter of the list of organizations by which those that have a client
// get the member client. The others do not have the member (Terraform's provider 1.55).
const associationFor = "include_client_association_for"

type organizationRecord struct {
	ID          string             `json:"id"`
	Name        string             `json:"name"`
	DisplayName string             `json:"display_name"`
	Entitlement bool               `json:"is_app_entitlement_active"`
	Client      *associationRecord `json:"client,omitempty"`
}

type associationRecord struct {
	MemberAccess bool `json:"use_for_member_access"`
}

func (o *organization) record() organizationRecord {
	return organizationRecord{ID: o.id, Name: o.name, DisplayName: o.name, Entitlement: o.entitlement}
}

// recordFor is the record with the association of a client, if there is one.
func (o *organization) recordFor(client string) organizationRecord {
	record := o.record()
	if a, ok := o.clients.get(client); ok {
		record.Client = &associationRecord{a.memberAccess}
	}
	return record
}

func (s *Sandbox) listOrganizations(c *call) answer {
	client := c.query.Get(associationFor)
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	return listAnswer(c.list, "organizations", &s.tenant.organizations, func(o *organization) (organizationRecord, bool) {
		return o.recordFor(client), true
	})
}

func (s *Sandbox) getOrganization(c *call) answer {
	return s.in(c, func(o *organization) answer { return answer{status: http.StatusOK, body: o.record()} })
}

func (s *Sandbox) listOrganizationClients(c *call) answer {
	return s.in(c, func(o *organization) answer {
		return listAnswer(c.list, "clients", &o.clients, func(a association) (map[string]any, bool) {
			return map[string]any{"client_id": a.client, "use_for_member_access": a.memberAccess}, true
		})
	})
}

// removeOrganizationClients removes all clients, or none if the organization does not exist.
// Clients that are not associated are ignored.
func (s *Sandbox) removeOrganizationClients(c *call) answer {
	clients, err := checkRemoval(c.tree, s.options.MaxClients)
	if err != nil {
		return badBody(err)
	}
	return s.in(c, func(o *organization) answer {
		for _, client := range clients {
			o.clients.remove(client)
		}
		return answer{status: http.StatusNoContent}
	})
}

func (s *Sandbox) createTemplate(c *call) answer {
	requested, err := checkTemplate(c.tree)
	if err != nil {
		return badBody(err)
	}
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	if s.tenant.templateNames[requested.Name] > 0 && !s.options.RepeatTemplateNames {
		return refuse(http.StatusConflict, "A template with the same name already exists", "")
	}
	return answer{status: http.StatusCreated, body: templateRecordOf(s.tenant.storeTemplate(requested, s.now()))}
}

func (s *Sandbox) listTemplates(c *call) answer {
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	return listAnswer(c.list, "templates", &s.tenant.templates,
		func(t Template) (templateRecord, bool) { return templateRecordOf(t), true })
}

// templateRecord is a template of the API (specification 2.2).
type templateRecord struct {
	ID           string                                `json:"id"`
	Name         string                                `json:"name"`
	Type         string                                `json:"type"`
	Dialect      string                                `json:"dialect"`
	Presentation map[string]map[string]map[string]bool `json:"presentation"`
	CA           *string                               `json:"custom_certificate_authority,omitempty"`
	Issuers      string                                `json:"well_known_trusted_issuers"`
	CreatedAt    string                                `json:"created_at"`
	UpdatedAt    string                                `json:"updated_at"`
}

func templateRecordOf(t Template) templateRecord {
	claims := map[string]bool{} // not null in JSON
	maps.Copy(claims, t.Claims)
	return templateRecord{
		ID: t.ID, Name: t.Name, Type: t.Type, Dialect: t.Dialect,
		Presentation: presentation(claims),
		CA:           t.CustomCertificateAuthority, Issuers: t.WellKnownTrustedIssuers,
		CreatedAt: t.CreatedAt.UTC().Format(isoMillis), UpdatedAt: t.UpdatedAt.UTC().Format(isoMillis),
	}
}

// isoMillis is ISO 8601 with milliseconds, always three digits of them.
const isoMillis = "2006-01-02T15:04:05.000Z07:00"

// presentation wraps claims as specification 2.3 does.
func presentation(claims map[string]bool) map[string]map[string]map[string]bool {
	return map[string]map[string]map[string]bool{documentType: {namespace: claims}}
}
