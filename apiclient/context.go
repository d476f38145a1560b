package apiclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

type correlationKey struct{}

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
