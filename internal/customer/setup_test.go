package customer

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"orgops/apiclient/schema"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/logtest"
	"orgops/internal/redistest"
	"orgops/internal/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a page, and a tenant with the domain ord_1 of organization org_1, whose row waits.
type world struct {
	t       *testing.T
	rdb     redis.UniversalClient
	ledger  *ledger.Ledger
	links   *Links
	log     *logtest.Buffer
	page    http.Handler
	segment ledger.Segment // of the row
}

const address = "https://verify.example.com"

// keyFile writes a new key.
func keyFile(t *testing.T) string {
	t.Helper()
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret)
	file := filepath.Join(t.TempDir(), "link.key")
	if err := os.WriteFile(file, []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func newWorld(t *testing.T, s PageSettings) *world {
	t.Helper()
	rdb := redistest.New(t)
	w := &world{t: t, rdb: rdb, ledger: ledger.New(rdb), log: &logtest.Buffer{}}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	w.links, err = Settings{LinkKeys: []string{keyFile(t)}, LinkURL: address}.Open(rdb, w.ledger, log)
	if err != nil {
		t.Fatal(err)
	}
	if s.Color == "" {
		s.Color = "#0b57b4"
	}
	if w.page, err = s.Handler(w.links, nil, log); err != nil {
		t.Fatal(err)
	}
	w.segment = w.waits("a", schema.StatusPending)
	return w
}

// waits has a row of the domain executed, in a run of its own, and wait for an hour.
func (w *world) waits(run ledger.RunID, as schema.DomainStatus) ledger.Segment {
	w.t.Helper()
	ledgertest.Submit(w.t, w.ledger, ledger.NewRun{ID: run, Tenant: "acme",
		Description: ledger.Description{Format: "jsonl"}}, `{"organization_id":"org_1","discovery_domain_id":"ord_1"}`)
	seg, nonce, begun := ledgertest.Begin(w.t, w.ledger, string(run), 1)
	known := index.Entry{OrganizationID: "org_1", ID: "ord_1", Domain: "acme.example", Host: "_v.acme.example",
		TXT: "token-1", Status: as, Read: time.Now(), At: time.Now(), State: "absent", Next: time.Now().Add(time.Hour),
		Run: run, Row: begun[0]}
	if _, err := w.ledger.End(w.t.Context(), seg, nonce, ledger.RowEnd{Row: begun[0], Subject: known.Subject(),
		Ending: ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour}}); err != nil {
		w.t.Fatal(err)
	}
	return seg
}

// link makes a link to the domain, and returns its token.
func (w *world) link(life time.Duration) string {
	w.t.Helper()
	d, err := status.Report(w.t.Context(), w.rdb, w.ledger, "acme", "ord_1")
	if err != nil {
		w.t.Fatal(err)
	}
	link, err := w.links.Make(w.t.Context(), d, life, "ada")
	if err != nil {
		w.t.Fatal(err)
	}
	token, ok := strings.CutPrefix(link.URL, address+"/")
	if !ok || strings.Contains(token, "/") {
		w.t.Fatalf("link %s", link.URL)
	}
	return token
}

type answer struct {
	*http.Response

	body string
}

func (w *world) do(method, path string) answer {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, address, nil)
	r.URL.Path = path
	out := httptest.NewRecorder()
	w.page.ServeHTTP(out, r)
	got := out.Result()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{got, string(body)}
}
