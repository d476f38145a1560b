package tasks

import "fmt"

// JudgePayload asks for the decisions at the end of a sweep; it is the payload of
// domains:judge.
type JudgePayload struct {
	Envelope

	Tick int64 `json:"tick"`
}

// Validate checks what does not need the ledger.
func (p JudgePayload) Validate() error {
	if p.Tick <= 0 {
		return fmt.Errorf("tick: want a Unix second, got %d", p.Tick)
	}
	return nil
}

func (p JudgePayload) task() spec {
	return spec{typ: TypeJudge, payload: p, id: judgeTaskID(p.Run, p.Generation), queue: SweepQueue(p.Tenant)}
}
