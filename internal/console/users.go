package console

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"orgops/internal/serving"
)

// Users are names and passwords' hashes from a file, which is read again when it
// changes. Its methods may be called from any goroutine.
type Users struct{ list *serving.Reloaded[*userList] }

// ReadUsers reads a file of lines name:hash, as htpasswd -B writes it; empty lines
// and those that begin with # say nothing. Where a line of a changed file cannot be
// used, the logger is told, and what it held before stays in force; where it has nobody
// in it, is gone, or can be written by everybody, nobody is let in, since that may be
// how somebody was taken out. Errors name the line, never a hash.
func ReadUsers(file string, logger *slog.Logger) (*Users, error) {
	return readUsers(file, logger, time.Now)
}

func readUsers(file string, logger *slog.Logger, now func() time.Time) (*Users, error) {
	started := false
	list, err := serving.Read(func() (*userList, error) {
		list, err := loadUsers(file)
		if _, slip := errors.AsType[lineError](err); started && err != nil && !slip {
			logger.Error("sign-in disabled: the users file is not usable", "error", err)
			return newUserList(), nil
		}
		return list, err
	}, logger, now, file)
	if err != nil {
		return nil, err
	}
	started = true // what runs from here on runs one at a time, by Get
	return &Users{list}, nil
}

// Len is how many there are.
func (u *Users) Len() int { return len(u.list.Get().hashes) }

// Bounds of a file, and of what each sign-in may cost this process.
const (
	maxUsersFile = 1 << 20
	// minCost is what is asked for today (OWASP, Password Storage Cheat Sheet).
	minCost = 10
	// maxCost takes a second of a processor, which the tenants' tasks need too.
	maxCost = 14
)

// loadUsers reads the file. Whoever may write to it may sign in, so that it is not to
// be everybody.
func loadUsers(file string) (*userList, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o002 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s: every user of this machine can write to it and add a user: chmod o-w", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxUsersFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxUsersFile {
		return nil, fmt.Errorf("%s: larger than %d bytes: want lines of name:hash", file, maxUsersFile)
	}
	list, err := parseUsers(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// userList is what one version of the file holds, and who has signed in by it.
type userList struct {
	hashes map[string]string // by name
	cost   int               // the highest of any hash
	// compare is bcrypt's.
	compare func(hash, password []byte) error

	key [sha256.Size]byte // of sums
	mu  sync.Mutex
	// sums has of each name the HMAC of the password that was found right, so that
	// pages which ask every two seconds do not cost a bcrypt each.
	sums map[string][]byte
}

// lineError is a line that is none of a user: a slip in editing the file.
type lineError struct {
	number int
	err    error
}

func (e lineError) Error() string { return fmt.Sprintf("line %d: %v", e.number, e.err) }

// newUserList is a list with nobody in it. The cost is what an unknown name takes then.
func newUserList() *userList {
	list := &userList{hashes: map[string]string{}, cost: minCost, sums: map[string][]byte{}, compare: bcrypt.CompareHashAndPassword}
	_, _ = rand.Read(list.key[:]) // it never fails
	return list
}

func parseUsers(text []byte) (*userList, error) {
	list := newUserList()
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if err := list.add(strings.TrimRight(string(line), "\r\n")); err != nil {
			return nil, lineError{number, err}
		}
	}
	if len(list.hashes) == 0 {
		return nil, errors.New("no users: want lines of name:hash, as htpasswd -nB NAME prints")
	}
	return list, nil
}

var (
	userPattern = regexp.MustCompile(`^[\p{L}\p{N}_.@+-]{1,64}$`)
	hashPattern = regexp.MustCompile(`^\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}$`)
)

func (l *userList) add(line string) error {
	if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	name, hash, found := strings.Cut(line, ":")
	switch {
	case !found:
		return errors.New("no colon: want name:hash, as htpasswd -nB NAME prints")
	case !userPattern.MatchString(name):
		return errors.New("name: want 1 to 64 letters, digits, _, ., @, + or -")
	case l.hashes[name] != "":
		return fmt.Errorf("duplicate name %s", name)
	}
	cost, err := costOf(hash)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l.hashes[name], l.cost = hash, max(l.cost, cost)
	return nil
}

// costOf is the cost of a hash that can be used: the binary logarithm of its rounds.
func costOf(hash string) (int, error) {
	const instead = ": use htpasswd -nB -C 12 NAME"
	switch {
	case strings.HasPrefix(hash, "{SHA}"):
		return 0, errors.New("SHA-1 hashes are too weak" + instead)
	case strings.HasPrefix(hash, "$apr1$"), strings.HasPrefix(hash, "$1$"):
		return 0, errors.New("MD5 hashes are too weak" + instead)
	case strings.HasPrefix(hash, "$5$"), strings.HasPrefix(hash, "$6$"):
		return 0, errors.New("SHA-2 hashes of crypt are not supported" + instead)
	}
	parts := hashPattern.FindStringSubmatch(hash)
	if parts == nil {
		return 0, errors.New("not a bcrypt hash ($2y$…)" + instead)
	}
	cost, _ := strconv.Atoi(parts[1]) // two digits
	if cost < minCost || cost > maxCost {
		return 0, fmt.Errorf("the hash has cost %d: want %d to %d%s", cost, minCost, maxCost, instead)
	}
	return cost, nil
}

// nobodys is a hash of that cost which no password is known to have.
func nobodys(cost int) []byte {
	return fmt.Appendf(nil, "$2a$%02d$%s", cost, strings.Repeat("x", 53))
}

// remembers says whether this password was found right before.
func (l *userList) remembers(name, password string) bool {
	l.mu.Lock()
	sum := l.sums[name]
	l.mu.Unlock()
	return hmac.Equal(sum, l.sum(name, password)) // never, of none
}

// verify says whether this is the password, and remembers that it is. A wrong one
// takes as long as an unknown name does: the rounds of the highest cost.
func (l *userList) verify(name, password string) bool {
	hash := []byte(l.hashes[name])
	if len(hash) == 0 {
		_ = l.compare(nobodys(l.cost), []byte(password))
		return false
	}
	if l.compare(hash, []byte(password)) == nil {
		l.mu.Lock()
		l.sums[name] = l.sum(name, password)
		l.mu.Unlock()
		return true
	}
	// Each cost takes twice the rounds of the one below: 2^c + (2^c + … + 2^(max-1)) = 2^max.
	for cost, _ := bcrypt.Cost(hash); cost < l.cost; cost++ {
		_ = l.compare(nobodys(cost), []byte(password))
	}
	return false
}

func (l *userList) sum(name, password string) []byte {
	mac := hmac.New(sha256.New, l.key[:])
	fmt.Fprintf(mac, "%d:%s%s", len(name), name, password)
	return mac.Sum(nil)
}
