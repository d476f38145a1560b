package sandbox

import (
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
	s.options.Logger.DebugContext(r.Context(), "sandbox request", "operation", c.Operation, "method", c.Method, "path",
		c.Path, "status", a.status, "handled", handled)
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
	switch {
	case c.tooLarge:
	case c.mediaType == jsonType:
		c.tree, c.treeErr = parseJSON(body)
	case c.mediaType == formType:
		c.tree, c.treeErr = parseForm(string(body))
	}
	c.noteBody()
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
		c.Organization = ids[0]
		c.Domain = ids[1]
		if op.method == c.Method {
			c.op = op
			c.Operation = op.name
			return
		}
		c.allowed = append(c.allowed, op.method)
	}
}

// match returns the identifiers in a path, if it fits the pattern. Escaped slashes are part
// of an identifier.
func match(pattern, path string) (ids [2]string, ok bool) {
	want := strings.Split(pattern, "/")
	got := strings.Split(path, "/")
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
	if !claims.may(c.op.scope) || s.tokens.withholds(c.op.scope) {
		return insufficientScope(c.op.scope).with(limits)
	}
	if refused := c.check(); refused != nil {
		return refused.with(limits)
	}
	return c.op.do(s, c).with(limits)
}

// check checks the rules of all operations: of the path's identifiers, the query, the
// correlation id, and the body's type and syntax.
func (c *call) check() *answer {
	if err := c.checkPath(); err != nil {
		return new(badRequest("Path", err, "invalid_uri"))
	}
	if utf8.RuneCountInString(c.CorrelationID) > 64 {
		return new(badRequest("Header", errors.New("'String is too long, maximum 64' on property X-Correlation-ID"),
			"invalid_headers"))
	}
	if err := c.checkQuery(); err != nil {
		return new(badRequest("Query", err, "invalid_query_string"))
	}
	if c.op.method == http.MethodGet {
		return nil
	}
	switch {
	case c.tooLarge:
		return new(refuse(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("Payload content length greater than maximum allowed: %d", bodyLimit), ""))
	case c.mediaType != jsonType && c.mediaType != formType:
		return new(refuse(http.StatusUnsupportedMediaType, "Unsupported Media Type", ""))
	case c.treeErr != nil:
		return new(badBody(c.treeErr))
	}
	return nil
}

func (c *call) checkPath() error {
	second := domainIDPattern
	property := "discovery_domain_id"
	if c.op.path == byNamePath {
		second = domainNamePattern
		property = "discovery_domain"
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
		ofList := c.op.paged && slices.Contains(listParameters, name)
		if !ofList && name != c.op.parameter {
			return fmt.Errorf("'Additional properties not allowed: %s'", capped(name))
		}
		if len(c.query[name]) > 1 {
			return fmt.Errorf("'Expected type string but found type array' on property %s", name)
		}
	}
	var err error
	c.list, err = readList(c.query, c.Operation+" "+c.Organization+" ")
	return err
}

// faulty returns the answer under a fault, and reports whether the request was executed.
func (s *Sandbox) faulty(c *call, f Fault) (a answer, handled bool) {
	c.wrong = f.Wrong
	handled = f.Handled || !f.replaces()
	if handled {
		a = s.answer(c)
	}
	if f.replaces() {
		a = f.answer()
	}
	return a.with(f.Header), handled
}
