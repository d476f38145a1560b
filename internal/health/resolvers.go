package health

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"orgops/dnscheck"
)

// votes are the perspectives of a tenant's resolvers, and of those that are usable.
type votes struct {
	quorum int
	all    []string
	usable []string
}

func (v votes) prove() bool { return dnscheck.Suffice(v.usable, v.all, v.quorum) }

// spans reports whether any resolver names its perspective.
func (v votes) spans() bool {
	return slices.ContainsFunc(v.all, func(p string) bool { return p != dnscheck.DefaultPerspective })
}

// needs says how many resolvers a proof needs, or of how many perspectives.
func (v votes) needs() string {
	if !v.spans() {
		return strconv.Itoa(v.quorum)
	}
	others := distinct(v.all)
	home := ""
	if i := slices.Index(others, dnscheck.DefaultPerspective); i >= 0 {
		others = slices.Delete(others, i, i+1)
		home = "this machine's and "
	}
	least, _ := dnscheck.QuorumOf(0, len(others)) // 0 is always valid
	return fmt.Sprintf("%s%d of %d perspectives, each by more than half of its resolvers", home, least, len(others))
}

// where names the perspectives of the usable resolvers, if any are named.
func (v votes) where() string {
	if !v.spans() || len(v.usable) == 0 {
		return ""
	}
	return ", in " + strings.Join(distinct(v.usable), ", ")
}

// distinct returns the perspectives, each once, in their order.
func distinct(perspectives []string) (each []string) {
	for _, p := range perspectives {
		if !slices.Contains(each, p) {
			each = append(each, p)
		}
	}
	return each
}

// answering evaluates which resolvers of a running worker answer. Silent ones are wrong only if
// the others are too few for a proof.
func answering(all []dnscheck.ResolverState, quorum int) Finding {
	usable := votes{quorum: quorum}
	var silent []string
	for _, r := range all {
		usable.all = append(usable.all, r.Perspective)
		if r.Silent != "" {
			silent = append(silent, r.Name+": "+r.Silent)
		} else {
			usable.usable = append(usable.usable, r.Perspective)
		}
	}
	text := fmt.Sprintf("%d of %d resolvers do not answer: %s", len(silent), len(all), strings.Join(silent, "; "))
	switch {
	case len(silent) == 0:
		return Finding{Level: OK}
	case usable.prove():
		return warn("", "%s", text)
	}
	return wrong(
		"check that this machine reaches them (TCP to port 443 for https://, else UDP and TCP to port 53), or name others by --resolvers",
		"%s; a proof needs %s", text, usable.needs())
}

// Resolvers evaluates resolvers, of which a quorum has to be usable.
func Resolvers(all []dnscheck.Examination, quorum int) (found []Finding) {
	var operators []string // each once; dnscheck makes sure that no public operator is a quorum
	v := votes{quorum: quorum}
	for _, e := range all {
		found = append(found, faultsOf(e)...)
		v.all = append(v.all, e.Perspective)
		if e.Err != nil || e.Lies != "" {
			continue
		}
		v.usable = append(v.usable, e.Perspective)
		if !slices.Contains(operators, e.Operator) {
			operators = append(operators, e.Operator)
		}
	}
	if !v.spans() {
		found = append(found, warn("name resolvers of your own in other networks (docs/perspectives.md)",
			"all resolvers are queried from this network alone: whoever forges routes or answers near it misleads all of them"))
	}
	if !v.prove() {
		return append(found, wrong("nothing can be proven", "%d of %d resolvers are usable%s, and a proof needs %s", len(v.usable),
			len(all), v.where(), v.needs()))
	}
	return append(found, ok("%d of %d resolvers are usable%s, a proof needs %s; their operators: %s",
		len(v.usable), len(all), v.where(), v.needs(), strings.Join(operators, ", ")))
}

func faultsOf(e dnscheck.Examination) (found []Finding) {
	const others = "name another by --resolvers"
	switch {
	case e.Err != nil:
		return []Finding{wrong(reach(e)+", or "+others, "resolver %s does not answer: %v", e.Name, e.Err)}
	case e.Lies != "":
		return []Finding{wrong(others, "resolver %s answers for names that do not exist: %s", e.Name, e.Lies)}
	}
	if e.TCP != nil {
		found = append(found, warn("let TCP to port 53 out, or name it by https://",
			"resolver %s does not answer over TCP: long answers are not seen: %v", e.Name, e.TCP))
	}
	if !e.EDNS {
		found = append(found, warn(others, "resolver %s does not support EDNS: long answers need a second query", e.Name))
	}
	if !e.Validates {
		found = append(found, warn(others,
			"resolver %s does not validate DNSSEC: forged answers of signed zones would be believed", e.Name))
	}
	return found
}

func reach(e dnscheck.Examination) string {
	if errors.Is(e.Err, dnscheck.ErrCertificate) {
		return "exempt this connection from TLS inspection, or correct the name after its #"
	}
	if e.Transport == "https" {
		return "let TCP to port 443 out"
	}
	return "check that this machine reaches it"
}
