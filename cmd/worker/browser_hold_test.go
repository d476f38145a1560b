//go:build browser

package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// shifts adds up the layout shifts of a page that no input of the user has caused.
const shifts = `new Promise((resolve) => {
  window.shifted = 0;
  window.watchedSince = performance.now();
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifted += one.value;
  }).observe({type: "layout-shift"});
  resolve(true);
})`

// holdsStill checks that the rows of a busy run do not move under the reader for fifteen seconds,
// while its numbers go on, and that a button shows the new rows.
func (o operated) holdsStill(t *testing.T, b *browser) {
	tab := b.tab(t)
	for _, l := range []look{{1280, 800, "light"}, {390, 844, "light"}} {
		tab.as(l)
		for _, list := range []string{"#now", "#row-list"} {
			where := fmt.Sprintf("%s at %s, scrolled to %s", runPath(slowRun), l, list)
			tab.open(runPath(slowRun)+"?outcome=open", "#row-list tr")
			tab.do("scroll", chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).scrollIntoView()`, list)))
			const ids = `[...document.querySelectorAll("#row-list tr")].map((row) => row.id)`
			const bar = `1000 - document.querySelector("#now .bar .open").width.baseVal.value`
			before, value := evaluate[[]string](tab, ids), evaluate[float64](tab, bar)
			evaluate[bool](tab, shifts)
			tab.until("fifteen seconds have passed", `performance.now() - window.watchedSince > 15000`)
			tab.until("the numbers go on", fmt.Sprintf("%s > %f", bar, value))
			if sum := evaluate[float64](tab, "window.shifted"); sum > 0.1 {
				t.Errorf("%s: layout shifts of %.3f in fifteen seconds, want 0.1 at most", where, sum)
			}
			if list == "#now" {
				continue
			}
			if after := evaluate[[]string](tab, ids); !slices.Equal(before, after) {
				t.Errorf("%s: rows %v, were %v", where, after, before)
			}
			tab.until("new rows are offered", `document.querySelector("#news")?.hidden === false`)
			tab.picture("held-" + l.String())
			tab.do("show them", chromedp.Click(chromedp.CSS("#news")))
			tab.until("other rows are shown", fmt.Sprintf(`document.querySelector("#row-list tr").id !== %q`, before[0]))
		}
	}
}

// roomy checks that links can be hit on a phone, and that a list of rows is not endless there.
func (b *tab) roomy(where string) {
	b.t.Helper()
	small := evaluate[[]string](b, `innerWidth > 500 ? [] : [...document.querySelectorAll("a")].filter((a) => {
  const box = a.getBoundingClientRect();
  return box.height > 0 && box.height < 24 && !a.matches(".skip");
}).map((a) => a.outerHTML)`)
	if len(small) > 0 {
		b.t.Errorf("%s: links of less than 24 px: %q", where, small)
	}
	if row := evaluate[float64](b, `innerWidth > 500 ? 0 : (() => {
  const rows = document.querySelectorAll("#row-list tr"), list = document.querySelector("#row-list");
  return rows.length === 0 ? 0 : list.getBoundingClientRect().height / rows.length;
})()`); row > 120 {
		b.t.Errorf("%s: a row takes %.0f px, so that 50 take more than 6,000", where, row)
	}
}
