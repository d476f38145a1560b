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

// Users are names and hashes of passwords from a file, which is read again when it changes. Its
// methods may be called from any goroutine.
type Users struct{ list *serving.Reloaded[*userList] }

// ReadUsers reads a file of lines name:hash, as htpasswd -B writes it; empty lines and those
// that begin with # are skipped. If a line of a changed file is invalid, that is logged, and
// the former users stay in force; if the file has no users, is gone, or is writable for
// everyone, all sign-ins are refused, since that may be how a user was removed. Errors name the
// line, never a hash.
func ReadUsers(file string, logger *slog.Logger, now func() time.Time) (*Users, error) {
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
	started = true // from here on Get calls the function, once at a time
	return &Users{list}, nil
}

// Len returns the number of users.
func (u *Users) Len() int { return len(u.list.Get().hashes) }

// Bounds of a file, and of the cost of each sign-in.
const (
	maxUsersFile = 1 << 20
	// minCost is the recommended least cost (OWASP, Password Storage Cheat Sheet).
	minCost = 10
	// maxCost takes a second of a processor, which tasks need too.
	maxCost = 14
)

// loadUsers reads the file. A user of the machine who may write to it can sign in, so it must
// not be writable for everyone.
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

// userList is one version of the file, with the sign-ins that it has admitted.
type userList struct {
	hashes map[string]string // by name
	cost   int               // the highest of any hash
	// compare is bcrypt's.
	compare func(hash, password []byte) error

	key [sha256.Size]byte // of sums
	mu  sync.Mutex
	// sums has for each name the HMAC of the correct password, so that pages that are
	// requested every two seconds do not take a bcrypt each.
	sums map[string][]byte
}

// lineError is an invalid line: a mistake in editing the file.
type lineError struct {
	number int
	err    error
}

func (e lineError) Error() string { return fmt.Sprintf("line %d: %v", e.number, e.err) }

// newUserList returns a list without users. The cost is that of an unknown name.
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

// costOf returns the cost of a valid hash: the binary logarithm of its rounds.
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

// unknownHash returns a hash of that cost, of which no password is known.
func unknownHash(cost int) []byte {
	return fmt.Appendf(nil, "$2a$%02d$%s", cost, strings.Repeat("x", 53))
}

// verified reports whether this password was correct before.
func (l *userList) verified(name, password string) bool {
	l.mu.Lock()
	sum := l.sums[name]
	l.mu.Unlock()
	return hmac.Equal(sum, l.sum(name, password)) // false without a sum
}

// verify reports whether this is the password, and stores that it is. A wrong one takes as
// long as an unknown name does: the rounds of the highest cost.
func (l *userList) verify(name, password string) bool {
	hash := []byte(l.hashes[name])
	if len(hash) == 0 {
		_ = l.compare(unknownHash(l.cost), []byte(password))
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
		_ = l.compare(unknownHash(cost), []byte(password))
	}
	return false
}

func (l *userList) sum(name, password string) []byte {
	mac := hmac.New(sha256.New, l.key[:])
	fmt.Fprintf(mac, "%d:%s%s", len(name), name, password)
	return mac.Sum(nil)
}
