package console_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orgops/internal/console"
)

// Hashes of "correct horse", by their costs.
const (
	hash10 = "$2a$10$ln.50o7zaivkBIukcoKdV.OKvIa6cmu1iuZZSjjL8wCOnAML3kVxa"
	hash11 = "$2b$11$367qvIrPr/1tAEzNDv85xO4IymSgnGLknlQ08ZBGEl20NRYolTF8y"
	right  = "correct horse"
)

func usersFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestUsersFile(t *testing.T) {
	const other = ": use htpasswd -nB -C 12 NAME"
	tests := []struct{ name, text, want string }{
		{"empty", "", "no users: want lines"},
		{"comments alone", "# nobody\n\n", "no users: want lines"},
		{"no colon", "alice:" + hash10 + "\nbob\n", "line 2: no colon: want name:hash"},
		{"no name", ":" + hash10, "line 1: name: want"},
		{"a name with a blank", "al ice:" + hash10, "line 1: name: want"},
		{"a name with a control character", "al\x1bice:" + hash10, "line 1: name: want"},
		{"a name too long", strings.Repeat("a", 65) + ":" + hash10, "line 1: name: want"},
		{"twice", "alice:" + hash10 + "\nalice:" + hash11, "line 2: duplicate name alice"},
		{"plain text", "alice:s3cret", "line 1: alice: not a bcrypt hash ($2y$…)" + other},
		{"SHA-1", "alice:{SHA}s3cretW6ph5Mm5Pz8GgiULbPgzG37mj9g=", "line 1: alice: SHA-1 hashes are too weak" + other},
		{"MD5", "alice:$apr1$s3cret$J2cb3Wm6BNYcKnRFqGyXe1", "line 1: alice: MD5 hashes are too weak" + other},
		{"SHA-512", "alice:$6$s3cret$x", "line 1: alice: SHA-2 hashes of crypt are not supported" + other},
		{"broken bcrypt of old", "alice:$2x" + hash10[3:], "line 1: alice: not a bcrypt hash"},
		{"cut off", "alice:" + hash10[:59], "line 1: alice: not a bcrypt hash"},
		{"more after it", "alice:" + hash10 + ":more", "line 1: alice: not a bcrypt hash"},
		{"too cheap", "alice:$2y$05" + hash10[6:], "line 1: alice: the hash has cost 5: want 10 to 14"},
		{"too dear", "alice:$2y$15" + hash10[6:], "line 1: alice: the hash has cost 15: want 10 to 14"},
		{"too long", strings.Repeat("# comment\n", 110_000), "larger than 1048576 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := usersFile(t, test.text)
			_, err := console.ReadUsers(file, slog.New(slog.DiscardHandler), time.Now)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("error %v, want one with the file and %q", err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), hash10[10:30])) {
				t.Errorf("a hash is in the error %v", err)
			}
		})
	}
	for name, text := range map[string]string{
		"of each sort":  "a:$2a$" + hash10[4:] + "\nb:$2b$" + hash10[4:] + "\nc:$2y$" + hash10[4:] + "\n",
		"of Windows":    "a:" + hash10 + "\r\nb:" + hash11 + "\r\n\r\nc:" + hash10,
		"with comments": "# those of the night\na:" + hash10 + "\n\nb@example.com:" + hash10 + "\nJürgen:" + hash11,
	} {
		t.Run(name, func(t *testing.T) {
			users, err := console.ReadUsers(usersFile(t, text), slog.New(slog.DiscardHandler), time.Now)
			if err != nil || users.Len() != 3 {
				t.Errorf("%v, error %v; want three users", users, err)
			}
		})
	}
}

func newUsers(t *testing.T, text string) *console.Users {
	t.Helper()
	users, err := console.ReadUsers(usersFile(t, text), slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return users
}

// TestTimingHidesNames checks that a wrong password costs as many rounds as an unknown name,
// for any cost of the name's own hash.
func TestTimingHidesNames(t *testing.T) {
	t.Parallel()
	const want = 1 << 11
	for _, name := range []string{"cheap", "dear", "unknown", ""} {
		users := newUsers(t, "cheap:"+hash10+"\ndear:"+hash11)
		rounds := users.CountRounds()
		p := newPages(t, func(c *console.Config) { c.Access.Users = users })
		if resp := p.do("GET", "/", basic(name, "wrong")); resp.StatusCode != 401 {
			t.Errorf("%q: status %d, want 401", name, resp.StatusCode)
		}
		if rounds() != want {
			t.Errorf("%q: %d rounds, want %d", name, rounds(), want)
		}
	}
}

// TestUsersFileChanges rewrites the file and checks that the new contents apply after a few
// seconds, also to users who signed in under the old ones.
func TestUsersFileChanges(t *testing.T) {
	t.Parallel()
	file := usersFile(t, "alice:"+hash10)
	now := time.Now()
	changed := now
	users, err := console.ReadUsers(file, slog.New(slog.DiscardHandler), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	p := newPages(t, func(c *console.Config) { c.Access.Users = users })
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		now, changed = now.Add(5*time.Second), changed.Add(time.Second)
		if err := os.Chtimes(file, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		name string
		do   func()
		want int // alice's answer
	}{
		{"at first", func() {}, 302},
		{"broken", func() { write("alice:plain") }, 302},
		{"another user", func() { write("bob:" + hash10) }, 401},
		{"again, by another hash", func() { write("alice:" + hash11) }, 302},
		{"gone", func() { _ = os.Remove(file); now = now.Add(5 * time.Second) }, 401},
		{"there again", func() { write("alice:" + hash10) }, 302},
		{"nobody in it", func() { write("# nobody\n") }, 401},
		{"then broken", func() { write("alice:plain") }, 401},
		{"there once more", func() { write("alice:" + hash10) }, 302},
		{"for everybody to write to", func() { _ = os.Chmod(file, 0o666); now = now.Add(5 * time.Second) }, 401},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			step.do()
			// Each has an address of its own, so that no attempt waits for a failed one.
			if resp := p.do("GET", "/", basic("alice", right)); resp.StatusCode != step.want {
				t.Errorf("status %d, want %d", resp.StatusCode, step.want)
			}
		})
	}
}
