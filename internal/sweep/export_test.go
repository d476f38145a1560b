package sweep

import "context"

// SetBreaker replaces the tenant's breaker by b.
func (s *States) SetBreaker(ctx context.Context, b Breaker) error {
	_, raw, err := s.Breaker(ctx)
	if err == nil {
		_, err = s.set(ctx, BreakerState, raw, b)
	}
	return err
}
