package customer

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"
)

// TestTextsAreInOneFile checks that the formats have no words of their own, which a translator of
// texts.tmpl would miss.
func TestTextsAreInOneFile(t *testing.T) {
	actions := regexp.MustCompile(`(?s){{.*?}}`)
	for _, name := range []string{"page.html", "html.tmpl", "markdown.tmpl", "text.tmpl"} {
		text, err := formats.ReadFile("formats/" + name)
		if err != nil {
			t.Fatal(err)
		}
		left := strings.ReplaceAll(string(actions.ReplaceAll(text, nil)), "```text", "")
		for z := html.NewTokenizer(strings.NewReader(left)); z.Next() != html.ErrorToken; {
			token := z.Token()
			if token.Type == html.TextToken && strings.ContainsFunc(token.Data, unicode.IsLetter) {
				t.Errorf("formats/%s has %q: put it into texts.tmpl", name, strings.TrimSpace(token.Data))
			}
		}
	}
	script, err := static.ReadFile("static/page.js")
	if err != nil {
		t.Fatal(err)
	}
	if label := regexp.MustCompile(`(textContent =|copyButton\() ?"\w.*`).Find(script); label != nil {
		t.Errorf("static/page.js has %s: put it into texts.tmpl", label)
	}
}
