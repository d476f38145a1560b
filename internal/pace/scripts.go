package pace

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/gcra.lua
	gcraLua string
	//go:embed lua/prelude.lua
	preludeLua string
	//go:embed lua/stored.lua
	storedLua string
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/refund.lua
	refundLua string
	//go:embed lua/pause.lua
	pauseLua string
	//go:embed lua/block.lua
	blockLua string
	//go:embed lua/state.lua
	stateLua string
	//go:embed lua/stop.lua
	stopLua string
	//go:embed lua/start.lua
	startLua string
)

var (
	takeScript   = redis.NewScript(gcraLua + preludeLua + storedLua + takeLua)
	refundScript = redis.NewScript(gcraLua + preludeLua + refundLua)
	pauseScript  = redis.NewScript(gcraLua + preludeLua + storedLua + pauseLua)
	blockScript  = redis.NewScript(preludeLua + blockLua)
	stateScript  = redis.NewScript(gcraLua + preludeLua + storedLua + stateLua)
	stopScript   = redis.NewScript(preludeLua + stopLua)
	startScript  = redis.NewScript(preludeLua + startLua)
)
