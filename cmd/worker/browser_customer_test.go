//go:build browser

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"orgops/internal/customer"
	"orgops/internal/status"
	"orgops/tasks"
)

// customersPage starts the page for customers, and returns it and a link's path to a domain whose
// record is at the wrong place. styles counts the requests for its style sheet.
func (o operated) customersPage(t *testing.T, frames ...string) (base, path string, styles *atomic.Int64) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "link.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base, styles = "http://"+listener.Addr().String(), new(atomic.Int64)
	quiet := slog.New(slog.DiscardHandler)
	links, err := customer.Settings{LinkKeys: []string{key}, LinkURL: base}.Open(o.redis, o.ledger, quiet)
	if err != nil {
		t.Fatal(err)
	}
	page, err := customer.PageSettings{Company: "Example", Color: "#5b2a86", Frames: frames}.Handler(links, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page.css" {
			styles.Add(1)
		}
		page.ServeHTTP(w, r)
	})
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: counted, ReadHeaderTimeout: patience}}
	server.Start()
	t.Cleanup(server.Close)
	for _, row := range o.sample.DomainRows {
		if row.Case != "doubled_host" {
			continue
		}
		d, err := status.Report(t.Context(), o.redis, o.ledger, tasks.DefaultTenant, row.Domain)
		if err != nil {
			t.Fatal(err)
		}
		link, err := links.Make(t.Context(), d, time.Hour, "")
		if err != nil {
			t.Fatal(err)
		}
		return base, strings.TrimPrefix(link.URL, base), styles
	}
	t.Fatal("the sample has no domain with the record at the wrong place")
	return "", "", nil
}

// showsACustomer checks the page for customers: its look, its buttons, without scripts, and in the
// frame of another site.
func (o operated) showsACustomer(t *testing.T, b *browser, axe string) {
	host := httptest.NewUnstartedServer(nil)
	app := "http://localhost:" + host.Listener.Addr().(*net.TCPAddr).AddrPort().String()[len("127.0.0.1:"):]
	base, path, styles := o.customersPage(t, app)
	own := *b
	own.base = base

	t.Run("look", func(t *testing.T) {
		tab := own.tab(t)
		for _, l := range []look{{1280, 800, "light"}, {1280, 800, "dark"}, {390, 844, "light"}, {390, 844, "dark"}} {
			tab.as(l)
			tab.open(path, "main h1")
			tab.fits("the page at " + l.String())
			tab.accessible("the page at "+l.String(), axe, "document")
			tab.picture("customer-" + l.String())
		}
		if text := tab.text("#state"); !strings.Contains(text, "the domain twice") && !strings.Contains(text, "appended") &&
			!strings.Contains(text, "it must be at") {
			t.Errorf("the page does not name the mistake: %q", text)
		}
		tab.quietly = []string{"status of 404"}
		tab.open("/nonsense", "main h1")
		tab.accessible("the page of no link", axe, "document")
	})
	t.Run("copy", func(t *testing.T) {
		tab := own.tab(t)
		tab.open(path, "td button")
		evaluate[bool](tab, `Object.defineProperty(navigator, "clipboard", {configurable: true, value: {writeText:
			(text) => { window.copied = text; return Promise.resolve(); }}}) === navigator`)
		tab.do("focus the button", chromedp.Evaluate[chromedp.Void](
			`document.querySelector('button[aria-label="Copy value"]').focus()`))
		tab.press(kb.Enter)
		tab.until("it says so", `document.querySelector('button[aria-label="Copy value"]').innerText === "Copied"`)
		value := evaluate[string](tab, "window.copied")
		if value == "" || !strings.Contains(tab.text("#steps table"), value) {
			t.Errorf("copied %q", value)
		}
		tab.do("focus the button below the table", chromedp.Evaluate[chromedp.Void](
			`document.querySelector("#steps table + button").focus()`))
		tab.press(kb.Enter)
		tab.until("it says so", `document.querySelector("#steps table + button").innerText === "Copied"`)
		if got := evaluate[string](tab, "window.copied"); !strings.HasPrefix(got, "Type: TXT\nName: ") ||
			!strings.Contains(got, "\nValue: "+value+"\nTTL: ") {
			t.Errorf("copied %q", got)
		}
	})
	t.Run("check", func(t *testing.T) {
		tab := own.tab(t)
		tab.do("switch scripts off", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled,
				emulation.SetScriptExecutionDisabledParams{Value: true})
			return err
		}))
		tab.open(path, "form button")
		if n := evaluate[int](tab, `document.querySelectorAll("td button").length`); n != 0 {
			t.Errorf("%d buttons need the script", n)
		}
		tab.do("focus the button", chromedp.Evaluate[chromedp.Void](`document.querySelector("form button").focus()`))
		tab.press(kb.Enter)
		tab.until("the check was requested", `document.querySelector("#state [role=status]")?.innerText.includes("is checked now")`)

		live := own.tab(t)
		live.open(path, "form button")
		live.do("focus the button", chromedp.Evaluate[chromedp.Void](`document.querySelector("form button").focus()`))
		live.press(kb.Enter)
		live.until("the check was requested", `document.querySelector("#state [role=status]")`)
		loads := live.loaded()
		live.until("the state is the present one", `(refresh(), !document.querySelector("#state [role=status]"))`)
		if live.loaded() != loads {
			t.Error("the page was loaded again")
		}
	})
	t.Run("frame", func(t *testing.T) {
		link, err := json.Marshal(base + path)
		if err != nil {
			t.Fatal(err)
		}
		host.Config = &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = fmt.Fprintf(w, `<title>app</title><link rel="icon" href="data:,"><iframe src=%s title="Verify"></iframe>`, link)
			})}
		host.Start()
		t.Cleanup(host.Close)
		framed := own
		framed.base = app
		tab := framed.tab(t)
		tab.also = strings.TrimPrefix(base, "http://")
		before := styles.Load()
		tab.open("/", "iframe")
		// A page that may not be framed loads no style sheet.
		await(t, "the frame", func() bool { return styles.Load() > before })
		tab.picture("customer-framed")
	})
}
