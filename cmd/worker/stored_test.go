package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
)

// storedPage lists the keys in Redis, with their content and retention.
const storedPage = "../../docs/operations/stored-data.md"

// stored is a key of the table in storedPage.
type stored struct {
	name    *regexp.Regexp
	expires bool
}

// storedKeys returns the keys of the table. A key in the table that begins with a colon has
// the same prefix as the first key of its line; words in capitals match any text.
var storedKeys = sync.OnceValues(func() (all []stored, err error) {
	page, err := os.ReadFile(storedPage)
	if err != nil {
		return nil, err
	}
	quoted, word := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile("[A-Z]+")
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		prefix := ""
		for _, key := range quoted.FindAllStringSubmatch(cells[0], -1) {
			name := key[1]
			if strings.HasPrefix(name, ":") {
				name = prefix + name
			} else {
				prefix = name[:max(strings.LastIndexByte(name, ':'), 0)]
			}
			pattern := "^" + word.ReplaceAllString(regexp.QuoteMeta(name), "[^{}]+") + "$"
			all = append(all, stored{regexp.MustCompile(pattern), strings.HasPrefix(cells[3], "expires ")})
		}
	}
	return all, nil
})

// keysAreListed compares the keys of the test's Redis, at the end of the test, with the page.
func keysAreListed(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	all, err := storedKeys()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, key := range redistest.Keys(t, "*") {
			at := slices.IndexFunc(all, func(s stored) bool { return s.name.MatchString(key) })
			left, err := rdb.PTTL(context.WithoutCancel(t.Context()), key).Result()
			switch {
			case err != nil:
				t.Error(err)
			case at < 0:
				t.Errorf("key %s is in Redis, and not in the tables of %s: add it, with its content and retention", key, storedPage)
			case left > 0 && !all[at].expires || left == -1 && all[at].expires:
				t.Errorf("key %s expires in %v (-1ns: never); the tables of %s differ", key, left, storedPage)
			}
		}
	})
}

// TestStoredKeys checks that the tables have keys of each store.
func TestStoredKeys(t *testing.T) {
	all, err := storedKeys()
	if err != nil {
		t.Fatal(err)
	}
	for key, expires := range map[string]bool{
		"orgops:schema": false, "orgops:v3:{tenant:acme}:abcdefghijklmnop.12:results": false, "orgops:v3:{tenant:acme}:watch:domain:ord_1": true,
		"asynq:{acme.rows}:failed:2026-11-24": true, "asynq:{acme.webhook.crm}:t:1": false,
	} {
		at := slices.IndexFunc(all, func(s stored) bool { return s.name.MatchString(key) })
		if at < 0 || all[at].expires != expires {
			t.Errorf("%s: at %d of %d keys; want that it expires: %t", key, at, len(all), expires)
		}
	}
	for _, key := range []string{"orgops:other", "orgops:v3:{tenant:acme}:results", "orgops:v3:{tenant:acme}:abcdefghijklmnop.1:resultsx",
		"asynq:{acme.rows}:t:"} {
		if slices.ContainsFunc(all, func(s stored) bool { return s.name.MatchString(key) }) {
			t.Errorf("%s is in the tables", key)
		}
	}
}
