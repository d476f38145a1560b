// Package apiclient is the client of an identity platform's Management API: three
// operations that change something (a discovery domain's status, an organization's client
// associations, a verification template) and the reads that go with them.
//
// # Guarantees
//
// The client sends nothing that the specification refuses: it first checks every limit,
// pattern and enumeration of its sections 2, 4 and 8. A [*schema.ValidationError] names each
// broken rule with its field and value.
//
// A method sends its request once. It sends it again, with a second permit, in two cases
// only: with a fresh token if the API refused the token, or after a 403 for a missing
// scope; and over a new connection if an idle one was lost, a POST only if the API has
// certainly not processed it. All other retries are up to the caller.
//
// Errors have one of these types, all found by [errors.As]:
//
//   - [*schema.ValidationError]: nothing was sent; the request breaks a rule.
//   - the error of the [Gate], of the [Intent] or of the [Binding], unchanged: nothing was sent.
//   - [*TokenError]: there is no token; nothing was sent to the API.
//   - [*TransportError]: there was no answer, or not all of it in time. Sent reports
//     whether the API may have acted.
//   - [*Error]: the API answered with an error of its own, or there was a 408, 429 or 5xx,
//     whoever sent it.
//   - [*AnswerError]: a proxy, a firewall or a portal seems to have answered, or the API
//     answered 2xx with an unusable body. It may have made the change.
//
// Redirects are not followed, bodies are read up to a bound, and no error contains a
// secret, even if an answer repeats it.
//
// Lists are read by checkpoints, page by page. [Client.Templates] requests a page when the
// consumer reaches it, and stops when the consumer does, when the context ends, and at the
// first error other than a [*RecordError], which is the last pair that it yields.
//
// # Files
//
// Each file uses those below it:
//
//	templates.go          the operations of templates
//	domains.go            the operations of discovery domains
//	organizations.go      the operations of organizations
//	paging.go             lists, page by page, and their records
//	exchange.go           one request: permit, token, send, read
//	client.go             the settings of a client, its gate, and the work that it is bound to
//	context.go            the correlation id, which a request's context carries as it carries traces
//	clientcredentials.go  fetches tokens from a token endpoint, in time
//	clientauth.go         a token request's settings
//	assertion.go          the assertion of a private_key_jwt
//	tokens.go             sources of tokens: one token, or a file
//	tokenhealth.go        the state of a client's token
//	transport.go          connections, and an exchange that must not be repeated
//	network.go            proxy, certificate authorities, addresses, the log of exchanges
//	answer.go             an answer: its body up to a bound, its error, whose it is
//	retryafter.go         how long an answer asks to wait
//	fault.go              whose fault an answer is: the row's, the operation's or the tenant's
//	errors.go             the errors of requests and tokens
//	form.go               bodies of requests
//	secret.go             secrets, and the mask that removes them from texts
package apiclient
