// Package provider knows how the panels of DNS providers want a record to be entered. It
// recognizes the provider by the names of a zone's name servers.
package provider

import (
	"strings"

	"orgops/dnscheck/dnsname"
)

// Provider is a DNS provider.
type Provider struct {
	Name    string
	Servers []string // domains in which its name servers have their names; a * is any part of a label
	Hint    string   // how to enter a TXT record, for the customer
	Source  string   // URL of the provider's own description
}

const relative = "Enter the name without the domain, which is appended to it."

// providers are the larger ones. What GoDaddy, Namecheap and Azure DNS want was compared with their
// own pages in November 2026; the rest was not.
var providers = []Provider{
	{"Azure DNS", []string{"azure-dns.com", "azure-dns.net", "azure-dns.org", "azure-dns.info"},
		"Add a record set of type TXT to the zone. " + relative,
		"https://learn.microsoft.com/azure/dns/dns-zones-records"},
	{"Cloudflare", []string{"ns.cloudflare.com"},
		"Under DNS, Records, the name may be given with or without the domain. Enter the value without quotation marks.",
		"https://developers.cloudflare.com/dns/manage-dns-records/how-to/create-dns-records/"},
	{"DigitalOcean", []string{"digitalocean.com"},
		"Under Networking, Domains, choose TXT. " + relative,
		"https://docs.digitalocean.com/products/networking/dns/how-to/manage-records/"},
	{"Gandi", []string{"gandi.net"},
		"Under DNS Records, add a record of type TXT. " + relative,
		"https://docs.gandi.net/en/domain_names/faq/record_types/txt_record.html"},
	{"GoDaddy", []string{"domaincontrol.com"},
		"Under DNS, choose Add New Record and TXT. " + relative,
		"https://www.godaddy.com/help/add-a-txt-record-19232"},
	{"Google Cloud DNS or Squarespace", []string{"googledomains.com"},
		"Domains of the former Google Domains are managed at Squarespace, others in the Cloud console. " + relative,
		"https://support.squarespace.com/hc/en-us/articles/360002101888"},
	{"Hetzner", []string{"ns.hetzner.com", "ns.hetzner.de", "your-server.de", "second-ns.de", "second-ns.com"},
		relative + " A whole name needs a final dot.",
		"https://docs.hetzner.com/dns-console/dns/"},
	{"IONOS", []string{"ui-dns.com", "ui-dns.org", "ui-dns.de", "ui-dns.biz"},
		"Under Domains, DNS, add a record of type TXT. " + relative,
		"https://www.ionos.com/help/domains/"},
	{"Namecheap", []string{"registrar-servers.com"},
		"Under Advanced DNS, add a TXT Record. " + relative + " At most 60 characters fit into the field.",
		"https://www.namecheap.com/support/knowledgebase/article.aspx/10058/10/namecheap-dns-limits/"},
	{"OVHcloud", []string{"ovh.net", "ovh.ca", "anycast.me"},
		"Under DNS zone, add an entry of type TXT. Enter the name as the sub-domain, without the domain.",
		"https://help.ovhcloud.com/csm/en-dns-edit-dns-zone"},
	{"Amazon Route 53", []string{"awsdns-*.com", "awsdns-*.net", "awsdns-*.org", "awsdns-*.co.uk"},
		"In the hosted zone, create a record of type TXT. " + relative + " Here alone the value is put in quotation marks.",
		"https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/ResourceRecordTypes.html#TXTFormat"},
	{"Squarespace", []string{"squarespacedns.com"},
		"Under Domains, DNS Settings, add a custom record of type TXT. " + relative,
		"https://support.squarespace.com/hc/en-us/articles/360002101888"},
	{"Wix", []string{"wixdns.net"},
		"Under Domains, Manage DNS Records, add a TXT record. " + relative,
		"https://support.wix.com/en/article/adding-or-updating-txt-records-in-your-wix-account"},
}

// Of returns the provider that all of the name servers belong to; false: none does, or it is not
// known.
func Of(servers []string) (Provider, bool) {
	for _, p := range providers {
		if p.has(servers) {
			return p, true
		}
	}
	return Provider{}, false
}

func (p Provider) has(servers []string) bool {
	for _, server := range servers {
		found := false
		for _, domain := range p.Servers {
			found = found || within(server, domain)
		}
		if !found {
			return false
		}
	}
	return len(servers) > 0
}

// within reports whether a name server's name is below the domain.
func within(server, domain string) bool {
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(server, ".")), ".")
	parts := strings.Split(domain, ".")
	if len(labels) <= len(parts) {
		return false
	}
	for i, part := range parts {
		label := labels[len(labels)-len(parts)+i]
		prefix, _, wild := strings.Cut(part, "*")
		if label != part && (!wild || !strings.HasPrefix(label, prefix)) {
			return false
		}
	}
	return true
}

// Name returns a host's name relative to its zone, as panels want it: "@" for the zone itself. A
// host outside of the zone is returned as it is.
func Name(host, zone string) string {
	host = strings.TrimSuffix(host, ".")
	zone = strings.TrimSuffix(zone, ".")
	if dnsname.Same(host, zone) {
		return "@"
	}
	cut := len(host) - len(zone) - 1
	if zone == "" || cut < 1 || !dnsname.Same(host[cut:], "."+zone) {
		return host
	}
	return host[:cut]
}
