package surface

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// content is the content of a database.
type content []entry

// entry is a key with its value.
type entry struct {
	key, kind, text string
	hash            []string // fields and values
	list            []string // or set
	sorted          map[string]float64
	stream          []miniredis.StreamEntry
	ttl             time.Duration
}

// copyOf copies a database. A type of keys that it does not know fails the test.
func copyOf(t *testing.T, db *miniredis.RedisDB) (all content) {
	t.Helper()
	for _, key := range db.Keys() {
		e := entry{key: key, kind: db.Type(key), ttl: db.TTL(key)}

		// Lists and sorted sets are the database's own: later changes must not reach the copy.
		var err error
		switch e.kind {
		case "string":
			e.text, err = db.Get(key)
		case "hash":
			var fields []string
			fields, err = db.HKeys(key)
			for _, field := range fields {
				e.hash = append(e.hash, field, db.HGet(key, field))
			}
		case "list":
			e.list, err = db.List(key)
			e.list = slices.Clone(e.list)
		case "set":
			e.list, err = db.Members(key)
		case "zset":
			var sorted map[string]float64
			sorted, err = db.SortedSet(key)
			e.sorted = maps.Clone(sorted)
		case "stream":
			e.stream, err = db.Stream(key)
		default:
			t.Fatalf("key %s has the type %s, which is not copied", key, e.kind)
		}
		if err != nil {
			t.Fatalf("copy key %s: %v", key, err)
		}
		all = append(all, e)
	}
	return all
}

// restore stores the content in an empty database.
func (c content) restore(t *testing.T, db *miniredis.RedisDB) {
	t.Helper()
	for _, e := range c {
		// These methods add to the value that is there: that is why the database is empty.
		var err error
		switch e.kind {
		case "string":
			err = db.Set(e.key, e.text)
		case "hash":
			db.HSet(e.key, e.hash...)
		case "list":
			_, err = db.Push(e.key, e.list...)
		case "set":
			_, err = db.SetAdd(e.key, e.list...)
		case "zset":
			for member, score := range e.sorted {
				if _, failed := db.ZAdd(e.key, score, member); failed != nil {
					err = failed
				}
			}
		case "stream":
			for _, one := range e.stream {
				if _, failed := db.XAdd(e.key, one.ID, one.Values); failed != nil {
					err = failed
				}
			}
		}
		if err != nil {
			t.Fatalf("restore key %s: %v", e.key, err)
		}

		// The time to live comes last: a method that stores a value may remove it.
		if e.ttl > 0 {
			db.SetTTL(e.key, e.ttl)
		}
	}
}
