package status

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/ledger"
)

// Act is what somebody did to a run or a tenant.
type Act struct {
	At   time.Time `json:"at"` // Redis'
	By   string    `json:"by"`
	What string    `json:"what"`
}

// mostActs is how many of the last acts on a run or tenant are stored, for 90 days.
const mostActs = 50

var actScript = redis.NewScript(fmt.Sprintf(`
redis.call("LPUSH", KEYS[1], redis.call("TIME")[1] .. " " .. ARGV[1])
redis.call("LTRIM", KEYS[1], 0, %d)
return redis.call("EXPIRE", KEYS[1], 7776000)`, mostActs-1))

func actsKey(of string) string { return "orgops:v3:{acts:" + of + "}" }

// ActsOf returns a run as the subject of [AddAct] and [Acts].
func ActsOf(run ledger.Run) string { return "run " + string(run.Tenant) + "/" + string(run.ID) }

// AddAct stores an act and its user. The subject is "tenant NAME", or [ActsOf] a run. It is called
// after the act, which must succeed in a Redis that is full: its error is one for the log.
func AddAct(ctx context.Context, rdb redis.UniversalClient, of, by, what string) error {
	act, err := json.Marshal(Act{By: by, What: what})
	if err == nil {
		err = actScript.Run(ctx, rdb, []string{actsKey(of)}, act).Err()
	}
	if err != nil {
		return fmt.Errorf("store who did what to %s: %w", of, err)
	}
	return nil
}

// Acts returns the acts on the subject since a time, the last one first.
func Acts(ctx context.Context, rdb redis.UniversalClient, of string, since time.Time) ([]Act, error) {
	lines, err := rdb.LRange(ctx, actsKey(of), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read who did what to %s: %w", of, err)
	}
	var acts []Act
	for _, line := range lines {
		var act Act
		at, text, _ := strings.Cut(line, " ")
		seconds, err := strconv.ParseInt(at, 10, 64)
		if err != nil || json.Unmarshal([]byte(text), &act) != nil {
			continue // of a later version
		}
		if act.At = time.Unix(seconds, 0).UTC(); !act.At.Before(since.Truncate(time.Second)) {
			acts = append(acts, act)
		}
	}
	return acts, nil
}

// String returns the act on one line.
func (a Act) String() string { return Stamp(a.At) + " " + Shown(a.By) + ": " + Shown(a.What) }
