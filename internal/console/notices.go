package console

import (
	"crypto/rand"
	"maps"
	"net/http"
	"sync"
	"time"
)

// noticeFor is how long a notice is stored.
const noticeFor = 2 * time.Minute

// notice is the result of an action.
type notice struct {
	text string
	bad  bool // the action failed
	at   time.Time
}

// notices keeps the results of actions for the page that the browser loads next. The address of
// that page has only a random key, so that no link can make the page show a false result.
type notices struct {
	mu  sync.Mutex
	all map[string]notice
}

// keep stores a notice and returns its key.
func (n *notices) keep(text string, bad bool) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(n.all, func(_ string, one notice) bool { return now.Sub(one.at) > noticeFor })
	if n.all == nil {
		n.all = map[string]notice{}
	}
	key := rand.Text()
	n.all[key] = notice{text, bad, now}
	return key
}

func (n *notices) of(r *http.Request) notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[r.URL.Query().Get("notice")]
}
