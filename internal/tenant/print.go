package tenant

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// Print writes the effective settings. Secrets are masked.
func (t Settings) Print(out io.Writer) {
	fmt.Fprintf(out, "tenant %s:\n", t.Name)
	fmt.Fprintf(out, "  base-url: %s\n  token-url: %s\n  audience: %s\n", t.BaseURL, t.TokenURL, t.Audience)
	t.printCredentials(out)
	t.printNetwork(out)
	fmt.Fprintf(out, "  rate: %s, burst %d, reserve %g %%, sweep-share %g %%\n", t.Rate, t.Burst, t.Reserve, t.SweepShare)
	fmt.Fprintf(out, "  max-clients-per-request: %d\n  give-up: %s\n", t.MaxClientsPerRequest, t.GiveUp)
	fmt.Fprintf(out, "  resolvers: %s, quorum %d\n", strings.Join(t.Resolvers, ", "), t.ResolverQuorum)
	fmt.Fprintf(out, "  operators: %s\n", t.operators())
	fmt.Fprintf(out, "  firewall: %s\n", t.outward())
	fmt.Fprintf(out, "  dns-mode: %s\n  require-dnssec: %t\n", t.Mode, t.RequireDNSSEC)
	fmt.Fprintf(out, "  refuse-aliases: %t\n", t.RefuseAliases)
	t.printSweep(out)
	fmt.Fprintf(out, "  allow-unproven: %t\n", t.AllowUnproven)
	if len(t.Endpoints) > 0 {
		fmt.Fprintf(out, "  webhook-backlog: %d\n", t.WebhookBacklog)
	}
	for _, e := range t.Endpoints {
		fmt.Fprintf(out, "  webhook %s, secret %s\n", e, apiclient.Secret{})
	}
}

func (t Settings) printCredentials(out io.Writer) {
	switch {
	case !t.Token.IsZero():
		fmt.Fprintf(out, "  token: %s\n", t.Token)
	case t.ClientKeyFile != "":
		fmt.Fprintf(out, "  client-id: %s\n  client-auth: %s\n  client-key-file: %s\n  assertion-audience: %s\n", t.ClientID,
			t.ClientAuth, t.ClientKeyFile, t.AssertionAudience)
	default:
		fmt.Fprintf(out, "  client-id: %s\n  client-auth: %s\n  client secret: %s\n", t.ClientID, t.ClientAuth, t.Secret)
	}
}

func (t Settings) printNetwork(out io.Writer) {
	fmt.Fprintf(out, "  body: %s\n", t.Body)
	if t.CAFile != "" {
		fmt.Fprintf(out, "  ca-file: %s\n", t.CAFile)
	}
	if u, err := url.Parse(t.BaseURL); err == nil && t.Network.Proxy != nil {
		if through, err := t.Network.Proxy(u); err == nil && through != nil {
			fmt.Fprintf(out, "  proxy: %s\n", through.Redacted())
		}
	}
}

// operators returns the operator of each resolver, with its perspective if it has one.
func (t Settings) operators() string {
	names := dnscheck.Operators(t.DNSResolvers)
	for i, r := range t.DNSResolvers {
		if r.Perspective != "" {
			names[i] += " in " + r.Perspective
		}
	}
	return strings.Join(names, ", ")
}

// outward says which connections to the outside the tenant's DNS checks make.
func (t Settings) outward() string {
	var to []string
	if t.Mode != dnscheck.ModeResolvers {
		to = append(to, "UDP and TCP to port 53 of any address (the domains' own name servers)")
	}
	for _, r := range t.DNSResolvers {
		protocol := "TCP"
		if r.Transport == "" || r.Transport == "udp" {
			protocol = "UDP and TCP"
		}
		to = append(to, fmt.Sprintf("%s to %s", protocol, r.Addr))
	}
	return strings.Join(to, "; ")
}

func (t *Settings) printSweep(out io.Writer) {
	if t.Sweep == Off {
		fmt.Fprintf(out, "  sweep: off\n")
	} else {
		often := "rarely"
		if apart, ok := t.Cron.Shortest(1); ok {
			often = apart.String() + " apart or more"
		}
		fmt.Fprintf(out, "  sweep: %s UTC, %s\n", t.Cron, often)
	}
	fmt.Fprintf(out, "  verify-pending: %t\n", t.VerifyPending)
	fmt.Fprintf(out, "  lost: grace %s, absent-checks %d\n", t.Grace, t.AbsentChecks)
	if len(t.Protect) > 0 {
		fmt.Fprintf(out, "  protect: %s\n", strings.Join(t.Protect, ", "))
	}
	for _, warning := range t.Warnings() {
		fmt.Fprintf(out, "  warning: %s\n", warning)
	}
}
