package pace

import (
	"embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var lua embed.FS

var (
	takeScript     = script("gcra", "prelude", "stored", "take")
	pauseScript    = script("gcra", "prelude", "stored", "pause")
	acceptedScript = script("prelude", "accepted")
	blockScript    = script("prelude", "block")
	stateScript    = script("prelude", "state")
	stopScript     = script("prelude", "stop")
	startScript    = script("prelude", "start")
	lowerScript    = script("lower")
)

// script returns the script of files of lua/, one after the other.
func script(names ...string) *redis.Script {
	var text strings.Builder
	for _, name := range names {
		text.WriteString(source(name))
	}
	return redis.NewScript(text.String())
}

// source returns a file of lua/.
func source(name string) string {
	b, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(b)
}

// The beginnings of the fields of blocks in the tenant's hash: their next probes and reasons,
// and since when they last. lua/ knows them too.
const (
	blockField = "blocked:"
	sinceField = "blocked_since:"
)

func key(tenant, part string) string { return "orgops:v1:{tenant:" + tenant + "}:" + part }
