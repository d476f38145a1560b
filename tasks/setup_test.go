package tasks_test

import (
	"encoding/json"
	"fmt"
)

const template = `{"name":"mdl","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}`

func domainRow(i int) string {
	return fmt.Sprintf(`{"organization_id":"org_%d","discovery_domain_id":"ord_%d"}`, i/100, i)
}

func clientRow(i int) string {
	return fmt.Sprintf(`{"organization_id":"org_%d","client_id":"c_%d"}`, i, i)
}

// verifyRow returns the row of a domain with more members.
func verifyRow(more ...any) string {
	return row(append([]any{"organization_id", "org_1", "discovery_domain_id", "ord_1"}, more...)...)
}

// row returns a row as JSON.
func row(members ...any) string {
	m := map[string]any{}
	for i := 0; i < len(members); i += 2 {
		m[members[i].(string)] = members[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}
