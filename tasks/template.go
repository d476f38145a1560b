package tasks

import (
	"orgops/apiclient/schema"
)

// TypeCreate is the kind of rows that create a verifiable-credential template. A row is the body
// of the request (specification 4.3), an [schema.TemplateRequest].
const TypeCreate = "template:create"

var create = Kind{
	Name: TypeCreate, Command: "templates create",
	Label: "Create verifiable-credential templates, each exactly once.",
	Help: `JSON Lines only: one request body a line, with name, type, dialect, presentation, well_known_trusted_issuers[, custom_certificate_authority]

Example:

    enqueue templates create templates.jsonl --follow`,
	WholeObject: true,
	Scopes:      []string{"create:vdcs_templates", ReadTemplates},
	check: func(r *Row) (err error) {
		r.template, err = schema.DecodeTemplateRequest(r.object)
		return err
	},
}
