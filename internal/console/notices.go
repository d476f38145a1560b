package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/status"
	"orgops/internal/web"
)

// noticeFor is how long a notice is stored: until its page is loaded, and is reloaded a few times.
const noticeFor = 5 * time.Minute

// notice is the result of an action, for the page that the browser loads next, from this worker or
// another. It is stored in Redis under a random key, which the address of that page has. So no link
// can make a page show a false result; and only the user who acted sees it.
type notice struct {
	User    string     `json:"user"`
	Text    string     `json:"text,omitempty"`
	Bad     bool       `json:"bad,omitempty"` // the action failed
	Checked *checkView `json:"checked,omitempty"`
}

// checkView is the result of a check by hand.
type checkView struct {
	Domain   status.DomainName `json:"domain"`
	Problem  string            `json:"problem,omitempty"`
	Of       string            `json:"of,omitempty"` // the source of host and value
	Findings *status.Findings  `json:"findings,omitempty"`
	Do       string            `json:"do,omitempty"` // the next step if the record was found
}

func noticeKey(key string) string { return "orgops:v3:{notice:" + key + "}" }

// notices are kept in Redis.
type notices struct {
	redis redis.Cmdable
	log   *slog.Logger
}

// keep stores a notice for the user of the request, and returns its key; empty: it is not stored.
// The action is done then, and the worker's log has its result.
func (s notices) keep(ctx context.Context, n notice) string {
	n.User = web.Of(ctx).User.Name
	key := rand.Text()
	stored, err := json.Marshal(n)
	if err == nil {
		err = s.redis.Set(ctx, noticeKey(key), stored, noticeFor).Err()
	}
	if err != nil {
		s.log.WarnContext(ctx, "result of an action not stored for the next page", "error", err)
		return ""
	}
	return key
}

// of returns the notice that the address names; empty: there is none for this user.
func (s notices) of(r *http.Request) (n notice) {
	key := r.URL.Query().Get("notice")
	if key == "" {
		return n
	}
	stored, err := s.redis.Get(r.Context(), noticeKey(key)).Bytes()
	if err != nil || json.Unmarshal(stored, &n) != nil || n.User != web.Of(r.Context()).User.Name {
		return notice{}
	}
	return n
}
