package engine

import "time"

// Pass has time pass for the executions of the engine.
func (e *Engine) Pass(d time.Duration) {
	now := e.now
	e.now = func() time.Time { return now().Add(d) }
}
