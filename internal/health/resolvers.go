package health

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"orgops/dnscheck"
)

// votes counts the usable resolvers of a tenant. A proof needs a quorum of them, in two
// perspectives if any resolver names one.
type votes struct {
	quorum       int
	span         bool // over two perspectives
	count        int
	perspectives []string // of the usable resolvers, each once
}

// namesPerspective reports whether a resolver names its perspective. If any does, dnscheck
// requires at least two.
func namesPerspective(perspective string) bool { return perspective != dnscheck.DefaultPerspective }

func (v *votes) add(perspective string) {
	v.count++
	if !slices.Contains(v.perspectives, perspective) {
		v.perspectives = append(v.perspectives, perspective)
	}
}

func (v votes) prove() bool { return v.count >= v.quorum && (!v.span || len(v.perspectives) > 1) }

func (v votes) needs() string {
	if v.span {
		return fmt.Sprintf("%d of two perspectives", v.quorum)
	}
	return strconv.Itoa(v.quorum)
}

// where names the perspectives of the usable resolvers, if any are named.
func (v votes) where() string {
	if !v.span || v.count == 0 {
		return ""
	}
	return ", in " + strings.Join(v.perspectives, ", ")
}

// answering evaluates which resolvers of a running worker answer. Silent ones are wrong only if
// the others are too few for a proof.
func answering(all []dnscheck.ResolverState, quorum int) Finding {
	usable := votes{quorum: quorum}
	var silent []string
	for _, r := range all {
		usable.span = usable.span || namesPerspective(r.Perspective)
		if r.Silent != "" {
			silent = append(silent, r.Name+": "+r.Silent)
		} else {
			usable.add(r.Perspective)
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
		v.span = v.span || namesPerspective(e.Perspective)
		if e.Err != nil || e.Lies != "" {
			continue
		}
		v.add(e.Perspective)
		if !slices.Contains(operators, e.Operator) {
			operators = append(operators, e.Operator)
		}
	}
	if !v.span {
		found = append(found, warn("name resolvers of your own in other networks (docs/perspectives.md)",
			"all resolvers are queried from this network alone: whoever forges routes or answers near it misleads all of them"))
	}
	if !v.prove() {
		return append(found, wrong("nothing can be proven", "%d of %d resolvers are usable%s, and a proof needs %s", v.count,
			len(all), v.where(), v.needs()))
	}
	return append(found, ok("%d of %d resolvers are usable%s, a proof needs %s; their operators: %s",
		v.count, len(all), v.where(), v.needs(), strings.Join(operators, ", ")))
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
