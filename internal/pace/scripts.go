package pace

import (
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var lua embed.FS

var (
	takeScript     = script("gcra", "prelude", "stored", "take")
	pauseScript    = script("gcra", "prelude", "stored", "pause")
	spentScript    = script("gcra", "prelude", "stored", "spent")
	acceptedScript = script("prelude", "accepted")
	blockScript    = script("prelude", "block")
	expireScript   = script("prelude", "expire")
	stateScript    = script("prelude", "state")
	stopScript     = script("prelude", "stop")
	startScript    = script("prelude", "start")
	lowerScript    = script("lower")
)

const (
	// shortestPause is also the pause if the API names none: its headers have whole seconds, so 0
	// means a part of one.
	shortestPause = time.Second
	// longestPause bounds the effect of one answer on the fleet.
	longestPause = time.Hour
	// Permits given are counted in slots of slotLength µs.
	slotLength = 5_000_000
	slots      = 12
)

// limits are the constants of the scripts, by their names in Lua. Times are in microseconds.
var limits = []struct {
	name  string
	value int64
}{
	{"longest_pause", longestPause.Microseconds()},

	// A probe of a block fetches a token, of which a tenant has few, and an operation works again five
	// minutes after the fix.
	{"first_probe", (30 * time.Second).Microseconds()},
	{"longest_probe", (5 * time.Minute).Microseconds()},
	{"unprobed_for", time.Minute.Microseconds()},

	// How long the answer to the request after a pause may take, and how often others ask for it.
	{"trial_for", (10 * time.Second).Microseconds()},
	{"answer_poll", (250 * time.Millisecond).Microseconds()},

	// How long a worker is counted after a permit, and how often that is stored again.
	{"counted_for", time.Minute.Microseconds()},
	{"recount", (5 * time.Second).Microseconds()},

	// The slots in which permits are counted.
	{"slot_length", slotLength},
	{"slots", slots},
}

// script returns the script of files of lua/, one after the other, behind the limits.
func script(names ...string) *redis.Script {
	var text strings.Builder
	for _, limit := range limits {
		fmt.Fprintf(&text, "local %s = %d\n", limit.name, limit.value)
	}
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
	fixField   = "blocked_fix:"
)

func key(tenant, part string) string { return "orgops:v1:{tenant:" + tenant + "}:" + part }
