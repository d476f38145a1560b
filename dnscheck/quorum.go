package dnscheck

import (
	"fmt"
	"slices"
	"strings"
)

// minResolvers is how many resolvers a proof needs: the operator of a single one could
// prove any domain.
const minResolvers = 2

// QuorumOf returns how many of the resolvers have to agree: the setting, or for 0 the least
// that is allowed. That is all of two or fewer, all but one of three to five, and all but two
// of six or more, as the CA/Browser Forum's Baseline Requirements let one or two remote
// perspectives miss a record (section 3.2.2.9). It is always more than half.
func QuorumOf(set, resolvers int) (int, error) {
	least := resolvers
	switch {
	case resolvers >= 6:
		least = resolvers - 2
	case resolvers >= 3:
		least = resolvers - 1
	}
	switch {
	case set == 0:
		return least, nil
	case set < least || set > resolvers:
		return 0, fmt.Errorf("resolver quorum %d: want %d to %d of %d resolvers, or 0 for %d", set, least, resolvers, resolvers, least)
	}
	return set, nil
}

// checkOperators refuses resolvers of which one operator has a quorum. A single resolver is
// allowed: it proves nothing, but can be used for advice. Where perspectives are named, the
// tenant's own resolvers may be a quorum, since the perspectives have to agree. Public ones
// may not: they are anycast, and queried from this machine's network.
func checkOperators(resolvers []Resolver, quorum int) error {
	if len(resolvers) < minResolvers {
		return nil
	}
	spans := namesPerspectives(resolvers)
	of := make(map[string][]string)
	operators := Operators(resolvers)
	for i, operator := range operators {
		of[operator] = append(of[operator], resolvers[i].String())
	}
	for _, operator := range operators {
		names := of[operator]
		if len(names) < quorum || spans && !isPublicOperator(operator) {
			continue
		}
		remedy := "keep one of them, and add resolvers of other operators"
		if len(names) < len(resolvers) {
			remedy += fmt.Sprintf("; or set the quorum to %d", len(names)+1)
		}
		last := len(names) - 1
		return fmt.Errorf("resolvers %s and %s are of one operator (%s), which reaches the quorum of %d alone: %s",
			strings.Join(names[:last], ", "), names[last], operator, quorum, remedy)
	}
	return nil
}

// checkPerspectives refuses perspectives that a proof cannot span, and those of public
// resolvers. A single resolver is allowed, as by checkOperators.
func checkPerspectives(resolvers []Resolver) error {
	var in votes
	operators := Operators(resolvers)
	for i, r := range resolvers {
		if r.perspective() != DefaultPerspective && isPublicOperator(operators[i]) {
			return fmt.Errorf("resolver %s is a public one (%s): it is anycast, so that the instance nearest to this machine answers, "+
				"whatever perspective is named; leave out @%s, and name a resolver of your own for that perspective", r, operators[i], r.Perspective)
		}
		in.add(r.perspective())
	}
	if namesPerspectives(resolvers) && len(resolvers) >= minResolvers && !in.several {
		return fmt.Errorf("resolvers are all in one perspective (%s), and a proof has to span two: "+
			"add resolvers in another network, or leave out @%s", in.last, in.last)
	}
	return nil
}

// namesPerspectives reports whether a proof has to span two perspectives: any is named.
func namesPerspectives(resolvers []Resolver) bool {
	return slices.ContainsFunc(resolvers, func(r Resolver) bool { return r.perspective() != DefaultPerspective })
}

// votes counts resolvers that agree.
type votes struct {
	count   int
	last    string // perspective
	several bool   // perspectives
}

func (v *votes) add(perspective string) {
	v.count++
	v.several = v.several || v.last != "" && v.last != perspective
	v.last = perspective
}
