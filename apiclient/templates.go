package apiclient

import (
	"context"
	"iter"
	"net/http"

	"orgops/apiclient/schema"
)

const templatesPath = "/verifiable-credentials/verification/templates"

// CreateTemplate creates a template (POST, specification 4.3). It is not idempotent: after
// a *TransportError with Sent, an *AnswerError or a 5xx the template may exist, and the
// caller must search [Client.Templates] before it tries again.
func (c *Client) CreateTemplate(ctx context.Context, r schema.TemplateRequest, intent Intent) (schema.Template, error) {
	k := request{
		operation: schema.OpCreateTemplate,
		method:    http.MethodPost,
		path:      templatesPath,
		body:      r,
		limit:     maxRecordBytes,
		invalid:   r.Validate(),
		intent:    intent,
	}
	t, _, err := call(ctx, c, k, func(t schema.Template, _ answer) error { return t.CheckIs(r.Name) })
	return t, err
}

// Templates lists the templates of the tenant, in the service's order, a hundred per
// request. A template outside the specification comes with a *[RecordError], and the list
// continues; any other error ends it.
func (c *Client) Templates(ctx context.Context) iter.Seq2[schema.Template, error] {
	return all[schema.Template](ctx, c, list{operation: schema.OpListTemplates, path: templatesPath, member: "templates"})
}
