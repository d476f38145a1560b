//go:build browser

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium returns the browser that ORGOPS_TEST_CHROMIUM names. It skips the test if the
// variable is empty, since these tests take minutes.
func chromium(t *testing.T) string {
	t.Helper()
	named := os.Getenv("ORGOPS_TEST_CHROMIUM")
	if named == "" {
		t.Skip("takes minutes, and a Chromium that ORGOPS_TEST_CHROMIUM names: .ci/run browser has it")
	}
	return named
}

// axeCore returns the text of the axe.min.js that ORGOPS_TEST_AXE names. It returns "" if the
// variable is empty; accessibility is not checked then.
func axeCore(t *testing.T) string {
	t.Helper()
	file := os.Getenv("ORGOPS_TEST_AXE")
	if file == "" {
		t.Log("accessibility is not looked at: ORGOPS_TEST_AXE names no axe.min.js")
		return ""
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// browser is a Chromium that may connect to one host only.
type browser struct {
	ctx  context.Context
	base string // of the pages, without the last /
}

// openBrowser starts one for the pages at base.
func openBrowser(t *testing.T, base string) *browser {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience),
	)
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, closeIt := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("end of the browser: %v", err)
		}
		closeIt()
		end()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return &browser{ctx, strings.TrimSuffix(base, "/")}
}

// tab is a page of the browser, and the problems found in it.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string
	also string // another host that requests may be sent to

	mu      sync.Mutex
	amiss   []string
	loads   int      // of the page itself
	quietly []string // parts of expected messages
}

// tab opens an empty tab.
func (b *browser) tab(t *testing.T) *tab {
	t.Helper()
	own, err := url.Parse(b.base)
	if err != nil {
		t.Fatal(err)
	}
	one := &tab{t: t, base: b.base}
	ctx, closeIt := chromedp.NewContext(b.ctx, chromedp.WithListener(func(event any) { one.saw(own.Host, event) }))
	t.Cleanup(closeIt)
	one.ctx = ctx
	t.Cleanup(func() {
		one.mu.Lock()
		defer one.mu.Unlock()
		for _, what := range one.amiss {
			t.Error(what)
		}
	})
	return one
}

// saw records requests to other hosts than the worker, and errors on the console.
func (b *tab) saw(own string, event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || !slices.Contains([]string{own, b.also}, u.Host) && u.Scheme != "data" && u.Scheme != "blob" {
			b.amiss = append(b.amiss, "a request left for "+e.Request.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			var words []string
			for _, arg := range e.Args {
				words = append(words, string(arg.Value)+" "+arg.Description)
			}
			b.add(fmt.Sprintf("console %s: %s", e.Type, strings.Join(words, " ")))
		}
	case *runtime.EventExceptionThrown:
		b.add("exception: " + e.ExceptionDetails.Text + " at " + e.ExceptionDetails.URL)
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			b.add(fmt.Sprintf("log %s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	case *page.EventFrameNavigated:
		if e.Frame.ParentID == "" {
			b.loads++
		}
	}
}

func (b *tab) add(what string) {
	if !slices.ContainsFunc(b.quietly, func(part string) bool { return strings.Contains(what, part) }) {
		b.amiss = append(b.amiss, what)
	}
}

// loaded returns how often the page was loaded.
func (b *tab) loaded() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loads
}

// begin opens the tab, with the context that ends it.
func (b *tab) begin() {
	b.t.Helper()
	if err := chromedp.Do(b.ctx); err != nil {
		b.t.Fatalf("open a tab: %v", err)
	}
}

func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.begin()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// open loads a page, and waits for an element.
func (b *tab) open(path, wait string) {
	b.t.Helper()
	b.do("open "+path, chromedp.Navigate(b.base+path), chromedp.WaitReady(chromedp.CSS(wait)))
}

// look is the viewport and color scheme of a page.
type look struct {
	width, height int64
	scheme        string // light or dark
}

func (l look) String() string { return fmt.Sprintf("%d-%s", l.width, l.scheme) }

func (b *tab) as(l look) {
	b.t.Helper()
	var options []chromedp.EmulateViewportOption
	if l.width < 600 {
		options = append(options, chromedp.EmulateMobile)
	}
	b.do("look as "+l.String(), chromedp.EmulateViewport(l.width, l.height, options...),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}},
			})
			return err
		}))
}

// evaluate returns the value of an expression.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	return is(b, "evaluate "+expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// is returns the result of action.
func is[T any](b *tab, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	return value
}

// until waits until an expression is true. During the navigation to another page it has no
// value.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	await(b.t, what, func() bool {
		yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		return err == nil && yes
	})
}

// fits checks that no element is wider than the window.
func (b *tab) fits(where string) {
	b.t.Helper()
	wide := evaluate[[]string](b, `(() => {
		const root = document.scrollingElement;
		if (root.scrollWidth <= innerWidth) return [];
		return [root.scrollWidth + " px of " + innerWidth, ...[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map((e) => e.outerHTML.slice(0, 120))];
	})()`)
	if len(wide) > 0 {
		b.t.Errorf("%s is wider than its window: %s", where, strings.Join(wide, "\n  "))
	}
}

// accessible checks that axe-core finds no serious violation in a part of the page, an expression.
func (b *tab) accessible(where, axe, part string) {
	b.t.Helper()
	if axe == "" {
		return
	}
	b.do("load axe-core", chromedp.Evaluate[chromedp.Void](axe))
	found := evaluate[[]struct {
		ID, Impact, Help string
		Nodes            []string
	}](b,
		`axe.run(`+part+`, {resultTypes: ["violations"]}).then((all) => all.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
		.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 3).map((n) => n.target.join(" ") + ": " + n.failureSummary.slice(0, 300))})))`)
	for _, f := range found {
		b.t.Errorf("%s: %s (%s): %s\n  %s", where, f.ID, f.Impact, f.Help, strings.Join(f.Nodes, "\n  "))
	}
}

// picture stores a screenshot of the page if ORGOPS_TEST_SCREENSHOTS names a directory.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("ORGOPS_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	png := is(b, "take a picture", chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// text returns the visible text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return evaluate[string](b, "document.querySelector("+quoted(selector)+")?.innerText ?? ''")
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil { // a string has a JSON form
		panic(err)
	}
	return string(out)
}

// press presses keys in order.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do("press a key", chromedp.KeyEvent(key))
	}
}
