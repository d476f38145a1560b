package runs

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/prelude.lua
	preludeLua string
	//go:embed lua/create.lua
	createLua string
	//go:embed lua/store.lua
	storeLua string
	//go:embed lua/seal.lua
	sealLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/standing.lua
	standingLua string
	//go:embed lua/note.lua
	noteLua string
	//go:embed lua/looked.lua
	lookedLua string
	//go:embed lua/begin.lua
	beginLua string
	//go:embed lua/cancel.lua
	cancelLua string
	//go:embed lua/delete.lua
	deleteLua string
	//go:embed lua/pause.lua
	pauseLua string
	//go:embed lua/resume.lua
	resumeLua string
	//go:embed lua/resumed.lua
	resumedLua string
	//go:embed lua/repair.lua
	repairLua string
	//go:embed lua/lost.lua
	lostLua string
	//go:embed lua/walk.lua
	walkLua string
	//go:embed lua/walknote.lua
	walkNoteLua string
	//go:embed lua/marked.lua
	markedLua string
	//go:embed lua/children.lua
	childrenLua string
	//go:embed lua/forget.lua
	forgetLua string
	//go:embed lua/sealed.lua
	sealedLua string
)

var (
	createScript   = redis.NewScript(preludeLua + createLua)
	storeScript    = redis.NewScript(preludeLua + storeLua)
	sealScript     = redis.NewScript(preludeLua + sealLua)
	settleScript   = redis.NewScript(preludeLua + settleLua)
	standingScript = redis.NewScript(preludeLua + standingLua)
	noteScript     = redis.NewScript(preludeLua + noteLua)
	lookedScript   = redis.NewScript(preludeLua + lookedLua)
	beginScript    = redis.NewScript(preludeLua + beginLua)
	cancelScript   = redis.NewScript(preludeLua + cancelLua)
	deleteScript   = redis.NewScript(preludeLua + deleteLua)
	pauseScript    = redis.NewScript(preludeLua + pauseLua)
	resumeScript   = redis.NewScript(preludeLua + resumeLua)
	resumedScript  = redis.NewScript(preludeLua + resumedLua)
	repairScript   = redis.NewScript(preludeLua + repairLua)
	lostScript     = redis.NewScript(preludeLua + lostLua)
	walkScript     = redis.NewScript(preludeLua + walkLua)
	walkNoteScript = redis.NewScript(preludeLua + walkNoteLua)
	markedScript   = redis.NewScript(preludeLua + markedLua)
	childrenScript = redis.NewScript(preludeLua + childrenLua)
	forgetScript   = redis.NewScript(forgetLua)
	sealedScript   = redis.NewScript(sealedLua)
)

// Keys outside of runs.
const (
	indexKey  = "orgops:v1:runs"
	sealedKey = "orgops:v1:runs:sealed"
	untoldKey = "orgops:v1:runs:untold"
	turnKey   = "orgops:v1:runs:reconciled"
)

// key is one of a run's keys; all of them share its hash tag.
func key(run, part string) string { return "orgops:v1:{run:" + run + "}:" + part }

// keys are a run's, in the order in which prelude.lua names them.
func keys(run string) []string {
	return []string{
		key(run, "run"), key(run, "settled"), key(run, "cancelled"), key(run, "told"),
		key(run, "fates"), key(run, "notes"), key(run, "kept"), key(run, "rows"),
		key(run, "scratch"), key(run, "begun"), key(run, "intents"),
		key(run, "walk"),
	}
}

// do runs one of the ledger's scripts and returns what follows its status word.
// want is what a mismatch is told to have been asked for, by member; a member
// that is not in it was told by the script.
func (l *Ledger) do(ctx context.Context, script *redis.Script, run string, want map[string]string, args ...any) (status string, rest []any, err error) {
	args = append([]any{Retention.Milliseconds()}, args...)
	answer, err := script.Run(ctx, l.rdb, keys(run), args...).Slice()
	if err != nil {
		return "", nil, err
	}
	status, _ = answer[0].(string)
	switch status {
	case "missing":
		return "", nil, ErrNotFound
	case "cancelled":
		return "", nil, ErrCancelled
	case "mismatch":
		member, have := fmt.Sprint(answer[1]), fmt.Sprint(answer[2])
		e := &MismatchError{Run: run, Member: member, Have: have, Want: want[member]}
		if member == "item" {
			e.Have, e.Want = "", have
		}
		return "", nil, e
	}
	return status, answer[1:], nil
}
