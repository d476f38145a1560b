package apiclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// The values of a request's context belong to the work, not to one call, as a
// [net/http/httptrace.ClientTrace] does: every call of the work uses them, including calls
// that are added later.
type (
	beforeSendingKey struct{}
	correlationKey   struct{}
)

// BeforeSending returns a context whose requests call check when they have their permit
// and token and are about to be sent. If check fails, nothing is sent, and its error is
// returned wrapped. A list calls it for each page. nil removes the check of ctx.
//
// A permit can take long, and only the caller knows whether the request is still wanted
// after the wait.
func BeforeSending(ctx context.Context, check func(context.Context) error) context.Context {
	return context.WithValue(ctx, beforeSendingKey{}, check)
}

func beforeSending(ctx context.Context) error {
	if check, _ := ctx.Value(beforeSendingKey{}).(func(context.Context) error); check != nil {
		return check(ctx)
	}
	return nil
}

// maxCorrelation is the longest X-Correlation-ID of the service, in characters.
const maxCorrelation = 64

// WithCorrelationID returns a context whose requests carry X-Correlation-ID, which the
// service writes to the tenant's log.
func WithCorrelationID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, correlation(id))
}

func correlationID(ctx context.Context) string {
	id, _ := ctx.Value(correlationKey{}).(string)
	return id
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_.:|-]`)

// correlation returns id as a header can carry it. If it is too long or has other
// characters, its beginning is followed by a hash of all of it, so that ids stay distinct.
func correlation(id string) string {
	clean := unfit.ReplaceAllString(id, "_")
	if clean == id && len(id) <= maxCorrelation {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	hash := hex.EncodeToString(sum[:8])
	return clean[:min(len(clean), maxCorrelation-1-len(hash))] + "-" + hash
}
