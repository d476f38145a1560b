package surface

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Text returns a page as text: headings, paragraphs, the cells of tables, links with their
// targets, and forms with their fields and buttons. Of a page with a main part it is that part,
// unless whole is set.
func Text(page string, whole bool) string {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return page
	}
	p := &pageText{}
	if title := first(root, atom.Title); title != nil {
		p.line("title: " + textOf(title))
	}
	body := first(root, atom.Body)
	if main := first(root, atom.Main); main != nil && !whole {
		body = main
	}
	p.block(body)
	p.end()
	return p.out.String()
}

// Notice returns the text of the page's notice, which says what an action has done.
func Notice(page string) string {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return page
	}
	p := &pageText{}
	for n := range root.Descendants() {
		class, _ := attribute(n, "class")
		if role, _ := attribute(n, "role"); role == "status" && strings.HasPrefix(class, "banner") {
			p.inline("notice: ")
			p.block(n)
			p.end()
		}
	}
	return p.out.String()
}

// pageText is the text of a page so far.
type pageText struct {
	out     strings.Builder
	present strings.Builder // the line that is being written
	indent  int
	cells   int // of tables, around what is written: nothing in them ends a line
}

// line writes a line of its own.
func (p *pageText) line(text string) {
	p.end()
	p.inline(text)
	p.end()
}

// inline adds a text to the present line.
func (p *pageText) inline(text string) { p.present.WriteString(text) }

// end ends the present line.
func (p *pageText) end() {
	if p.cells > 0 {
		p.inline(" ")
		return
	}
	text := strings.Join(strings.Fields(p.present.String()), " ")
	p.present.Reset()
	if text != "" {
		fmt.Fprintf(&p.out, "%s%s\n", strings.Repeat("  ", p.indent), text)
	}
}

// headings are their marks.
var headings = map[atom.Atom]string{atom.H1: "# ", atom.H2: "## ", atom.H3: "### ", atom.H4: "#### "}

// block writes the children of an element.
func (p *pageText) block(n *html.Node) {
	for child := range n.ChildNodes() {
		p.node(child)
	}
}

// node writes a node.
func (p *pageText) node(n *html.Node) {
	// A reader of the page sees text and elements. Hidden ones, comments and the doctype are left out.
	if n.Type == html.TextNode {
		p.inline(n.Data)
		return
	}
	if _, hidden := attribute(n, "hidden"); hidden || n.Type != html.ElementNode {
		return
	}

	// Marks show the elements that a reader tells apart, as in Markdown where it has one. The elements
	// that flow with the text are listed: all others are blocks, with lines of their own.
	label, _ := attribute(n, "aria-label")
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Datalist, atom.Head:
	case atom.H1, atom.H2, atom.H3, atom.H4:
		p.end()
		p.inline(headings[n.DataAtom])
		p.block(n)
		p.end()
	case atom.A:
		target, _ := attribute(n, "href")
		target, _, _ = strings.Cut(target, "&body=") // of a mail: text that is on the page too
		p.inline("[")
		p.block(n)
		p.inline("](" + target + ")")
	case atom.Img, atom.Svg, atom.Progress:
		p.inline(" {" + n.Data + ": " + label + "} ")
	case atom.Br:
		p.inline(" / ")
	case atom.Td, atom.Th:
		p.inline(" | ")
		p.cells++
		p.block(n)
		p.cells--
	case atom.Dt:
		p.end()
		p.block(n)
		p.inline(": ")
	case atom.Dd:
		p.block(n)
		p.end()
	case atom.Li:
		p.end()
		p.inline("- ")
		p.block(n)
		p.end()
	case atom.Summary:
		p.end()
		p.inline("> ")
		p.block(n)
		p.end()
	case atom.Form:
		p.form(n)
	case atom.Input, atom.Textarea:
		p.field(n)
	case atom.Select:
		name, _ := attribute(n, "name")
		p.inline(" {choose " + name + ":")
		for option := range n.Descendants() {
			if option.DataAtom == atom.Option {
				p.inline(" (" + textOf(option) + ")")
			}
		}
		p.inline("} ")
	case atom.Button:
		p.button(n)
	case atom.Pre:
		p.end()
		for line := range strings.Lines(textOf(n)) {
			p.out.WriteString(strings.TrimRight(strings.Repeat("  ", p.indent)+"    "+line, "\n ") + "\n")
		}
	case atom.Span, atom.Code, atom.Strong, atom.Small, atom.Label, atom.Em, atom.B, atom.I, atom.Mark, atom.Time,
		atom.Wbr:
		p.block(n)
	default:
		p.end()
		p.block(n)
		p.end()
	}
}

// form writes a form: where it goes, and what is in it.
func (p *pageText) form(n *html.Node) {
	method, _ := attribute(n, "method")
	action, _ := attribute(n, "action")
	p.line("form " + strings.ToUpper(method) + " " + action)
	p.indent++
	p.block(n)
	p.end()
	p.indent--
}

// field writes a field of a form with its value.
func (p *pageText) field(n *html.Node) {
	kind, _ := attribute(n, "type")
	name, _ := attribute(n, "name")
	value, _ := attribute(n, "value")
	if kind == "" {
		kind = "text"
	}
	mark := ""
	if _, checked := attribute(n, "checked"); checked {
		mark = ", checked"
	}
	p.inline(fmt.Sprintf(" {%s %s=%q%s} ", kind, name, value, mark))
}

// button writes a button, and where it goes if that is elsewhere than its form.
func (p *pageText) button(n *html.Node) {
	p.inline(" <")
	p.block(n)
	if action, there := attribute(n, "formaction"); there {
		p.inline(" → " + action)
	}
	if _, disabled := attribute(n, "disabled"); disabled {
		p.inline(" (disabled)")
	}
	p.inline("> ")
}

// attribute returns an attribute of an element, and whether it is there.
func attribute(n *html.Node, name string) (value string, there bool) {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return "", false
	}
	return n.Attr[i].Val, true
}

// first returns the first element of a kind; nil: there is none.
func first(root *html.Node, kind atom.Atom) *html.Node {
	for n := range root.Descendants() {
		if n.DataAtom == kind {
			return n
		}
	}
	return nil
}

// textOf returns the text of an element and those in it.
func textOf(root *html.Node) string {
	var out strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			out.WriteString(n.Data)
		}
	}
	return out.String()
}
