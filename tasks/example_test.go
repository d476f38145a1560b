package tasks_test

import (
	"encoding/json"
	"fmt"

	"orgops/tasks"
)

// A row is checked as the values of its kind's columns. The error names the column and the
// value.
func ExampleKind_Parse() {
	remove, _ := tasks.KindOf(tasks.TypeRemove)
	row, err := remove.Parse([]string{"org_1", "client_1", ""}, tasks.Defaults{})
	if err != nil {
		panic(err)
	}
	content, err := row.Content()
	fmt.Printf("%s %s %v\n", row.Organization(), content, err)

	_, err = remove.Parse([]string{"org_1", "a/b", ""}, tasks.Defaults{})
	fmt.Println(err)
	// Output:
	// org_1 {"organization_id":"org_1","client_id":"client_1"} <nil>
	// client_id: want 1 to 128 letters, digits, _, | or -, got "a/b"
}

// Columns of updates without a value get the defaults of the submission.
func ExampleDefaults() {
	update, _ := tasks.KindOf(tasks.TypeUpdate)
	for _, status := range []string{"", "verified"} {
		row, err := update.Parse([]string{"org_1", "ord_1", status, ""}, tasks.Defaults{"status": "pending"})
		if err != nil {
			panic(err)
		}
		content, err := row.Content()
		fmt.Println(string(content), err)
	}
	// Output:
	// {"organization_id":"org_1","discovery_domain_id":"ord_1","status":"pending"} <nil>
	// {"organization_id":"org_1","discovery_domain_id":"ord_1","status":"verified"} <nil>
}

// A template is one JSON object: the body of the request.
func ExampleKind_ParseObject() {
	create, _ := tasks.KindOf(tasks.TypeCreate)
	_, err := create.ParseObject(json.RawMessage(`{
		"name": "age", "type": "mdl", "dialect": "simplified/1.0", "well_known_trusted_issuers": "aamva",
		"presentation": {"org.iso.18013.5.1.mDL": {"org.iso.18013.5.1": {"age_in_years": true}}}
	}`))
	fmt.Println(err)
	_, err = create.ParseObject(json.RawMessage(`[]`))
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// true
}
