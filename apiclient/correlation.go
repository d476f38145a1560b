package apiclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// maxCorrelation is the most characters that the service takes of an
// X-Correlation-ID.
const maxCorrelation = 64

type correlationKey struct{}

// WithCorrelationID returns a context whose requests carry X-Correlation-ID,
// which the service writes into the tenant's log: so what it says there can be
// led back to the piece of work. It belongs to the work and not to one call, as
// what [BeforeSending] asks does.
func WithCorrelationID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, correlation(id))
}

func correlationID(ctx context.Context) string {
	id, _ := ctx.Value(correlationKey{}).(string)
	return id
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_.:|-]`)

// correlation is id as a header can carry it: where it is too long, or has
// characters that do not fit, its beginning and a hash of the whole, so that two
// ids stay two.
func correlation(id string) string {
	clean := unfit.ReplaceAllString(id, "_")
	if clean == id && len(id) <= maxCorrelation {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	hash := hex.EncodeToString(sum[:8])
	return clean[:min(len(clean), maxCorrelation-1-len(hash))] + "-" + hash
}
