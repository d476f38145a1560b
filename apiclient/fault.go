package apiclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
)

// Fault says whose fault an answer is, and so what is held until somebody corrects it.
type Fault string

// The faults.
const (
	// FaultOfRow is that of the request: its record does not exist, or it may not be changed so. The
	// same request is refused again, and others are not.
	FaultOfRow Fault = "row"
	// FaultOfScope is that of the client, which may not have the operation, and FaultOfOperation that
	// of the tenant, which may not: no request of the operation succeeds, whatever its row.
	FaultOfScope     Fault = "scope"
	FaultOfOperation Fault = "operation"
	// FaultOfToken is that of the client's credentials, which give no token that the API accepts, and
	// FaultOfTenant that of the way to the tenant: no request succeeds.
	FaultOfToken  Fault = "token"
	FaultOfTenant Fault = "tenant"
	// FaultOfEndpoint is that of the token endpoint, or of the way there, FaultOfCertificate that of
	// its certificate, and FaultOfProxy that of the proxy before it or the API: there is no token, or
	// no connection.
	FaultOfEndpoint    Fault = "token endpoint"
	FaultOfCertificate Fault = "certificate"
	FaultOfProxy       Fault = "proxy"
	// FaultPassing is nobody's: the same request may succeed later, and others at once.
	FaultPassing Fault = "passing"
)

// sender is who has answered.
type sender int

const (
	theAPI   sender = iota // by the JSON of its errors
	stranger               // something before the API, such as a maintenance page, a portal or a firewall
)

// answers are all answers but those that succeed, the first that fits first. Of the API's the code
// decides before the status: the same refusal comes as 403 and as 404.
var answers = []struct {
	from     sender
	statuses []int    // from, or from and to; nil: every one
	codes    []string // of which the answer has one, or has one of words; nil: every one
	words    []string // in the message, in lower case
	fault    Fault
}{
	{from: theAPI, statuses: []int{400}, codes: []string{"Bearer"}, fault: FaultOfToken}, // it is no JWT
	{from: theAPI, statuses: []int{401}, fault: FaultOfToken},
	{from: theAPI, statuses: []int{403}, codes: []string{"insufficient_scope"}, words: []string{"insufficient scope"},
		fault: FaultOfScope},
	{from: theAPI, statuses: []int{400, 499}, codes: []string{"feature_not_enabled", "operation_not_supported"},
		words: []string{"feature is not enabled for this tenant", "upgrade your subscription"}, fault: FaultOfOperation},
	{from: theAPI, statuses: []int{402}, fault: FaultOfOperation}, // of several plans some operations are paid for
	{from: theAPI, statuses: []int{423}, fault: FaultOfOperation}, // locked
	{from: theAPI, statuses: []int{451}, fault: FaultOfOperation}, // legal reasons
	{from: theAPI, statuses: []int{408}, fault: FaultPassing},
	{from: theAPI, statuses: []int{429}, fault: FaultPassing},
	{from: theAPI, statuses: []int{500, 599}, fault: FaultPassing},
	{from: theAPI, fault: FaultOfRow},

	// A page that comes whatever the request is. A firewall (403), and a gateway that refuses one
	// body (400, 413) or has no answer for one request (502, 504), may mean one row.
	{from: stranger, statuses: []int{200, 399}, fault: FaultOfTenant},
	{from: stranger, statuses: []int{401}, fault: FaultOfTenant},
	{from: stranger, statuses: []int{404}, fault: FaultOfTenant},
	{from: stranger, statuses: []int{503}, fault: FaultOfTenant},
	{from: stranger, fault: FaultPassing},
}

// FaultOf returns whose fault the error of a request is, or that of getting its token. One without
// an answer is passing unless a proxy refused the connection, and so is an answer of the API that
// cannot be read.
func FaultOf(err error) Fault {
	if none, ok := errors.AsType[*TokenError](err); ok {
		return faultOfToken(none)
	}
	if proxy, ok := errors.AsType[*ProxyError](err); ok && proxy.Status < 500 {
		return FaultOfProxy
	}
	if refused, ok := errors.AsType[*Error](err); ok {
		from := theAPI
		if refused.Page {
			from = stranger
		}
		return faultOfAnswer(from, refused.Status, refused.Code, refused.Message)
	}
	if odd, ok := errors.AsType[*AnswerError](err); ok && odd.Foreign {
		return faultOfAnswer(stranger, odd.Status, "", "")
	}
	return FaultPassing
}

func faultOfToken(err *TokenError) Fault {
	_, refused := errors.AsType[*ProxyError](err)
	operation, connects := errors.AsType[*net.OpError](err)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case err.Status == http.StatusTooManyRequests:
		return FaultPassing
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the caller did not wait
		return FaultPassing
	case refused, connects && operation.Op == "proxyconnect":
		return FaultOfProxy
	case unverified:
		return FaultOfCertificate
	case !err.Asked: // no secret or key can be read, or the given token has ended
		return FaultOfToken
	case err.Status == http.StatusBadRequest, err.Status == http.StatusUnauthorized, err.Status == http.StatusForbidden:
		return FaultOfToken
	}
	return FaultOfEndpoint
}

func faultOfAnswer(from sender, status int, code, message string) Fault {
	message = strings.ToLower(message)
	for _, a := range answers {
		if a.from != from {
			continue
		}
		if a.statuses != nil && (status < a.statuses[0] || status > a.statuses[len(a.statuses)-1]) {
			continue
		}
		says := func(words string) bool { return strings.Contains(message, words) }
		if a.codes != nil && !slices.Contains(a.codes, code) && !slices.ContainsFunc(a.words, says) {
			continue
		}
		return a.fault
	}
	return FaultPassing
}

// NotFound reports whether the API says that the record of the request does not exist. A 404 that
// says something of the tenant does not.
func NotFound(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Status == http.StatusNotFound && FaultOf(err) == FaultOfRow
}
