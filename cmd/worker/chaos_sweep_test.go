package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"orgops/internal/sandbox"
)

const (
	// chaosGrace and chaosChecks are the policy of sweeps: for how long, and by how many
	// checks, a token must be found absent.
	chaosGrace  = 3 * time.Second
	chaosChecks = 2
	// protectedZone has domains that are never changed.
	protectedZone = "protected.example"
	// sweptMost is how many organizations are swept by command.
	sweptMost = 12
)

// sweepSettings returns the settings of the workers. They sweep the whole tenant each minute,
// too.
func sweepSettings() map[string]string {
	return map[string]string{
		"ORGOPS_SWEEP": "* * * * *", "ORGOPS_GRACE": chaosGrace.String(),
		"ORGOPS_ABSENT_CHECKS": fmt.Sprint(chaosChecks), "ORGOPS_PROTECT": protectedZone,
	}
}

// sweptDomain is a domain that only sweeps and revocations may change.
type sweptDomain struct {
	class     string // one of sweptClasses
	host, txt string
	gone      bool      // the token of an absent domain, which was there for the first sweep
	published time.Time // when the token of an absent domain was published again; zero: it was not
	due       time.Time // when a sweep that verifies pending domains was first submitted; zero: never
}

var sweptClasses = []string{"present", "absent", "absent", "unknown", "protected", "pending", "pending without a token"}

// sweptOrganization is an organization that is swept by command.
type sweptOrganization struct {
	id, file string
	domains  []*sweptDomain
	swept    bool // a sweep of it was submitted
}

// newSwept seeds an organization with two domains of each class.
func (c *chaos) newSwept() *sweptOrganization {
	o := &sweptOrganization{id: c.box.AddOrganization("", ""), file: fmt.Sprintf("swept-%d.csv", len(c.sweptOrgs))}
	rows := "organization_id,discovery_domain_id\n"
	for i := range 2 * len(sweptClasses) {
		s := &sweptDomain{class: sweptClasses[i%len(sweptClasses)]}
		seed := sandbox.Domain{Status: "verified", Use: new(true)}
		switch s.class {
		case "protected":
			seed.Domain = fmt.Sprintf("d%d.%s.%s", i, strings.ToLower(strings.ReplaceAll(o.id, "_", "-")), protectedZone)
		case "pending", "pending without a token":
			seed.Status = "pending"
		}
		d := c.box.AddDomain(o.id, seed)
		s.host, s.txt = d.Host, d.TXT
		if slices.Contains([]string{"present", "absent", "unknown", "pending"}, s.class) {
			c.box.SetTXT(d.Host, d.TXT)
		}
		if s.class == "unknown" {
			c.box.SetRCode(d.Host, dns.RcodeServerFailure, -1)
		}
		c.swept[o.id+" "+d.ID] = s
		o.domains = append(o.domains, s)
		rows += o.id + "," + d.ID + "\n"
	}
	write(c.t, filepath.Join(c.dir, o.file), rows)
	c.sweptOrgs = append(c.sweptOrgs, o)
	return o
}

// drawSweep returns a function that sweeps an organization, which may be a new one, and may revoke
// lost domains. Before the sweep the token of an absent domain may be published again.
func (c *chaos) drawSweep(draws *rand.Rand) func() {
	fresh, pending, back, revoke := draws.IntN(4) == 0, draws.IntN(4) == 0, draws.IntN(3) == 0, draws.IntN(2) == 0
	o := &sweptOrganization{}
	if n := len(c.sweptOrgs); n == 0 || fresh && n < sweptMost {
		o = c.newSwept()
	} else {
		o = c.sweptOrgs[draws.IntN(n)]
	}
	id := fmt.Sprintf("sweep-of-%d", c.ids.Add(1))
	args := []string{"domains", "sweep", "--org", o.id, "--run", id}
	if pending {
		args = append(args, "--verify-pending")
	}
	for _, d := range o.domains {
		if pending && d.due.IsZero() {
			d.due = time.Now()
		}
		if d.class == "absent" && !d.gone && o.swept {
			d.gone = true
			c.box.Remove(d.host)
		} else if back && d.gone && d.published.IsZero() {
			d.published, back = time.Now(), false
			c.box.SetTXT(d.host, d.txt)
		}
	}
	o.swept = true
	j := &job{submission: submission{run: id, file: o.file, command: args[:2]}, rows: len(o.domains), args: args}
	c.addJob(j)
	return func() {
		c.submit(j)
		if revoke { // the domains that complete sweeps have found lost
			c.enter("domains", "revoke", "--yes", "--max", "100000")
		}
	}
}

// compareSwept checks that revocations have set a domain to pending only if the DNS has denied its
// token, long enough and right before, and sweeps to verified only if the DNS had it.
func (c *chaos) compareSwept(row *chaosRow, d sandbox.Domain, dns answers) {
	status, s := "verified", row.swept
	if strings.HasPrefix(s.class, "pending") {
		status = "pending"
	}
	var last sandbox.Request
	for _, p := range row.changes {
		var body struct {
			Status string `json:"status"`
			Use    *bool  `json:"use_for_organization_discovery"`
		}
		if err := json.Unmarshal([]byte(p.Body), &body); err != nil || body.Use == nil || !*body.Use {
			c.addWrong("%v: PATCHed with %s", row, p.Body)
		}
		if body.Status == status && !c.hasForgotten() && !readBefore(p, last) {
			c.addDoubled("%v: set to %s by request %d, which it was already", row, status, p.Seq)
		}
		last = p
		switch status = body.Status; status {
		case "pending":
			c.compareTaken(row, p, dns)
		default:
			if s.class != "absent" && (s.class != "pending" || s.due.IsZero() || p.At.Before(s.due)) {
				c.addWrong("%v: set to %s by request %d", row, status, p.Seq)
			}
			c.compareProof(row, p, dns.found)
			c.done["verified by sweeps"]++
		}
	}
	if d.Status != status || d.Use == nil || !*d.Use {
		c.addWrong("%v: it is %s in the tenant, want %s", row, d.Status, status)
	}
}

// readBefore reports whether a run may have read the domain before another run changed it: a
// record is used for a minute after it was read.
func readBefore(p, change sandbox.Request) bool {
	run, _, _ := strings.Cut(p.CorrelationID, ":")
	return !strings.HasPrefix(change.CorrelationID, run+":") && p.At.Sub(change.At) < time.Minute
}

// compareTaken checks a request that set a domain to pending.
func (c *chaos) compareTaken(row *chaosRow, p sandbox.Request, dns answers) {
	c.done["revoked"]++
	s := row.swept
	if s.class != "absent" {
		c.addWrong("%v: set to pending by request %d", row, p.Seq)
		return
	}
	if seen := slices.DeleteFunc(slices.Clone(dns.found), p.At.Before); len(seen) < quorum {
		c.addWrong("%v: set to pending by request %d, although its token was never proven", row, p.Seq)
	}
	first := slices.MinFunc(append(slices.Clone(dns.denied), p.At), time.Time.Compare)
	// Each sweep, and the check before the change, needs a quorum. States have whole seconds.
	if n := countBefore(dns.denied, p); n < quorum || len(dns.denied) < quorum*(chaosChecks+1) ||
		p.At.Sub(first) < chaosGrace-time.Second {
		c.addWrong("%v: set to pending by request %d, after %d denials by the DNS, the first %v before", row,
			p.Seq, n, p.At.Sub(first))
	}
	if after := p.At.Sub(s.published); !s.published.IsZero() && after > quietAfter && !c.heldUp(s.published, p.At) {
		c.addWrong("%v: set to pending by request %d, %v after its token came back", row, p.Seq, after)
	}
}
