package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"orgops/internal/redistest"
)

// memory is the content of keys of a Redis that has lost its last writes.
type memory map[string]any

// list is the content of a list.
type list []string

// remember returns the content of all keys.
func remember(t testing.TB, rdb redis.Cmdable) memory {
	t.Helper()
	m := memory{}
	for _, key := range redistest.Keys(t, "orgops:*") {
		kind, err := rdb.Type(t.Context(), key).Result()
		if err == nil {
			switch kind {
			case "string":
				m[key], err = rdb.Get(t.Context(), key).Result()
			case "hash":
				m[key], err = rdb.HGetAll(t.Context(), key).Result()
			case "zset":
				m[key], err = rdb.ZRangeWithScores(t.Context(), key, 0, -1).Result()
			case "list":
				var values []string
				values, err = rdb.LRange(t.Context(), key, 0, -1).Result()
				m[key] = list(values)
			case "set":
				m[key], err = rdb.SMembers(t.Context(), key).Result()
			case "none": // expired meanwhile
			default:
				t.Fatalf("%s is a %s", key, kind)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// restore restores the content of the keys that contain the text.
func (m memory) restore(t testing.TB, rdb redis.Cmdable, text string) {
	t.Helper()
	for _, key := range redistest.Keys(t, "orgops:*") {
		if strings.Contains(key, text) {
			if err := rdb.Del(t.Context(), key).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for key, value := range m {
		if !strings.Contains(key, text) {
			continue
		}
		var err error
		switch v := value.(type) {
		case string:
			err = rdb.Set(t.Context(), key, v, 0).Err()
		case map[string]string:
			for part := range slices.Chunk(flatten(v), 1000) {
				err = rdb.HSet(t.Context(), key, part...).Err()
			}
		case []redis.Z:
			err = rdb.ZAdd(t.Context(), key, v...).Err()
		case list:
			err = rdb.RPush(t.Context(), key, []string(v)).Err()
		case []string:
			err = rdb.SAdd(t.Context(), key, v).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func flatten(hash map[string]string) []any {
	var flat []any
	for field, value := range hash {
		flat = append(flat, field, value)
	}
	return flat
}
