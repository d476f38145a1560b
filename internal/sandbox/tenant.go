package sandbox

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// The two states of a discovery domain (specification 3).
const (
	statusPending  = "pending"
	statusVerified = "verified"
)

// Domain is an organization's discovery domain: the API's record (specification 2.1).
type Domain struct {
	ID     string `json:"id"`
	Domain string `json:"domain"`
	Status string `json:"status"`                                   // "pending" or "verified"
	Use    *bool  `json:"use_for_organization_discovery,omitempty"` // nil: omitted; its target never changes
	TXT    string `json:"verification_txt"`
	Host   string `json:"verification_host"`
}

// Template is a verifiable credential template (specification 2.2).
type Template struct {
	ID                         string
	Name, Type, Dialect        string
	Claims                     map[string]bool // the innermost object of 2.3
	WellKnownTrustedIssuers    string
	CustomCertificateAuthority *string // nil: none
	CreatedAt, UpdatedAt       time.Time
}

type tenant struct {
	mu            sync.Mutex
	organizations ordered[*organization]
	templates     ordered[Template]
	templateNames map[string]int // how many templates have the name
	lastTemplate  int
}

type organization struct {
	id, name    string
	entitlement bool // its app entitlement is active
	domains     ordered[*history]
	clients     ordered[association]
}

// association is a client of an organization.
type association struct {
	client       string
	memberAccess bool // use_for_member_access
}

// history has the versions of a domain, of which reads may see an earlier one.
type history struct {
	versions []version // oldest first, never empty
}

type version struct {
	since  time.Time
	domain Domain
}

func (h *history) current() Domain { return h.versions[len(h.versions)-1].domain }

// asOf returns the version at that time; false: the domain did not exist.
func (h *history) asOf(at time.Time) (Domain, bool) {
	if h == nil {
		return Domain{}, false
	}
	for _, v := range slices.Backward(h.versions) {
		if !v.since.After(at) {
			return v.domain, true
		}
	}
	return Domain{}, false
}

// change adds a version. Without a lag it removes the earlier ones.
func (h *history) change(d Domain, now time.Time, lag time.Duration) {
	if lag == 0 {
		h.versions = nil
	}
	h.versions = append(h.versions, version{since: now, domain: d})
}

func (t Template) copy() Template {
	t.Claims = maps.Clone(t.Claims)
	if t.CustomCertificateAuthority != nil {
		t.CustomCertificateAuthority = new(*t.CustomCertificateAuthority)
	}
	return t
}

// organization returns the organization, and adds it if it does not exist.
func (t *tenant) organization(id string) *organization {
	if o, ok := t.organizations.get(id); ok {
		return o
	}
	o := &organization{id: id, name: id}
	t.organizations.put(id, o)
	return o
}

// in calls do for an organization under the lock, and reports whether it exists.
func (t *tenant) in(org string, do func(*organization)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.organizations.get(org)
	if ok {
		do(o)
	}
	return ok
}

// storeTemplate stores a template, with id and times of the server if they are missing.
func (t *tenant) storeTemplate(requested Template, now time.Time) Template {
	made := requested.copy()
	for made.ID == "" {
		t.lastTemplate++
		if _, taken := t.templates.get(templateID(t.lastTemplate)); !taken {
			made.ID = templateID(t.lastTemplate)
		}
	}
	if made.CreatedAt.IsZero() {
		made.CreatedAt = now.UTC().Truncate(time.Millisecond)
	}
	if made.UpdatedAt.IsZero() {
		made.UpdatedAt = made.CreatedAt
	}
	if old, ok := t.templates.get(made.ID); ok {
		t.templateNames[old.Name]--
	}
	t.templateNames[made.Name]++
	t.templates.put(made.ID, made)
	return made.copy()
}

// AddOrganization adds an organization, or renames the one of that id, and returns its id.
// An empty id is replaced by org_ and 16 letters and digits, an empty name by the id.
func (s *Sandbox) AddOrganization(id, name string) string {
	if id == "" {
		id = s.names.organization()
	}
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	s.tenant.organization(id).name = cmp.Or(name, id)
	return id
}

// AddDomain adds a discovery domain to an organization, which it adds if it does not exist,
// and returns the record. It sets empty members: the id, the domain's name, status pending,
// the token, and the host _ss-verification.<organization>.<domain>. It publishes nothing in
// the zone. A record of that id is replaced.
func (s *Sandbox) AddDomain(org string, d Domain) Domain {
	if d.ID == "" {
		d.ID = s.names.domain()
	}
	if d.Domain == "" {
		d.Domain = s.domainName()
	}
	if d.TXT == "" {
		d.TXT = s.names.token()
	}
	d.Status = cmp.Or(d.Status, statusPending)
	d.Host = cmp.Or(d.Host, "_ss-verification."+org+"."+d.Domain)
	s.SetDomain(org, d)
	return d
}

// SetDomain sets the record of that id, without changing it. Reads see it after the lag.
func (s *Sandbox) SetDomain(org string, d Domain) {
	t := s.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.organization(org)
	h, ok := o.domains.get(d.ID)
	if !ok {
		h = &history{}
		o.domains.put(d.ID, h)
	}
	h.change(d, s.now(), s.options.ReadLag)
}

// RemoveDomain removes a discovery domain, without a lag.
func (s *Sandbox) RemoveDomain(org, id string) {
	s.tenant.in(org, func(o *organization) { o.domains.remove(id) })
}

// Domain returns the current record, without the lag of reads; false: there is none.
func (s *Sandbox) Domain(org, id string) (d Domain, ok bool) {
	s.tenant.in(org, func(o *organization) {
		var h *history
		if h, ok = o.domains.get(id); ok {
			d = h.current()
		}
	})
	return d, ok
}

// Domains returns an organization's current records, in the order of their addition.
func (s *Sandbox) Domains(org string) (found []Domain) {
	s.tenant.in(org, func(o *organization) {
		for h := range o.domains.all() {
			found = append(found, h.current())
		}
	})
	return found
}

// Organizations returns the ids of all organizations, in the order of their addition.
func (s *Sandbox) Organizations() []string {
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	var found []string
	for o := range s.tenant.organizations.all() {
		found = append(found, o.id)
	}
	return found
}

// AddClients associates clients with an organization, which it adds if it does not exist, for the
// access of its members.
func (s *Sandbox) AddClients(org string, clients ...string) {
	for _, c := range clients {
		s.AddClient(org, c, true)
	}
}

// AddClient associates a client with an organization, which it adds if it does not exist.
// memberAccess is the association's use_for_member_access.
func (s *Sandbox) AddClient(org, client string, memberAccess bool) {
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	s.tenant.organization(org).clients.put(client, association{client, memberAccess})
}

// RemoveClient removes a client from an organization.
func (s *Sandbox) RemoveClient(org, client string) {
	s.tenant.in(org, func(o *organization) { o.clients.remove(client) })
}

// EntitleApps sets whether the app entitlement of an organization is active.
func (s *Sandbox) EntitleApps(org string, active bool) {
	s.tenant.in(org, func(o *organization) { o.entitlement = active })
}

// Clients returns the clients of an organization, in the order of their addition.
func (s *Sandbox) Clients(org string) (found []string) {
	s.tenant.in(org, func(o *organization) {
		for a := range o.clients.all() {
			found = append(found, a.client)
		}
	})
	return found
}

// AddTemplate adds a template, whether or not its name is in use, and returns it. It sets
// an empty id and empty times.
func (s *Sandbox) AddTemplate(t Template) Template {
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	return s.tenant.storeTemplate(t, s.now())
}

// Templates returns all templates, in the order of their addition.
func (s *Sandbox) Templates() []Template {
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	var found []Template
	for t := range s.tenant.templates.all() {
		found = append(found, t.copy())
	}
	return found
}
