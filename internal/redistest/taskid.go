package redistest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

var generationPattern = regexp.MustCompile(`-(\d+)(c|\.\d+c?)?$`)

// RelativeTaskID returns the id of a run's task with its generation counted from the
// run's first one, which is a random multiple of a million: "job-3-0", "job-3-1c".
func RelativeTaskID(id string) string {
	return generationPattern.ReplaceAllStringFunc(id, func(end string) string {
		part := generationPattern.FindStringSubmatch(end)
		n, err := strconv.Atoi(part[1])
		if err != nil {
			return end
		}
		return "-" + strconv.Itoa(n%1_000_000) + part[2]
	})
}

// TaskID returns the id of the one task in an asynq queue whose relative id is that.
func TaskID(t testing.TB, rdb redis.UniversalClient, queue, relative string) string {
	t.Helper()
	prefix := "asynq:{" + queue + "}:t:"
	keys, err := rdb.Keys(t.Context(), prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, key := range keys {
		if id := strings.TrimPrefix(key, prefix); RelativeTaskID(id) == relative {
			ids = append(ids, id)
		}
	}
	if len(ids) != 1 {
		t.Fatalf("queue %s has %d tasks %s: %q", queue, len(ids), relative, keys)
	}
	return ids[0]
}
