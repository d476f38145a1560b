package console_test

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template/parse"
	"time"

	"orgops/internal/console"
	"orgops/internal/web"
	"orgops/internal/webhooks"
)

// TestPagesNameWhatExists: html/template looks for a member when it writes it, so a page whose
// template names one that was removed fails in the state that shows it, which is the one
// that an operator opens the page for.
func TestPagesNameWhatExists(t *testing.T) {
	for name, page := range console.PageTemplates() {
		t.Run(name, func(t *testing.T) {
			c := checker{t: t, page: page, data: reflect.TypeOf(console.PageData[name]), seen: map[string]bool{}}
			c.template("layout.html", reflect.TypeOf(console.PageOf(nil, web.Reader)))
		})
	}
}

// TestPagesOfEachState writes each page with everything that its data can have, with nothing,
// without each single thing, and with that alone.
func TestPagesOfEachState(t *testing.T) {
	receivers := endpoints(t)
	for name, page := range console.PageTemplates() {
		t.Run(name, func(t *testing.T) {
			write := func(state string, has func(place string) bool) (places []string) {
				data := reflect.New(reflect.TypeOf(console.PageData[name])).Elem()
				places = fill(data, "data", has, receivers)
				for _, role := range []web.Role{web.Reader, web.Support, web.Operator} {
					if err := page.ExecuteTemplate(io.Discard, "layout.html", console.PageOf(data.Interface(), role)); err != nil {
						t.Fatalf("%s: %v", state, err)
					}
				}
				return places
			}
			places := write("all of it", func(string) bool { return true })
			write("nothing", func(string) bool { return false })
			for _, one := range places {
				write("without "+one, func(place string) bool { return place != one })
				write("only "+one, func(place string) bool { return strings.HasPrefix(one+".", place+".") })
			}
		})
	}
}

// fill sets v, and all below it, as far as has permits. It returns the places that it could
// have set: "data.Tenants.Pace.Blocks".
func fill(v reflect.Value, place string, has func(place string) bool, endpoints []webhooks.Endpoint) (places []string) {
	const deepest = 8 // members below members
	if !v.CanSet() || strings.Count(place, ".") > deepest {
		return nil
	}
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		for i := range v.NumField() {
			places = append(places, fill(v.Field(i), place+"."+v.Type().Field(i).Name, has, endpoints)...)
		}
		return places
	}
	places = []string{place}
	if !has(place) {
		return places
	}
	switch {
	case v.Type() == reflect.TypeFor[[]webhooks.Endpoint](): // whose members are its own
		v.Set(reflect.ValueOf(endpoints))
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Now()))
	case v.Type() == reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(errors.New("an error")))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		places = append(places, fill(v.Elem(), place, has, endpoints)...)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			places = append(places, fill(v.Index(i), place, has, endpoints)...)
		}
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		places = append(append(places, fill(key, place, has, endpoints)...), fill(element, place, has, endpoints)...)
		v.SetMapIndex(key, element)
	case v.Kind() == reflect.String:
		v.SetString("text")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// checker follows the types through the templates of a page.
type checker struct {
	t    *testing.T
	page *template.Template
	data reflect.Type // of the page itself
	seen map[string]bool
}

// scope has the types of the dot and the variables; nil: not known.
type scope struct {
	dot  reflect.Type
	vars map[string]reflect.Type
	tree *parse.Tree
}

func (s scope) with(dot reflect.Type) scope {
	return scope{dot, maps.Clone(s.vars), s.tree}
}

func (c *checker) template(name string, dot reflect.Type) {
	key := fmt.Sprint(name, " ", dot)
	if tmpl := c.page.Lookup(name); !c.seen[key] {
		c.seen[key] = true
		c.node(scope{dot, map[string]reflect.Type{"$": dot}, tmpl.Tree}, tmpl.Tree.Root)
	}
}

func (c *checker) node(s scope, n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, one := range n.Nodes {
				c.node(s, one)
			}
		}
	case *parse.ActionNode:
		c.pipe(s, n.Pipe)
	case *parse.TemplateNode:
		c.template(n.Name, c.pipe(s, n.Pipe))
	case *parse.IfNode:
		inner := s.with(s.dot)
		c.pipe(inner, n.Pipe)
		c.node(inner, n.List)
		c.node(inner, n.ElseList)
	case *parse.WithNode:
		inner := s.with(s.dot)
		c.node(inner.with(c.pipe(inner, n.Pipe)), n.List)
		c.node(inner, n.ElseList)
	case *parse.RangeNode:
		inner := s.with(s.dot)
		inner.dot = element(c.pipe(inner, n.Pipe))
		for i, v := range n.Pipe.Decl {
			inner.vars[v.Ident[0]] = inner.dot
			if i+1 < len(n.Pipe.Decl) {
				inner.vars[v.Ident[0]] = nil // the index
			}
		}
		c.node(inner, n.List)
		c.node(s.with(s.dot), n.ElseList)
	}
}

func element(of reflect.Type) reflect.Type {
	if of == nil || of.Kind() != reflect.Slice && of.Kind() != reflect.Map {
		return nil
	}
	return of.Elem()
}

// pipe returns the type of a pipeline; nil: not known, as that of a function's result.
func (c *checker) pipe(s scope, pipe *parse.PipeNode) (result reflect.Type) {
	if pipe == nil {
		return nil
	}
	for _, command := range pipe.Cmds {
		for i, arg := range command.Args {
			if is := c.argument(s, arg); i == 0 {
				result = is
			}
		}
	}
	for _, v := range pipe.Decl {
		s.vars[v.Ident[0]] = result
	}
	return result
}

func (c *checker) argument(s scope, n parse.Node) reflect.Type {
	switch n := n.(type) {
	case *parse.DotNode:
		return s.dot
	case *parse.FieldNode:
		return c.members(s, n, s.dot, n.Ident)
	case *parse.VariableNode:
		return c.members(s, n, s.vars[n.Ident[0]], n.Ident[1:])
	case *parse.ChainNode:
		return c.members(s, n, c.argument(s, n.Node), n.Field)
	case *parse.PipeNode:
		return c.pipe(s, n)
	}
	return nil
}

// members returns the type of a member's member.
func (c *checker) members(s scope, n parse.Node, of reflect.Type, names []string) reflect.Type {
	for _, name := range names {
		var missing bool
		if of, missing = c.member(of, name); missing {
			at, text := s.tree.ErrorContext(n)
			c.t.Errorf("%s: %s: there is no %s, or its type is not known here", at, text, name)
			return nil
		}
	}
	return of
}

func (c *checker) member(of reflect.Type, name string) (is reflect.Type, missing bool) {
	if of == nil {
		return nil, true
	}
	if of == reflect.TypeOf(console.PageOf(nil, web.Reader)) && name == "Data" {
		return c.data, false
	}
	for _, receiver := range []reflect.Type{of, reflect.PointerTo(of)} {
		if method, ok := receiver.MethodByName(name); ok {
			return method.Type.Out(0), false
		}
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil, true
	}
	field, ok := of.FieldByName(name)
	return field.Type, !ok || !field.IsExported()
}
