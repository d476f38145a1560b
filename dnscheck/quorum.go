package dnscheck

import (
	"fmt"
	"strings"
)

// leastVoters is how many resolvers a proof needs at least: who controls the only one could prove any domain.
const leastVoters = 2

// QuorumOf returns how many of so many resolvers have to agree: what is set, or for 0 the least that is allowed. That is all
// of two or fewer, all but one of three to five, and all but two of six or more, as the CA/Browser Forum's Baseline
// Requirements let one or two remote perspectives miss a record (section 3.2.2.9). It is always more than half. The error says
// what may be set.
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

// checkOperators refuses resolvers of which one operator has a quorum. A single resolver is let through: it proves nothing,
// and may be asked for advice.
func checkOperators(resolvers []Resolver, quorum int) error {
	if len(resolvers) < leastVoters {
		return nil
	}
	of := make(map[string][]string)
	operators := Operators(resolvers)
	for i, operator := range operators {
		of[operator] = append(of[operator], resolvers[i].String())
	}
	for _, operator := range operators {
		names := of[operator]
		if len(names) < quorum {
			continue
		}
		mend := "keep one of them, and add resolvers of other operators"
		if len(names) < len(resolvers) {
			mend += fmt.Sprintf("; or set the quorum to %d", len(names)+1)
		}
		last := len(names) - 1
		return fmt.Errorf("resolvers %s and %s are of one operator (%s), which reaches the quorum of %d alone: %s",
			strings.Join(names[:last], ", "), names[last], operator, quorum, mend)
	}
	return nil
}
