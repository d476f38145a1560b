package tenant

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strings"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// Print writes the effective settings, each by the name of its flag, and what follows from them.
// Secrets are masked.
func (t Settings) Print(out io.Writer) {
	fmt.Fprintf(out, "tenant %s:\n", t.Name)
	line := func(name, value string) { fmt.Fprintf(out, "  %s: %s\n", name, value) }

	// The settings, apart from empty ones.
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		value := textOf(reflect.ValueOf(t).FieldByIndex(field.Index))
		if flag := flagOf(field); flag != "" && flag != "tenant" && value != "" {
			line(flag, value+field.Tag.Get("unit"))
		}
	}

	// The credentials, and the way to the API.
	if t.Token.IsZero() && t.ClientKeyFile == "" {
		line("client secret", t.Secret.String())
	}
	if !t.Token.IsZero() {
		line("token", t.Token.String())
	}
	if proxy := t.proxy(); proxy != "" {
		line("proxy", proxy)
	}

	// DNS, sweeps and webhooks.
	line("operators", t.operators())
	line("firewall", t.outward())
	if t.Sweep != Off {
		line("sweeps", t.interval())
	}
	for _, e := range t.Endpoints {
		fmt.Fprintf(out, "  webhook %s, secret %s\n", e, apiclient.Secret{})
	}
	for _, warning := range t.Warnings() {
		line("warning", warning)
	}
}

// flagOf returns the name of the flag that a member of [Settings] is; "": it is none.
func flagOf(member reflect.StructField) string {
	name := member.Tag.Get("yaml")
	if member.Anonymous || name == "-" || member.Tag.Get("kong") == "-" {
		return ""
	}
	return cmp.Or(member.Tag.Get("name"), strings.ReplaceAll(name, "_", "-"))
}

// textOf returns the value of a member, a URL without its password; "" for an empty text or list.
func textOf(value reflect.Value) string {
	if list, ok := reflect.TypeAssert[[]string](value); ok {
		return strings.Join(list, ", ")
	}
	text := fmt.Sprint(value)
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return u.Redacted()
	}
	return text
}

// proxy returns the proxy of requests to the API, without its password; "": there is none.
func (t Settings) proxy() string {
	u, err := url.Parse(t.BaseURL)
	if err != nil || t.Network.Proxy == nil {
		return ""
	}
	through, err := t.Network.Proxy(u)
	if err != nil || through == nil {
		return ""
	}
	return through.Redacted()
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

// interval says how often the schedule has a sweep.
func (t *Settings) interval() string {
	apart, ok := t.Cron.Shortest(1)
	if !ok {
		return "rarely"
	}
	return apart.String() + " apart or more, by UTC"
}
