package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const basePath = "/api/v2"

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
	paged                     bool // accepts the parameters of a list
	bodied                    bool // requires a body
	do                        func(*Sandbox, *call) answer
}

const (
	domainPath    = "/organizations/*/discovery-domains/*"
	byNamePath    = "/organizations/*/discovery-domains/name/*"
	templatesPath = "/verifiable-credentials/verification/templates"
)

var operations = []operation{
	{
		name: OpUpdateDiscoveryDomain, method: http.MethodPatch, path: domainPath,
		scope: "update:organization_discovery_domains", bodied: true, do: (*Sandbox).updateDiscoveryDomain,
	},
	{
		name: OpGetDiscoveryDomain, method: http.MethodGet, path: domainPath,
		scope: "read:organization_discovery_domains", do: (*Sandbox).getDiscoveryDomain,
	},
	{
		name: OpFindDiscoveryDomain, method: http.MethodGet, path: byNamePath,
		scope: "read:organization_discovery_domains", do: (*Sandbox).findDiscoveryDomain,
	},
	{
		name: OpListDiscoveryDomains, method: http.MethodGet, path: "/organizations/*/discovery-domains",
		scope: "read:organization_discovery_domains", paged: true, do: (*Sandbox).listDiscoveryDomains,
	},
	{
		name: OpListOrganizations, method: http.MethodGet, path: "/organizations",
		scope: "read:organizations", paged: true, do: (*Sandbox).listOrganizations,
	},
	{
		name: OpGetOrganization, method: http.MethodGet, path: "/organizations/*",
		scope: "read:organizations", do: (*Sandbox).getOrganization,
	},
	{
		name: OpRemoveOrganizationClients, method: http.MethodDelete, path: "/organizations/*/clients",
		scope: "delete:organization_clients", bodied: true, do: (*Sandbox).removeOrganizationClients,
	},
	{
		name: OpListOrganizationClients, method: http.MethodGet, path: "/organizations/*/clients",
		scope: "read:organization_clients", paged: true, do: (*Sandbox).listOrganizationClients,
	},
	{
		name: OpCreateTemplate, method: http.MethodPost, path: templatesPath,
		scope: "create:vdcs_templates", bodied: true, do: (*Sandbox).createTemplate,
	},
	{
		name: OpListTemplates, method: http.MethodGet, path: templatesPath,
		scope: "read:vdcs_templates", paged: true, do: (*Sandbox).listTemplates,
	},
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

// answer is an answer.
type answer struct {
	status int
	header http.Header
	body   any    // nil: an empty body
	raw    []byte // instead of body, with its Content-Type in header
}

// serveAPI reads a request, logs it, answers it and sends the answer, unless a fault applies.
func (s *Sandbox) serveAPI(w http.ResponseWriter, r *http.Request) {
	c, err := s.receive(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the request is incomplete
	}
	c.Request = s.log.begin(c.Request)
	f := s.faults.claim(c.Request)
	s.pause(f.Latency)
	if f.DropBefore || f.NotHTTP {
		s.log.finish(c.Request, 0, false, true)
		if f.NotHTTP {
			writeNoHTTP(w)
			return
		}
		reset(w)
		return
	}
	a, handled := s.faulty(c, f)
	s.pause(f.AnswerLatency)
	// Logged before it is sent: a client that has the answer finds it in the log.
	s.log.finish(c.Request, a.status, handled, f.DropAfter || f.Truncate || f.Endless)
	s.options.Logger.DebugContext(r.Context(), "sandbox request", "operation", c.Operation, "method", c.Method, "path", c.Path, "status", a.status, "handled", handled)
	if f.DropAfter {
		reset(w)
		return
	}
	s.send(w, r, a, f)
}

// receive reads a request and its log entry. It fails if the request is incomplete.
func (s *Sandbox) receive(r *http.Request) (*call, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	if err != nil {
		return nil, err
	}
	c := &call{http: r, body: body, tooLarge: len(body) > bodyLimit, mediaType: mediaType(r.Header)}
	c.Request = Request{
		At: s.now(), Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		CorrelationID: r.Header.Get("X-Correlation-ID"),
	}
	c.query, c.queryErr = url.ParseQuery(r.URL.RawQuery)
	if isTokenPath(c.Path) {
		c.Operation = OpToken
		c.Body = withoutSecrets(body)
		return c, nil
	}
	c.route()
	c.Body = string(body[:min(len(body), loggedBody)])
	if !c.tooLarge && (c.mediaType == jsonType || c.mediaType == formType) {
		c.tree, c.treeErr = parseBody(c.mediaType, body)
		c.noteBody()
	}
	return c, nil
}

func isTokenPath(path string) bool { return path == "/oauth/token" || path == "/oauth/token/" }

// withoutSecrets returns the beginning of a token request's form for the log.
func withoutSecrets(body []byte) string {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return ""
	}
	form.Del("client_secret")
	form.Del("client_assertion")
	text := form.Encode()
	return text[:min(len(text), loggedBody)]
}

// route finds the operation, or the methods of the path.
func (c *call) route() {
	path, ok := strings.CutPrefix(c.Path, basePath)
	if !ok {
		return
	}
	for i := range operations {
		op := &operations[i]
		ids, ok := match(op.path, path)
		if !ok {
			continue
		}
		c.Organization, c.Domain = ids[0], ids[1]
		if op.method == c.Method {
			c.op, c.Operation = op, op.name
			return
		}
		c.allowed = append(c.allowed, op.method)
	}
}

// match returns the identifiers in a path, if it fits the pattern. Escaped slashes are part
// of an identifier.
func match(pattern, path string) (ids [2]string, ok bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return ids, false
	}
	n := 0
	for i := range want {
		if want[i] != "*" {
			if want[i] != got[i] {
				return ids, false
			}
			continue
		}
		id, err := url.PathUnescape(got[i])
		if err != nil || id == "" {
			return ids, false
		}
		ids[n] = id
		n++
	}
	return ids, true
}

// noteBody logs the clients or the template in the body, whether or not it is valid.
func (c *call) noteBody() {
	members, ok := c.tree.(map[string]any)
	if !ok {
		return
	}
	switch c.Operation {
	case OpRemoveOrganizationClients:
		elements, err := array(members["clients"], "")
		if err != nil {
			return
		}
		for _, e := range elements[:min(len(elements), 2*maxClients)] {
			if id, err := text(e, ""); err == nil {
				c.Clients = append(c.Clients, id)
			}
		}
	case OpCreateTemplate:
		if name, err := text(members["name"], ""); err == nil {
			c.Template = name[:min(len(name), loggedBody)]
		}
	}
}

// answer executes a request.
func (s *Sandbox) answer(c *call) answer {
	if c.Operation == OpToken {
		if c.Method != http.MethodPost {
			return methodNotAllowed([]string{http.MethodPost})
		}
		return s.grant(c)
	}
	if c.op == nil {
		if len(c.allowed) > 0 {
			return methodNotAllowed(c.allowed)
		}
		return refuse(http.StatusNotFound, "Not Found", "")
	}
	claims, refused := s.authenticate(c.http)
	if refused != nil {
		return *refused
	}
	var limits http.Header
	if s.bucket != nil {
		ok, h := s.bucket.take(s.now())
		if limits = h; !ok {
			return refuse(http.StatusTooManyRequests, "", "").with(limits)
		}
	}
	if !claims.may(c.op.scope) {
		return insufficientScope(c.op.scope).with(limits)
	}
	if refused := c.check(); refused != nil {
		return refused.with(limits)
	}
	return c.op.do(s, c).with(limits)
}

func (a answer) with(header http.Header) answer {
	if a.header == nil {
		a.header = http.Header{}
	}
	for name, values := range header {
		a.header[http.CanonicalHeaderKey(name)] = values
	}
	return a
}

// check checks the rules of all operations: of the path's identifiers, the query, the
// correlation id, and the body's type and syntax.
func (c *call) check() *answer {
	if err := c.checkPath(); err != nil {
		return new(badRequest("Path", err, "invalid_uri"))
	}
	if utf8.RuneCountInString(c.CorrelationID) > 64 {
		return new(badRequest("Header", errors.New("'String is too long, maximum 64' on property X-Correlation-ID"), "invalid_headers"))
	}
	if err := c.checkQuery(); err != nil {
		return new(badRequest("Query", err, "invalid_query_string"))
	}
	if !c.op.bodied {
		return nil
	}
	switch {
	case c.tooLarge:
		return new(refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("Payload content length greater than maximum allowed: %d", bodyLimit), ""))
	case c.mediaType != jsonType && c.mediaType != formType:
		return new(refuse(http.StatusUnsupportedMediaType, "Unsupported Media Type", ""))
	case c.treeErr != nil:
		return new(badBody(c.treeErr))
	}
	return nil
}

func (c *call) checkPath() error {
	second, property := domainIDPattern, "discovery_domain_id"
	if c.op.path == byNamePath {
		second, property = domainNamePattern, "discovery_domain"
	}
	for _, p := range []struct {
		property, id string
		pattern      *regexp.Regexp
	}{{"id", c.Organization, organizationIDPattern}, {property, c.Domain, second}} {
		if p.id != "" && !p.pattern.MatchString(p.id) {
			return fmt.Errorf("'Object didn't pass validation: %s' on property %s", capped(p.id), p.property)
		}
	}
	return nil
}

func (c *call) checkQuery() error {
	if c.queryErr != nil {
		return errors.New("'query string cannot be read'")
	}
	for _, name := range slices.Sorted(maps.Keys(c.query)) {
		if !c.op.paged || !slices.Contains(listParameters, name) {
			return fmt.Errorf("'Additional properties not allowed: %s'", capped(name))
		}
		if len(c.query[name]) > 1 {
			return fmt.Errorf("'Expected type string but found type array' on property %s", name)
		}
	}
	var err error
	c.list, err = c.readList()
	return err
}

// in answers for the organization in the path, under the tenant's lock.
func (s *Sandbox) in(c *call, do func(*organization) answer) answer {
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	o, ok := s.tenant.organizations.get(c.Organization)
	if !ok {
		return refuse(http.StatusNotFound, "No organization found by that id or name", "")
	}
	return do(o)
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

// shown returns a record for an answer.
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
		return listAnswer(c, "domains", &o.domains, func(h *history) (Domain, bool) {
			d, ok := s.read(h)
			if !ok {
				return Domain{}, false
			}
			return s.shown(c, d), true
		})
	})
}

type organizationRecord struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"display_name"`
}

func (o *organization) record() organizationRecord {
	return organizationRecord{ID: o.id, Name: o.name, DisplayName: o.name}
}

func (s *Sandbox) listOrganizations(c *call) answer {
	s.tenant.mu.Lock()
	defer s.tenant.mu.Unlock()
	return listAnswer(c, "organizations", &s.tenant.organizations, func(o *organization) (organizationRecord, bool) {
		return o.record(), true
	})
}

func (s *Sandbox) getOrganization(c *call) answer {
	return s.in(c, func(o *organization) answer { return answer{status: http.StatusOK, body: o.record()} })
}

func (s *Sandbox) listOrganizationClients(c *call) answer {
	return s.in(c, func(o *organization) answer {
		return listAnswer(c, "clients", &o.clients, func(id string) (map[string]string, bool) {
			return map[string]string{"client_id": id}, true
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
	return listAnswer(c, "templates", &s.tenant.templates, func(t Template) (templateRecord, bool) { return templateRecordOf(t), true })
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

// refuse returns an error in the service's form. An empty message is replaced by the one
// that the service was observed to send with that status.
func refuse(status int, message, code string) answer {
	if status == http.StatusTooManyRequests && message == "" {
		message, code = "Global limit has been reached", "too_many_requests"
	}
	if message == "" {
		message = http.StatusText(status)
	}
	body := map[string]any{"statusCode": status, "error": http.StatusText(status), "message": message}
	if code != "" {
		body["errorCode"] = code
	}
	return answer{status: status, header: http.Header{}, body: body}
}

func badRequest(part string, err error, code string) answer {
	return refuse(http.StatusBadRequest, part+" validation error: "+err.Error(), code)
}

func badBody(err error) answer { return badRequest("Payload", err, "invalid_body") }

func methodNotAllowed(allowed []string) answer {
	return refuse(http.StatusMethodNotAllowed, "", "").with(http.Header{"Allow": {strings.Join(allowed, ", ")}})
}

// encode returns the bytes of an answer and their type.
func (a answer) encode() ([]byte, string) {
	switch {
	case a.raw != nil:
		return a.raw, a.header.Get("Content-Type")
	case a.body == nil:
		return nil, ""
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a.body); err != nil {
		return []byte(`{}`), jsonType // maps, strings and numbers always encode
	}
	return bytes.TrimSpace(b.Bytes()), "application/json; charset=utf-8"
}
