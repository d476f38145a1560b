package activity

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/untrusted"
)

// Entry is something that happened to a tenant, a run or a domain.
type Entry struct {
	ID      string    `json:"id,omitempty"` // within the tenant's list
	At      time.Time `json:"at,omitzero"`  // Redis'
	Tenant  string    `json:"tenant,omitempty"`
	By      string    `json:"by"`                // a user, a client of the HTTP API, worker or schedule
	Claimed bool      `json:"claimed,omitempty"` // By was given on a command line, and is not verified
	Action  Action    `json:"action"`
	Run     string    `json:"run,omitempty"`
	Domain  string    `json:"domain,omitempty"` // its discovery domain id
	Result  string    `json:"result,omitempty"` // or the reason; it may quote the API
}

// Action is the kind of an entry, in the past tense.
type Action string

// The actions. Package pace has two more: blocked and unblocked.
const (
	Submitted       Action = "submitted"
	Paused          Action = "paused"
	Resumed         Action = "resumed"
	Cancelled       Action = "cancelled"
	Retried         Action = "retried"
	Deleted         Action = "deleted"
	Ended           Action = "ended"
	SweepStarted    Action = "sweep started"
	SweepCompleted  Action = "sweep completed"
	Revoked         Action = "revoked"
	Restored        Action = "restored"
	Stopped         Action = "stopped"
	Started         Action = "started"
	Reassigned      Action = "reassigned"
	SettingsChanged Action = "settings changed"
	QueueChanged    Action = "queue changed"
	Checked         Action = "rows checked"
	Resent          Action = "webhooks sent again"
	WorkerStarted   Action = "worker started"
	WorkerStopped   Action = "worker stopped"
	WorkerDied      Action = "worker died"
	ObstacleBegan   Action = "obstacle began"
	ObstacleEnded   Action = "obstacle ended"
)

// OfRun returns an entry about a run.
func OfRun[T, R ~string](tenant T, run R, action Action, result string) Entry {
	return Entry{Tenant: string(tenant), Run: string(run), Action: action, Result: result}
}

// Who returns the name of the author, with a mark if it is claimed.
func (e Entry) Who() string {
	if e.Claimed {
		return untrusted.Plain(e.By, longest) + " (claimed)"
	}
	return untrusted.Plain(e.By, longest)
}

// Author records entries under one name.
type Author struct {
	Redis   redis.Cmdable // nil: nothing is recorded
	Logger  *slog.Logger
	Name    string
	Claimed bool   // see [Entry]
	Reason  string // of all entries, behind their results; "": none
}

const longest = 300 // code points of a name or a result

// recordScript adds an entry and deletes old ones: whole nodes of the stream, of 100 entries.
var recordScript = redis.NewScript(`
redis.call("XADD", KEYS[1], "MAXLEN", "~", 10000, "*", "entry", ARGV[1])
local oldest = redis.call("TIME")[1] - 7776000
redis.call("XTRIM", KEYS[1], "MINID", "~", string.format("%.0f", oldest * 1000))
return redis.call("EXPIRE", KEYS[1], 7776000)`)

// Record stores an entry of e.Tenant under the author's name. Call it after the action, which has
// succeeded whether the entry is stored or not. ctx may have ended.
func (a Author) Record(ctx context.Context, e Entry) {
	if a.Redis == nil {
		return
	}
	keys := []string{key(e.Tenant)}
	e.Tenant = ""
	e.By = untrusted.Cut(a.Name, longest)
	e.Claimed = a.Claimed
	if a.Reason != "" {
		e.Result = strings.TrimPrefix(e.Result+"; "+a.Reason, "; ")
	}
	e.Result = untrusted.Cut(e.Result, longest)
	text, _ := json.Marshal(e)                                                    // strings always encode
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second) // the action waits for it
	defer cancel()
	if err := recordScript.Run(ctx, a.Redis, keys, text).Err(); err != nil {
		a.Logger.WarnContext(ctx, "activity not recorded", "entry", string(text), "key", keys[0], "error", err)
	}
}

func key(tenant string) string { return "orgops:v3:{tenant:" + tenant + "}:activity" }

// entryOf reads an entry of the tenant's list. Members of later versions are left out.
func entryOf(tenant string, m redis.XMessage) (e Entry) {
	text, _ := m.Values["entry"].(string)
	_ = json.Unmarshal([]byte(text), &e)
	ms, _, _ := strings.Cut(m.ID, "-")
	at, _ := strconv.ParseInt(ms, 10, 64) // Redis has made it
	e.ID = m.ID
	e.Tenant = tenant
	e.At = time.UnixMilli(at).UTC()
	return e
}
