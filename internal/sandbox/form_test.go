package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orgops/internal/sandbox"
)

type (
	text   = sandbox.FormText
	list   = sandbox.FormList
	object = map[string]any
)

func TestParseForm(t *testing.T) {
	tests := []struct {
		name, body string
		want       any
		err        string
	}{
		{"empty", "", object{}, ""},
		{"one", "a=b", object{"a": text("b")}, ""},
		{"no equals sign", "a", object{"a": text("")}, ""},
		{"equals sign in the value", "a=b=c", object{"a": text("b=c")}, ""},
		{"escapes", "a%20b=c+d%26", object{"a b": text("c d&")}, ""},
		{"needless ampersands", "&&a=b&", object{"a": text("b")}, ""},
		{"repeated", "a=1&a=2&a=3", object{"a": list{"1", "2", "3"}}, ""},
		{"listed", "a[]=1&a[]=2", object{"a": list{"1", "2"}}, ""},
		{"listed and repeated", "a=1&a[]=2&a=3", object{"a": list{"1", "2", "3"}}, ""},
		{"numbered", "a[0]=1&a[1]=2", object{"a": object{"0": text("1"), "1": text("2")}}, ""},
		{
			"parts", "a[b.c][d]=1&a[b.c][e]=2&a[f]=",
			object{"a": object{"b.c": object{"d": text("1"), "e": text("2")}, "f": text("")}}, "",
		},
		{"parts of a list", "a[b][]=1", object{"a": object{"b": list{"1"}}}, ""},
		{"brackets escaped", "a%5Bb%5D=1", object{"a": object{"b": text("1")}}, ""},
		{
			"eight parts", "a[b][c][d][e][f][g][h]=1",
			object{
				"a": object{"b": object{"c": object{"d": object{"e": object{"f": object{"g": object{"h": text("1")}}}}}}},
			}, "",
		},
		{"nine parts", "a[b][c][d][e][f][g][h][i]=1", nil, "want name"},
		{"no name", "=1", nil, "want name"},
		{"no name before the bracket", "[a]=1", nil, "want name"},
		{"bracket not closed", "a[b=1", nil, "want name"},
		{"bracket not opened", "a]=1", nil, "want name"},
		{"bracket in brackets", "a[b[c]]=1", nil, "want name"},
		{"text behind a bracket", "a[b]c=1", nil, "want name"},
		{"part behind a list", "a[][b]=1", nil, "want name"},
		{"value and parts", "a=1&a[b]=2", nil, "both"},
		{"parts and value", "a[b]=1&a=2", nil, "both"},
		{"parts and list", "a[b]=1&a[]=2", nil, "both"},
		{"list and parts", "a[]=1&a[b]=2", nil, "both"},
		{"value and parts, deep", "a[b]=1&a[b][c]=2", nil, "both"},
		{"bad escape in a name", "%g=1", nil, "percent"},
		{"bad escape in a value", "a=%2", nil, "percent"},
		{"name not UTF-8", "%ff=1", nil, "UTF-8"},
		{"value not UTF-8", "a=\xff", nil, "UTF-8"},
		{"1,000 pairs", strings.Repeat("a=1&", 1000), nil, "-"},
		{"1,001 pairs", strings.Repeat("a=1&", 1001), nil, "more than 1000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sandbox.ParseForm(tt.body)
			switch {
			case tt.err == "-" && err == nil:
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one with %q", err, tt.err)
				}
			case err != nil:
				t.Error(err)
			default:
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// written encodes a tree as the pairs of a form.
func written(at string, v any, pairs *[]string) {
	switch v := v.(type) {
	case text:
		*pairs = append(*pairs, url.QueryEscape(at)+"="+url.QueryEscape(string(v)))
	case list:
		for _, e := range v {
			written(at+"[]", e, pairs)
		}
	case object:
		for name, child := range v {
			if at != "" {
				name = at + "[" + name + "]"
			}
			written(name, child, pairs)
		}
	default:
		panic(fmt.Sprintf("%T in a form's tree", v))
	}
}

func FuzzParseForm(f *testing.F) {
	for _, seed := range []string{
		"", "a", "status=verified&use_for_organization_discovery=true", "clients[]=a&clients[]=b",
		"clients[0]=a&clients%5B1%5D=b",
		"presentation[org.iso.18013.5.1.mDL][org.iso.18013.5.1][family_name]=true", "a[b=1", "a]=1", "a[][b]=1", "%zz",
		"a=1&a[b]=2", "a[b][]=%00&;",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		tree, err := sandbox.ParseForm(body)
		if err != nil {
			if tree != nil {
				t.Fatalf("an error and a tree: %v", tree)
			}
			return
		}
		var pairs []string
		written("", tree, &pairs)
		again, err := sandbox.ParseForm(strings.Join(pairs, "&"))
		if err != nil {
			t.Fatalf("%q, written again as %q: %v", body, pairs, err)
		}
		if diff := cmp.Diff(tree, again); diff != "" {
			t.Fatalf("%q, written again as %q:\n%s", body, pairs, diff)
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"clients":["a",1.5e3,true,null]}`, `{"a":1,"a":2}`, `{"a":{"b":[]}}`, `[1,]`, `{"a"}`, `{} {}`,
		`{"a":1}]`, `"\ud800"`, "\xff",
		goodTemplate,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := sandbox.ParseJSON(body)
		if err != nil {
			return
		}
		// An accepted body must mean the same to encoding/json.
		dec := json.NewDecoder(strings.NewReader(string(body)))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil || !json.Valid(body) {
			t.Fatalf("accepted %q: %v", body, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}
