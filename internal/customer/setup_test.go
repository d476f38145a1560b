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

	"go.uber.org/goleak"

	"orgops/apiclient/schema"
	"orgops/dnscheck/report"
	"orgops/internal/discovery"
	"orgops/internal/evidence"
	"orgops/internal/index"
	"orgops/internal/ledger"
	"orgops/internal/ledgertest"
	"orgops/internal/logtest"
	"orgops/internal/redistest"
	"orgops/internal/status"
	"orgops/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a page, and a tenant with the domain ord_1 of organization org_1, whose row waits.
type world struct {
	t       *testing.T
	rdb     redistest.Client
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
	return w.waitsWith(run, as, "acme.example")
}

// waitsWith is waits for a domain of that name, whose check has made the findings.
func (w *world) waitsWith(run ledger.RunID, as schema.DomainStatus, name string,
	findings ...report.Finding) ledger.Segment {
	w.t.Helper()
	ledgertest.Submit(w.t, w.ledger, ledger.NewRun{ID: run, Tenant: "acme", Kind: tasks.TypeVerify,
		Description: ledger.Description{Format: "jsonl"}}, `{"organization_id":"org_1","discovery_domain_id":"ord_1"}`)
	seg, nonce, begun := ledgertest.Begin(w.t, w.ledger, string(run), 1)
	d := discovery.Domain{OrganizationID: "org_1", ID: "ord_1", Name: name, Host: "_v." + name, TXT: "token-1",
		Status: as}
	known := index.Entry{Domain: d, Read: time.Now(), At: time.Now(), State: "absent",
		Next: time.Now().Add(time.Hour), Run: run, Row: begun[0]}
	ending := ledger.Waiting{Stage: ledger.StageCheck, After: time.Hour}
	if len(findings) > 0 {
		e := evidence.OfCheck(report.Evidence{State: report.Absent, Reason: "no_record"}, time.Now())
		e.Findings = findings
		memo, err := evidence.State{Record: evidence.RecordOf(d), Evidence: &e}.Pack()
		if err != nil {
			w.t.Fatal(err)
		}
		ending.Memo = append([]byte(ledger.NotYetFound+"\x00\x00"), memo...)
	}
	if _, err := w.ledger.End(w.t.Context(), seg, nonce, ledger.RowEnd{Row: begun[0], Subject: known.Subject(),
		Ending: ending}); err != nil {
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
