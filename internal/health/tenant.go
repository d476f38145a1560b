package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/pace"
	"orgops/internal/tenant"
	"orgops/tasks"
)

// Tenant is a tenant that doctor tests.
type Tenant struct {
	Settings tenant.Settings
	API      *apiclient.Client // whose gate is Headers
	Headers  *Headers
	Tokens   apiclient.TokenSource
	DNS      *dnscheck.Checker
}

// Test tests the tenant: settings, token, scopes, API and DNS.
func (t Tenant) Test(ctx context.Context) []Finding {
	var api, dns []Finding
	var both sync.WaitGroup
	both.Go(func() { api = t.api(ctx) })
	both.Go(func() { dns = t.dns(ctx) })
	both.Wait()
	var settings []Finding
	for _, doubt := range t.Settings.Warnings() {
		settings = append(settings, warn("", "%s", doubt))
	}
	return about("tenant "+t.Settings.Name, slices.Concat(settings, api, dns))
}

// dns tests the resolvers, and the way to domains' own name servers if any are asked.
func (t Tenant) dns(ctx context.Context) []Finding {
	var resolvers, servers []Finding
	var both sync.WaitGroup
	both.Go(func() { resolvers = DNS(ctx, t.Settings, t.DNS) })
	if t.Settings.Mode != dnscheck.ModeResolvers {
		both.Go(func() { servers = NameServers(t.DNS.ProbeNetwork(ctx)) })
	}
	both.Wait()
	return append(resolvers, servers...)
}

// Identity tests whether the name of the tenant stands for that of the settings in Redis. It
// changes nothing.
func Identity(ctx context.Context, client redis.Cmdable, t tenant.Settings) []Finding {
	own := t.Identity()
	found := ok("the name stands for %s in this Redis", own.BaseURL)
	stored, err := tenant.ReadIdentity(ctx, client, t.Name)
	switch {
	case err != nil:
		found = warn("fix redis first", "unknown for whom the name stands: %v", err)
	case stored == nil || stored.GivenUp:
		found = ok("the name stands for no tenant in this Redis: the first worker with these settings makes it %s", own.BaseURL)
	case stored.Identity != own:
		other := tenant.OtherTenantError{Name: t.Name, Stored: stored.Identity, Own: own}
		found = wrong(other.Fix(), "%s", other.What())
	}
	return about("tenant "+t.Name, []Finding{found})
}

// DNS tests the resolvers of a tenant.
func DNS(ctx context.Context, t tenant.Settings, checker *dnscheck.Checker) []Finding {
	return about("tenant "+t.Name, Resolvers(checker.Examine(ctx), t.ResolverQuorum))
}

func (t Tenant) api(ctx context.Context) []Finding {
	if _, err := t.Tokens.Token(ctx); err != nil {
		return []Finding{wrong(t.Settings.Remedy(apiclient.FaultOf(err)), "%v", err)}
	}
	health := t.API.TokenHealth()
	if health.Err != nil {
		return []Finding{wrong(t.Settings.Remedy(apiclient.FaultOf(health.Err)), "%v", health.Err)}
	}
	found := []Finding{ok("there is a token")}
	found = append(found, Scopes(t.Settings, health)...)
	if err := t.read(ctx, health.Scopes); err != nil {
		if held := t.Headers.heldBack(); held != nil {
			return append(found, notTried(held))
		}
		return append(found, wrong("check --base-url, --audience and the firewall", "the API cannot be read: %v", err))
	}
	return append(found, t.Headers.test(t.Settings)...)
}

// Scopes tests whether a token of the tenant has the scopes that its settings need.
func Scopes(t tenant.Settings, token apiclient.TokenHealth) []Finding {
	needs := Needs{Sweep: t.Sweep != tenant.Off, Acts: t.VerifyPending}
	return about("tenant "+t.Name, needs.Test(token.Scopes))
}

// read sends one request that the scopes allow.
func (t Tenant) read(ctx context.Context, scopes []string) error {
	if scopes != nil && !slices.Contains(scopes, readOrganizations) && slices.Contains(scopes, tasks.ReadTemplates) {
		for _, err := range t.API.Templates(ctx) {
			if _, bad := errors.AsType[*apiclient.RecordError](err); bad {
				return nil // the list can be read
			}
			return err
		}
		return nil
	}
	_, _, err := t.API.OrganizationsPage(ctx, "")
	if apiclient.FaultOf(err) == apiclient.FaultOfScope {
		return nil // it is there and knows us; the finding on scopes names the missing one
	}
	return err
}

func notTried(held error) Finding {
	if blocked, is := errors.AsType[*pace.BlockedError](held); is {
		return wrong("grant the client that scope, or correct its credentials; workers retry by themselves",
			"the API is not queried: %v", blocked)
	}
	if pause, is := errors.AsType[*pace.NoPermitError](held); is {
		return warn("wait and try again; workers wait too", "the API is not queried: %v", pause)
	}
	if errors.Is(held, context.DeadlineExceeded) {
		return warn("try again when workers have less to do; fix Redis first if it has a finding",
			"the API is not queried: no permit came in time")
	}
	return warn("fix redis first: it keeps the pace", "the API is not queried: %v", held)
}

// Headers is a gate that keeps the headers of the API's last answer, and the reason why no
// request was let through.
type Headers struct {
	apiclient.Gate
	mu     sync.Mutex
	header http.Header
	at     time.Time
	held   error
}

// Wait keeps the gate's error.
func (h *Headers) Wait(ctx context.Context, r apiclient.Request) error {
	err := h.Gate.Wait(ctx, r)
	h.mu.Lock()
	h.held = err
	h.mu.Unlock()
	return err
}

// heldBack returns why the last request was not sent; nil: it was.
func (h *Headers) heldBack() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// Answered keeps the header.
func (h *Headers) Answered(ctx context.Context, operation string, status int, header http.Header, after time.Duration) {
	h.mu.Lock()
	if header != nil {
		h.header = header
		h.at = time.Now()
	}
	h.mu.Unlock()
	h.Gate.Answered(ctx, operation, status, header, after)
}

func (h *Headers) test(t tenant.Settings) []Finding {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := []Finding{ok("the API answers")}
	found = append(found, burstOf(t.Burst, h.header.Get("X-Ratelimit-Limit"))...)
	if date, err := http.ParseTime(h.header.Get("Date")); err == nil {
		bad := time.Hour // it only makes logs hard to read
		if apiclient.AuthMethod(t.ClientAuth) == apiclient.AuthPrivateKeyJWT {
			bad = 30 * time.Second // assertions are dated
		}
		// Date has whole seconds, and the answer was on its way.
		found = append(found, clockOf("the API", date.Add(500*time.Millisecond).Sub(h.at), 5*time.Second, bad))
	}
	return found
}

// burstOf compares the setting with the size of the tenant's bucket, a header.
func burstOf(burst int, header string) []Finding {
	limit, err := strconv.Atoi(header)
	switch {
	case err != nil || limit < 1:
		return nil // there is nothing to compare
	case burst > limit:
		return []Finding{
			warn(fmt.Sprintf("set --burst %d", limit),
				"--burst is %d, and the tenant allows %d at once (x-ratelimit-limit): it will answer 429", burst, limit),
		}
	case burst < limit:
		return []Finding{
			ok(
				"--burst is %d, and the tenant allows %d at once (x-ratelimit-limit): cautious; workers follow x-ratelimit-remaining only where both are the same", burst, limit),
		}
	}
	return []Finding{ok("--burst is the tenant's: %d", burst)}
}

// readOrganizations is the scope of scans (observed behaviour).
const readOrganizations = "read:organizations"

// Needs are the settings that determine which scopes are needed.
type Needs struct {
	Sweep bool // there is a schedule
	Acts  bool // sweeps change records: verify-pending
}

// kind is a kind of work, and the scopes that it needs.
type kind struct {
	name   string
	scopes []string
	surely bool // the settings require it
	maybe  bool // its scopes serve other kinds too, and do not show that it is meant
}

func (n Needs) kinds() []kind {
	var all []kind
	for _, k := range tasks.Kinds() { // those with the same scopes are one
		if k.Scopes == nil {
			continue
		}
		i := slices.IndexFunc(all, func(other kind) bool { return slices.Equal(other.scopes, k.Scopes) })
		if i < 0 {
			all = append(all, kind{name: k.Command, scopes: k.Scopes})
		} else {
			all[i].name += " and " + k.Command
		}
	}
	scopes := []string{readOrganizations, tasks.ReadDomains}
	all = append(all, kind{name: "clients remove --everywhere", scopes: []string{readOrganizations}, maybe: true})
	if !n.Sweep {
		return append(all, kind{name: "domains verify --pending and domains sweep", scopes: scopes, maybe: true})
	}
	if n.Acts {
		scopes = append(scopes, tasks.UpdateDomains)
	}
	return append(all, kind{name: "the schedule of --sweep", scopes: scopes, surely: true})
}

// Test compares the needs with the scopes of a token; nil: they are unknown. A kind of which
// it has no scope at all is probably not intended, unless the settings require it, or nothing
// else can be done.
func (n Needs) Test(scopes []string) []Finding {
	if scopes == nil {
		return []Finding{
			warn("check the client's grants in the tenant", "unknown scopes: neither the token nor its endpoint names them"),
		}
	}
	var found []Finding
	able := 0
	for _, k := range n.kinds() {
		missing := slices.DeleteFunc(slices.Clone(k.scopes), func(s string) bool { return slices.Contains(scopes, s) })
		fix := "grant the client " + strings.Join(missing, " and ")
		text := fmt.Sprintf("the token has no %s: %s would be held back", strings.Join(missing, ", "), k.name)
		switch {
		case len(missing) == 0:
			able++
		case k.surely, len(missing) < len(k.scopes) && !k.maybe:
			found = append(found, wrong(fix, "%s", text))
		default:
			found = append(found, warn(fix+", if that is meant to be done", "%s", text))
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
