package engine

import "time"

// StopClock stops the clock of the engine's executions. On a busy machine they would ask the
// ledger again, which a test that counts calls does not expect.
func (e *Engine) StopClock() {
	now := e.now()
	e.now = func() time.Time { return now }
}

// Pass has time pass for the executions of the engine.
func (e *Engine) Pass(d time.Duration) {
	now := e.now
	e.now = func() time.Time { return now().Add(d) }
}
