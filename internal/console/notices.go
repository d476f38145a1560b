package console

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// noticeFor is how long what became of an action is told to who asks for it.
const noticeFor = 2 * time.Minute

// notice is what became of an action.
type notice struct {
	text string
	bad  bool // it did not do what was asked
	at   time.Time
}

// notices keeps what became of actions, for the page that the browser is led to next.
// The address of that page has nothing but a key in it, which cannot be guessed: no
// link can make the page say what did not happen.
type notices struct {
	mu  sync.Mutex
	all map[string]notice
}

// keep returns the key of what is told.
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

// lead sends the browser on to a page that tells what became of an action.
func (s *site) lead(w http.ResponseWriter, r *http.Request, path, text string, bad bool) {
	with := "?"
	if strings.Contains(path, "?") {
		with = "&"
	}
	http.Redirect(w, r, path+with+url.Values{"notice": {s.notices.keep(text, bad)}}.Encode(), http.StatusSeeOther)
}
