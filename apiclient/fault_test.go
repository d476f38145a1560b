package apiclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"testing"

	"orgops/apiclient"
)

// TestFaultOf checks whose fault an answer is, with its code, with its words, and as a page.
func TestFaultOf(t *testing.T) {
	api := func(status int, code, message string) error {
		return fmt.Errorf("read: %w", &apiclient.Error{Status: status, Code: code, Message: message})
	}
	page := func(status int) error {
		return &apiclient.AnswerError{Status: status, Foreign: true, Err: errors.New("a page")}
	}
	const (
		noDomain  = "No organization domain found by that id"
		noFeature = "This feature is not enabled for this tenant."
	)
	for name, tc := range map[string]struct {
		err      error
		want     apiclient.Fault
		notFound bool
	}{
		"400":                           {api(400, "invalid_body", "Payload validation error"), apiclient.FaultOfRow, false},
		"400, no JWT":                   {api(400, "Bearer", ""), apiclient.FaultOfToken, false},
		"401":                           {api(401, "", ""), apiclient.FaultOfToken, false},
		"402":                           {api(402, "", ""), apiclient.FaultOfOperation, false},
		"403":                           {api(403, "", "Forbidden"), apiclient.FaultOfRow, false},
		"403, scope":                    {api(403, "insufficient_scope", ""), apiclient.FaultOfScope, false},
		"403, scope in words":           {api(403, "", "Insufficient scope, expected any of: x"), apiclient.FaultOfScope, false},
		"403, feature":                  {api(403, "feature_not_enabled", ""), apiclient.FaultOfOperation, false},
		"403, operation":                {api(403, "operation_not_supported", ""), apiclient.FaultOfOperation, false},
		"404":                           {api(404, "", noDomain), apiclient.FaultOfRow, true},
		"404, feature":                  {api(404, "feature_not_enabled", ""), apiclient.FaultOfOperation, false},
		"404, feature in words":         {api(404, "", noFeature), apiclient.FaultOfOperation, false},
		"408":                           {api(408, "", ""), apiclient.FaultPassing, false},
		"409":                           {api(409, "", ""), apiclient.FaultOfRow, false},
		"423":                           {api(423, "", ""), apiclient.FaultOfOperation, false},
		"429":                           {api(429, "", ""), apiclient.FaultPassing, false},
		"451":                           {api(451, "", ""), apiclient.FaultOfOperation, false},
		"503":                           {api(503, "", ""), apiclient.FaultPassing, false},
		"503, a page":                   {&apiclient.Error{Status: 503, Page: true}, apiclient.FaultOfTenant, false},
		"504, a page":                   {&apiclient.Error{Status: 504, Page: true}, apiclient.FaultPassing, false},
		"200, a page":                   {page(200), apiclient.FaultOfTenant, false},
		"302, a page":                   {page(302), apiclient.FaultOfTenant, false},
		"403, a page":                   {page(403), apiclient.FaultPassing, false},
		"404, a page":                   {page(404), apiclient.FaultOfTenant, false},
		"413, a page":                   {page(413), apiclient.FaultPassing, false},
		"200 that cannot be read":       {&apiclient.AnswerError{Status: 200, Err: io.EOF}, apiclient.FaultPassing, false},
		"no answer":                     {&apiclient.TransportError{Err: io.EOF}, apiclient.FaultPassing, false},
		"a token that the issuer keeps": {&apiclient.TokenError{Asked: true, Status: 403}, apiclient.FaultOfToken, false},
		"401 of the issuer":             {&apiclient.TokenError{Asked: true, Status: 401}, apiclient.FaultOfToken, false},
		"no file of a token":            {&apiclient.TokenError{Err: fs.ErrNotExist}, apiclient.FaultOfToken, false},
		"429 of the issuer":             {&apiclient.TokenError{Asked: true, Status: 429}, apiclient.FaultPassing, false},
		"no issuer":                     {&apiclient.TokenError{Asked: true, Err: io.EOF}, apiclient.FaultOfEndpoint, false},
		"another issuer":                {&apiclient.TokenError{Asked: true, Status: 307}, apiclient.FaultOfEndpoint, false},
		"the caller left":               {&apiclient.TokenError{Err: context.Canceled}, apiclient.FaultPassing, false},
		"the execution's time": {&apiclient.TokenError{Err: context.DeadlineExceeded},
			apiclient.FaultPassing, false},
		"an issuer of no authority": {&apiclient.TokenError{Asked: true, Err: &tls.CertificateVerificationError{Err: io.EOF}},
			apiclient.FaultOfCertificate, false},
		"a proxy before the issuer": {&apiclient.TokenError{Asked: true, Err: &apiclient.ProxyError{Status: 407}},
			apiclient.FaultOfProxy, false},
		"no proxy before the issuer": {&apiclient.TokenError{Asked: true,
			Err: &net.OpError{Op: "proxyconnect", Err: io.EOF}}, apiclient.FaultOfProxy, false},
		"407 of a proxy": {&apiclient.TransportError{Err: &apiclient.ProxyError{Status: 407}}, apiclient.FaultOfProxy, false},
		"502 of a proxy": {&apiclient.TransportError{Err: &apiclient.ProxyError{Status: 502}}, apiclient.FaultPassing, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := apiclient.FaultOf(tc.err); got != tc.want {
				t.Errorf("fault of %s, want %s", got, tc.want)
			}
			if got := apiclient.NotFound(tc.err); got != tc.notFound {
				t.Errorf("not found %t, want %t", got, tc.notFound)
			}
		})
	}
}
