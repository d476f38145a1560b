package tracing

import "time"

// CloseWithin has Close wait for at most d.
func (t *Tracing) CloseWithin(d time.Duration) { t.closing = d }
