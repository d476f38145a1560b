package sandbox

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// formText is a leaf of a form, whose type the rules decide.
type formText string

// formList is the values of a name that is given several times, or with [] at its end;
// clients[]=a and clients=a mean the same.
type formList []formText

const (
	formPairs = 1000 // name=value pairs in one body
	formDepth = 8    // bracketed parts of one name; a claim has 3 names
)

// parseForm reads application/x-www-form-urlencoded with names in brackets:
//
//	status=verified
//	clients[]=a&clients[]=b    clients[0]=a&clients[1]=b    clients=a&clients=b
//	presentation[org.iso.18013.5.1.mDL][org.iso.18013.5.1][family_name]=true
//
// The tree's objects are map[string]any, whose members are objects, formText or formList.
// The rules decide whether clients[0] is an element or a member called 0, and whether an
// empty value is an empty string or an empty object.
func parseForm(body string) (any, error) {
	root := map[string]any{}
	pairs := 0
	for pair := range strings.SplitSeq(body, "&") {
		if pair == "" {
			continue
		}
		if pairs++; pairs > formPairs {
			return nil, fmt.Errorf("form has more than %d pairs", formPairs)
		}
		name, value, err := formPair(pair)
		if err != nil {
			return nil, err
		}
		path, list, err := formPath(name)
		if err != nil {
			return nil, err
		}
		if err := plant(root, path, list, formText(value)); err != nil {
			return nil, fmt.Errorf("form name %s: %w", capped(name), err)
		}
	}
	return root, nil
}

func formPair(pair string) (name, value string, err error) {
	name, value, _ = strings.Cut(pair, "=")
	for _, part := range []*string{&name, &value} {
		if *part, err = url.QueryUnescape(*part); err != nil {
			return "", "", errors.New("form has a bad percent escape")
		}
		if !utf8.ValidString(*part) {
			return "", "", errors.New("form is not UTF-8")
		}
	}
	return name, value, nil
}

var formName = regexp.MustCompile(`^([^\[\]]+)((?:\[[^\[\]]+\])*)(\[\])?$`)

// formPath splits a[b][c] into its parts; list is true for a[b][].
func formPath(name string) (path []string, list bool, err error) {
	m := formName.FindStringSubmatch(name)
	if m == nil {
		return nil, false, fmt.Errorf("form name %s: want name, name[part] or name[]", capped(name))
	}
	parts := strings.FieldsFunc(m[2], func(r rune) bool { return r == '[' || r == ']' })
	if len(parts) >= formDepth {
		return nil, false, fmt.Errorf("form name %s: want name[part] of at most %d parts", capped(name), formDepth)
	}
	return append([]string{m[1]}, parts...), m[3] != "", nil
}

var errTwoKinds = errors.New("given both as a value and as something that has parts")

func plant(at map[string]any, path []string, list bool, value formText) error {
	for _, part := range path[:len(path)-1] {
		switch child := at[part].(type) {
		case nil:
			next := map[string]any{}
			at[part] = next
			at = next
		case map[string]any:
			at = child
		default:
			return errTwoKinds
		}
	}
	last := path[len(path)-1]
	switch there := at[last].(type) {
	case nil:
		if list {
			at[last] = formList{value}
		} else {
			at[last] = value
		}
	case formText:
		at[last] = formList{there, value}
	case formList:
		at[last] = append(there, value)
	default:
		return errTwoKinds
	}
	return nil
}
