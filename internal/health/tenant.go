package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/pace"
)

// Tenant is what is to be tested of one.
type Tenant struct {
	Name string
	API  *apiclient.Client // whose gate is Headers
	// Headers has seen the API's answers.
	Headers *Headers
	Tokens  apiclient.TokenSource
	Burst   int
	Needs   Needs
	DNS     *dnscheck.Checker
	Mode    dnscheck.Mode
	Quorum  int
	// Assertions: tokens are asked for with assertions, which are dated.
	Assertions bool
}

// Check tests the tenant: token, scopes, API and DNS.
func (t Tenant) Check(ctx context.Context) []Finding {
	var api, dns []Finding
	var both sync.WaitGroup
	both.Go(func() { api = t.api(ctx) })
	both.Go(func() { dns = t.dns(ctx) })
	both.Wait()
	return about("tenant "+t.Name, append(api, dns...))
}

func (t Tenant) api(ctx context.Context) []Finding {
	if _, err := t.Tokens.Token(ctx); err != nil {
		return []Finding{wrong("without a token nothing is sent", "%v", err)}
	}
	health := t.API.TokenHealth()
	if health.Err != nil {
		return []Finding{wrong("without a good token nothing is sent", "%v", health.Err)}
	}
	found := []Finding{ok("there is a token")}
	found = append(found, t.Needs.Judge(health.Scopes)...)
	if err := t.read(ctx, health.Scopes); err != nil {
		if held := t.Headers.heldBack(); held != nil {
			return append(found, notTried(held))
		}
		return append(found, wrong("check --base-url, --audience and the firewall", "the API cannot be read: %v", err))
	}
	return append(found, t.Headers.judge(t.Burst, t.Assertions)...)
}

// read makes one request, of the kind that the scopes let through.
func (t Tenant) read(ctx context.Context, scopes []string) error {
	if scopes != nil && !slices.Contains(scopes, readOrganizations) && slices.Contains(scopes, readTemplates) {
		for _, err := range t.API.Templates(ctx) {
			if _, bad := errors.AsType[*apiclient.RecordError](err); bad {
				return nil // the list can be read
			}
			return err
		}
		return nil
	}
	_, _, err := t.API.OrganizationsPage(ctx, "")
	if refusal, answered := errors.AsType[*apiclient.Error](err); answered && refusal.LacksScope() {
		return nil // it is there and knows us; what is missing is told by the scopes
	}
	return err
}

// notTried says why the gate let no request through: the API was not asked.
func notTried(held error) Finding {
	if blocked, is := errors.AsType[*pace.BlockedError](held); is {
		return wrong("grant the client that scope, or correct its credentials; workers retry by themselves", "the API is not queried: %v", blocked)
	}
	if pause, is := errors.AsType[*pace.NoPermitError](held); is {
		return warn("wait and try again; workers wait too", "the API is not queried: %v", pause)
	}
	if errors.Is(held, context.DeadlineExceeded) {
		return warn("try again when workers have less to do; fix Redis first if it has a finding", "the API is not queried: no permit came in time")
	}
	return warn("fix redis first: it keeps the pace", "the API is not queried: %v", held)
}

// Headers is a gate that keeps what the API's last answer said of itself, and why no
// request was let through.
type Headers struct {
	apiclient.Gate
	mu     sync.Mutex
	header http.Header
	at     time.Time
	held   error
}

// Wait keeps the gate's error.
func (h *Headers) Wait(ctx context.Context, operation string) error {
	err := h.Gate.Wait(ctx, operation)
	h.mu.Lock()
	h.held = err
	h.mu.Unlock()
	return err
}

// heldBack is why the last request was not sent; nil: it was.
func (h *Headers) heldBack() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// Answered keeps the header.
func (h *Headers) Answered(ctx context.Context, operation string, status int, header http.Header) {
	h.mu.Lock()
	if header != nil {
		h.header, h.at = header, time.Now()
	}
	h.mu.Unlock()
	h.Gate.Answered(ctx, operation, status, header)
}

func (h *Headers) judge(burst int, assertions bool) []Finding {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := []Finding{ok("the API answers")}
	found = append(found, burstOf(burst, h.header.Get("X-Ratelimit-Limit"))...)
	if date, err := http.ParseTime(h.header.Get("Date")); err == nil {
		bad := time.Hour // a nuisance in logs alone
		if assertions {
			bad = 30 * time.Second
		}
		// Date has whole seconds, and the answer was on its way.
		found = append(found, clockOf("the API", date.Add(500*time.Millisecond).Sub(h.at), 5*time.Second, bad))
	}
	return found
}

// burstOf compares the setting with the size of the bucket that the tenant tells.
func burstOf(burst int, told string) []Finding {
	limit, err := strconv.Atoi(told)
	switch {
	case err != nil || limit < 1:
		return nil // not told: then there is nothing to compare
	case burst > limit:
		return []Finding{warn(fmt.Sprintf("set --burst %d", limit), "--burst is %d, and the tenant allows %d at once (x-ratelimit-limit): it will answer 429", burst, limit)}
	case burst < limit:
		return []Finding{ok("--burst is %d, and the tenant allows %d at once (x-ratelimit-limit): cautious; workers follow x-ratelimit-remaining only where both are the same", burst, limit)}
	}
	return []Finding{ok("--burst is the tenant's: %d", burst)}
}

// The scopes (specification 4 and 5; observed behaviour, reads).
const (
	readDomains       = "read:organization_discovery_domains"
	updateDomains     = "update:organization_discovery_domains"
	deleteClients     = "delete:organization_clients"
	createTemplates   = "create:vdcs_templates"
	readTemplates     = "read:vdcs_templates"
	readOrganizations = "read:organizations"
)

// Needs are the settings that say which scopes are needed.
type Needs struct {
	TrustPayload bool // records are not read
	Sweep        bool // there is a schedule
	Acts         bool // sweeps change records: absent-action, verify-pending
}

// kind is a kind of work, and what it takes.
type kind struct {
	name   string
	scopes []string
	surely bool // the settings ask for it
}

func (n Needs) kinds() []kind {
	domains := []string{updateDomains}
	if !n.TrustPayload {
		domains = append(domains, readDomains)
	}
	all := []kind{
		{"domains verify and update", domains, false},
		{"clients remove", []string{deleteClients}, false},
		{"templates create", []string{createTemplates, readTemplates}, false},
	}
	if n.Sweep {
		sweep := []string{readOrganizations, readDomains}
		if n.Acts {
			sweep = append(sweep, updateDomains)
		}
		all = append(all, kind{"the schedule of --sweep", sweep, true})
	}
	return all
}

// Judge says what the token's scopes are too few for; nil: they are not told. A
// kind of which it has no scope at all is taken to be not meant, unless the settings ask for it, or
// nothing else can be done.
func (n Needs) Judge(scopes []string) []Finding {
	if scopes == nil {
		return []Finding{warn("check the client's grants in the tenant", "unknown scopes: neither the token nor its endpoint names them")}
	}
	var found []Finding
	able := 0
	for _, k := range n.kinds() {
		missing := slices.DeleteFunc(slices.Clone(k.scopes), func(s string) bool { return slices.Contains(scopes, s) })
		mend := "grant the client " + strings.Join(missing, " and ")
		text := fmt.Sprintf("the token has no %s: %s would be held back", strings.Join(missing, ", "), k.name)
		switch {
		case len(missing) == 0:
			able++
		case len(missing) < len(k.scopes) || k.surely:
			found = append(found, wrong(mend, "%s", text))
		default:
			found = append(found, warn(mend+", if that is meant to be done", "%s", text))
		}
	}
	if able == 0 {
		for i := range found {
			found[i].Level = Wrong
		}
	}
	if len(found) == 0 {
		return []Finding{ok("it has every scope that is needed")}
	}
	return found
}

func (t Tenant) dns(ctx context.Context) []Finding {
	resolvers, outward := t.DNS.Examine(ctx)
	return append(Resolvers(resolvers, t.Quorum), Outward(outward, t.Mode, resolvers, t.Quorum)...)
}

// voters are resolvers that are of use.
type voters struct {
	count                   int
	operators, perspectives []string // each once; New has made sure that no public operator is a quorum
}

func (v *voters) add(e dnscheck.Examination) {
	v.count++
	if !slices.Contains(v.operators, e.Operator) {
		v.operators = append(v.operators, e.Operator)
	}
	if !slices.Contains(v.perspectives, e.Perspective) {
		v.perspectives = append(v.perspectives, e.Perspective)
	}
}

// prove says whether they can prove a domain; span: only over two perspectives.
func (v voters) prove(quorum int, span bool) bool {
	return v.count >= quorum && (!span || len(v.perspectives) > 1)
}

// needs says what a proof takes.
func needs(quorum int, span bool) string {
	if span {
		return fmt.Sprintf("%d of two perspectives", quorum)
	}
	return strconv.Itoa(quorum)
}

// spans says whether a proof has to span perspectives: any resolver names one.
func spans(all []dnscheck.Examination) bool {
	return slices.ContainsFunc(all, func(e dnscheck.Examination) bool { return e.Perspective != dnscheck.DefaultPerspective })
}

// Resolvers judges resolvers, of which a quorum has to be of use.
func Resolvers(all []dnscheck.Examination, quorum int) []Finding {
	const others = "name another by --resolvers"
	var found []Finding
	var good voters
	for _, e := range all {
		switch {
		case e.Err != nil:
			found = append(found, wrong(reach(e)+", or "+others, "resolver %s does not answer: %v", e.Name, e.Err))
			continue
		case e.Lies != "":
			found = append(found, wrong(others, "resolver %s answers for names that do not exist: %s", e.Name, e.Lies))
			continue
		case e.Canary != nil:
			found = append(found, wrong("check that --canary-zone is a zone without names, and without a wildcard", "resolver %s does not deny a name in the canary zone: %v", e.Name, e.Canary))
		}
		if e.InTheClear {
			found = append(found, warn("name it by tls:// or https://", "resolver %s is queried without encryption: whoever is on the path to it can forge its answers", e.Name))
		}
		good.add(e)
		if e.TCP != nil {
			found = append(found, warn("let TCP to port 53 out, or name it by tls://", "resolver %s does not answer over TCP: long answers are not seen: %v", e.Name, e.TCP))
		}
		if !e.EDNS {
			found = append(found, warn(others, "resolver %s does not support EDNS: long answers need a second query", e.Name))
		}
		if !e.Validates {
			found = append(found, warn(others, "resolver %s does not validate DNSSEC: forged answers of signed zones would be believed", e.Name))
		}
	}
	span := spans(all)
	if !span {
		found = append(found, warn("name resolvers of your own in other networks (docs/perspectives.md)",
			"all resolvers are queried from this network alone: whoever forges routes or answers near it misleads all of them"))
	}
	if !good.prove(quorum, span) {
		return append(found, wrong("nothing can be proven", "%d of %d resolvers are usable%s, and a proof needs %s", good.count, len(all), good.where(span), needs(quorum, span)))
	}
	return append(found, ok("%d of %d resolvers are usable%s, a proof needs %s; their operators: %s",
		good.count, len(all), good.where(span), needs(quorum, span), strings.Join(good.operators, ", ")))
}

// where names the perspectives, if any are named.
func (v voters) where(span bool) string {
	if !span || v.count == 0 {
		return ""
	}
	return ", in " + strings.Join(v.perspectives, ", ")
}

// reach says what lets the machine reach a resolver.
func reach(e dnscheck.Examination) string {
	if errors.Is(e.Err, dnscheck.ErrCertificate) {
		return "exempt this connection from TLS inspection, or correct the name after its #"
	}
	switch e.Transport {
	case "tls":
		return "let TCP to port 853 out"
	case "https":
		return "let TCP to port 443 out"
	}
	return "check that this machine reaches it"
}

// Outward judges the way to domains' own name servers. Where there is none, it says whether the resolvers prove anything.
func Outward(o dnscheck.Outward, mode dnscheck.Mode, all []dnscheck.Examination, quorum int) []Finding {
	const mend = "let UDP and TCP to port 53 out, or set --dns-mode resolvers"
	switch {
	case o.Server != "" && (o.Err != nil || o.UDP != nil && o.TCP != nil):
		return []Finding{closed(mend, fmt.Sprintf("port 53 is closed or redirected: name server %s: %v", o.Server, cmp.Or(o.Err, o.UDP)), mode, all, quorum)}
	case o.Err != nil:
		return []Finding{warn(mend, "domains' own name servers cannot be queried: %v", o.Err)}
	case o.Server == "":
		return nil
	case o.UDP != nil:
		return []Finding{warn(mend, "name server %s does not answer over UDP: %v", o.Server, o.UDP)}
	case o.TCP != nil:
		return []Finding{warn(mend, "name server %s does not answer over TCP: long answers are not seen: %v", o.Server, o.TCP)}
	}
	return []Finding{ok("domains' own name servers can be reached, over UDP and TCP")}
}

// closed says what the resolvers are worth without domains' own name servers: only those over TLS or HTTPS count then.
func closed(mend, why string, mode dnscheck.Mode, all []dnscheck.Examination, quorum int) Finding {
	var protected voters
	for _, e := range all {
		if e.Err == nil && e.Lies == "" && (e.Transport == "tls" || e.Transport == "https") {
			protected.add(e)
		}
	}
	span := spans(all)
	switch {
	case mode == dnscheck.ModeAuthority:
		return wrong(mend, "%s; nothing can be proven: --dns-mode authority never goes by the resolvers alone", why)
	case !protected.prove(quorum, span):
		return wrong(mend+"; or name resolvers by tls:// or https://", "%s; nothing can be proven: %d resolvers over TLS or HTTPS are usable%s, and a proof without name servers needs %s",
			why, protected.count, protected.where(span), needs(quorum, span))
	}
	return warn(mend, "%s; domains are proven by the %d resolvers over TLS or HTTPS alone%s, of which a proof needs %s", why, protected.count, protected.where(span), needs(quorum, span))
}
