package ops

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"
)

// monitorRoot is where asynqmon is mounted.
const monitorRoot = "/monitor"

// Pages is the operator's pages: our own, and asynqmon, read-only, at /monitor/, to
// those whom Config.Access lets in. It answers requests for loopback names, for the
// address that they came in at and for the names of Config.Access, and for no other
// host.
func Pages(cfg Config) http.Handler {
	mux := http.NewServeMux()
	newSite(cfg).routes(mux)
	mux.Handle(monitorRoot+"/", monitor(cfg.Redis))
	return newGuard(mux, cfg.Access, cfg.logger())
}

// monitor is asynqmon with its writes refused twice, by itself and before it:
// its own refusal is a middleware of its router, which other routes could miss.
func monitor(rdb redis.UniversalClient) http.Handler {
	pages := asynqmon.New(asynqmon.Options{
		RootPath:         monitorRoot,
		RedisConnOpt:     connOpt{rdb},
		PayloadFormatter: asynqmon.PayloadFormatterFunc(formatted),
		ResultFormatter:  asynqmon.ResultFormatterFunc(formatted),
		ReadOnly:         true,
	})
	policy := monitorPolicy(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "these pages only show; they change nothing", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Security-Policy", policy)
		pages.ServeHTTP(w, r)
	})
}

// connOpt hands asynqmon the client that there is already: it knows the user
// name, Sentinel and TLS, which asynq's own options lose in part.
type connOpt struct{ client redis.UniversalClient }

var _ asynq.RedisConnOpt = connOpt{}

// MakeRedisClient returns the given client.
func (c connOpt) MakeRedisClient() any { return c.client }

// inlineScripts finds the scripts that stand in a page itself.
var inlineScripts = regexp.MustCompile(`(?s)<script>(.*?)</script>`)

// monitorPolicy is the content security policy under which asynqmon works: its
// files, the scripts in its index page by their hash, and styles anywhere,
// since its widgets write their own. The fonts that the page would load from a
// public host are not let in: it does without them, waits for nobody where there
// is no internet, and tells nobody who looks at it.
func monitorPolicy(pages http.Handler) string {
	index := capture{header: http.Header{}}
	r, err := http.NewRequest(http.MethodGet, monitorRoot+"/", nil)
	if err != nil { // method and path are constants
		panic(fmt.Sprintf("ops: request for the index page: %v", err))
	}
	pages.ServeHTTP(&index, r)
	scripts := []string{"script-src 'self'"}
	for _, script := range inlineScripts.FindAllSubmatch(index.body.Bytes(), -1) {
		sum := sha256.Sum256(script[1])
		scripts = append(scripts, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return strings.Join([]string{
		strictPolicy,
		strings.Join(scripts, " "),
		"style-src 'self' 'unsafe-inline'",
		"img-src 'self' data:",
		"font-src 'self' data:",
		"connect-src 'self'",
		"manifest-src 'self'",
	}, "; ")
}

// capture keeps what a handler answers.
type capture struct {
	header http.Header
	body   bytes.Buffer
}

func (c *capture) Header() http.Header         { return c.header }
func (c *capture) WriteHeader(int)             {}
func (c *capture) Write(p []byte) (int, error) { return c.body.Write(p) }
