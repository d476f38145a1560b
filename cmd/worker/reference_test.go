package main

import (
	"cmp"
	"reflect"
	"strings"
	"testing"

	"orgops/internal/cli"
	"orgops/internal/reference"
	"orgops/internal/tenant"
)

func TestReference(t *testing.T) {
	app, err := cli.Program{Name: "worker"}.Model(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	reference.Check(t, "commands.md", "worker", reference.Commands(app))

	work, members := cli.Commands(app.Node)[0], tenantMembers()
	for _, f := range work.Flags {
		if f.Group != nil && f.Group.Key == tenantGroup && members[f.Name] == "" {
			t.Errorf("--%s is no member of a tenant in a file", f.Name)
		}
	}
	reference.Check(t, "settings.md", "worker", reference.Settings(work, members))
	for _, member := range members {
		if !strings.Contains(reference.Page(t, "settings.md"), reference.Code(member)) {
			t.Errorf(
				"docs/reference/settings.md: no %s, which is a member of a tenant in a file: add it to the credentials", member)
		}
	}
}

// tenantMembers returns the members of a tenant in a file, by the names of their flags.
func tenantMembers() map[string]string {
	members := map[string]string{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[tenant.Settings]()) {
		if member := field.Tag.Get("yaml"); member != "" && member != "-" && !field.Anonymous {
			members[cmp.Or(field.Tag.Get("name"), strings.ReplaceAll(member, "_", "-"))] = member
		}
	}
	return members
}
