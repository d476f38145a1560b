package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/untrusted"
	"orgops/tasks"
)

// Role is what a user may do.
type Role string

// The roles. The routes of a [Front] say what each of them means.
const (
	Reader    Role = "reader"    // sees the pages
	Support   Role = "support"   // finds one domain, and checks it
	Operator  Role = "operator"  // sees the pages and acts
	Submitter Role = "submitter" // submits rows over HTTP
	Customer  Role = "customer"  // of one or more organizations
	// Anybody is the role of a route that requires no sign-in. No user has it.
	Anybody Role = "anybody"
)

// Roles are the roles that an entry can have.
var Roles = []Role{Reader, Support, Operator, Submitter, Customer}

// Link is the name in which rows are submitted by those who have a link to a domain's page.
const Link = "link"

// reserved reports whether nobody may have the name: rows that are submitted without a sign-in are
// its, and a run belongs to the name that has submitted it.
func reserved(name string) bool { return name == string(Anybody) || name == Link }

// all in a list means all tenants, organizations or kinds.
const all = "*"

// User is an entry of the access file, without its token. Entries of one name are one user, so that
// a token can be replaced by another without a gap.
type User struct {
	Name          string   `yaml:"name"`
	Role          Role     `yaml:"role"`
	Tenants       []string `yaml:"tenants,flow"`
	Organizations []string `yaml:"organizations,flow,omitempty"` // empty: all
	Kinds         []string `yaml:"kinds,flow,omitempty"`         // of rows that a submitter submits
	RowsADay      int64    `yaml:"rows_a_day,omitempty"`         // of a submitter, in a UTC day; 0: not limited
}

// Unsigned returns the user of requests without a sign-in, whose role that is.
func Unsigned(role Role) User {
	return User{Name: string(Anybody), Role: role, Tenants: []string{all}, Kinds: []string{all}}
}

func includes(list []string, name string) bool {
	return slices.Contains(list, name) || slices.Contains(list, all)
}

// MayTenant reports whether the entry has the tenant. Package view asks, which decides whose
// something is.
func (u User) MayTenant(name string) bool { return includes(u.Tenants, name) }

// MayOrganization reports whether the entry has the organization, or none; "" is that of rows
// without one. Package view asks, as for a tenant.
func (u User) MayOrganization(id string) bool {
	return len(u.Organizations) == 0 || includes(u.Organizations, id)
}

// MayKind reports whether the user may submit rows of the kind.
func (u User) MayKind(name string) bool { return includes(u.Kinds, name) }

// Everywhere reports whether the user is limited neither to tenants nor to organizations.
func (u User) Everywhere() bool { return slices.Contains(u.Tenants, all) && u.MayOrganization(all) }

// Check returns an error for an entry that the file may not have.
func (u User) Check() error {
	switch {
	case !namePattern.MatchString(u.Name) || reserved(u.Name):
		return fmt.Errorf("name: want 1 to 64 letters, digits, _, ., @, + or -, and neither %s nor %s, got %s",
			Anybody, Link, untrusted.Value(u.Name))
	case !slices.Contains(Roles, u.Role):
		return fmt.Errorf("role: want one of %s, got %s", roleNames(Roles), untrusted.Value(u.Role))
	case len(u.Tenants) == 0:
		return errors.New(`tenants: want a list such as [default], or ["*"]`)
	case u.Role == Submitter && len(u.Kinds) == 0:
		return errors.New(`kinds: want a list such as [domain:verify], or ["*"]`)
	case u.Role == Customer && (len(u.Organizations) == 0 || slices.Contains(u.Organizations, all)):
		return errors.New("organizations: a customer needs the list of its own")
	case u.RowsADay < 0:
		return fmt.Errorf("rows_a_day: want 1 or more, got %d", u.RowsADay)
	}
	for _, list := range []struct {
		member string
		set    bool
		names  []string
		check  func(string) error
		roles  []Role // of entries that may have it
	}{
		{"tenants", true, u.Tenants, ids.CheckTenant, Roles},
		{"organizations", len(u.Organizations) > 0, u.Organizations, tasks.CheckOrganization,
			[]Role{Support, Submitter, Customer}},
		{"kinds", len(u.Kinds) > 0, u.Kinds, checkKind, []Role{Submitter}},
		{"rows_a_day", u.RowsADay > 0, nil, nil, []Role{Submitter}},
	} {
		if list.set && !slices.Contains(list.roles, u.Role) {
			return fmt.Errorf("%s: is only for the roles %s: the others see whole runs", list.member, roleNames(list.roles))
		}
		for _, name := range list.names {
			if err := list.check(name); err != nil && name != all {
				return fmt.Errorf("%s: %w", list.member, err)
			}
		}
	}
	return nil
}

var namePattern = regexp.MustCompile(`^[\p{L}\p{N}_.@+-]{1,64}$`)

func roleNames(roles []Role) string {
	var names []string
	for _, role := range roles {
		names = append(names, string(role))
	}
	return strings.Join(names, ", ")
}

// checkKind refuses kinds that nobody submits.
func checkKind(name string) error {
	var names []string
	for _, kind := range tasks.Kinds() {
		if kind.Name == name {
			return nil
		}
		names = append(names, kind.Name)
	}
	return fmt.Errorf("unknown kind %s; known kinds: %s", untrusted.Value(name), strings.Join(names, ", "))
}

// tokenPattern is the form of a token. Other texts are refused before anything is hashed.
var tokenPattern = regexp.MustCompile(`^orgops_[0-9a-f]{64}$`)

// sumOf returns the SHA-256 by which the file knows a token. It has no salt: no table has 256
// random bits.
func sumOf(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// entry is an entry of the file. YAML reads JSON too.
type entry struct {
	User `yaml:",inline"`

	SHA256 string `yaml:"sha256"`
}

// NewEntry returns a new token of the user, and the entry with its hash, as lines that can be
// appended to the file.
func NewEntry(u User) (token, lines string, err error) {
	if err := u.Check(); err != nil {
		return "", "", err
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	token = "orgops_" + hex.EncodeToString(random)
	sum := sumOf(token)
	text, err := yaml.Marshal([]entry{{User: u, SHA256: hex.EncodeToString(sum[:])}})
	return token, string(text), err
}

// Access is an access file, which is read again when it changes: a list of entries with name, role,
// tenants, sha256 and the limits of [User]. Its methods may be called from any goroutine.
type Access struct {
	users *Reloaded[map[[sha256.Size]byte]User]
}

// ReadAccess reads the file for the first time. If an entry of a changed file is invalid, that is
// logged and the former entries stay in force; if the file is gone, empty, or writable for every
// user of the machine, nobody gets in, since that may be how a user was removed, or added. Errors
// name the line, never a hash.
func ReadAccess(file string, log *slog.Logger, now func() time.Time) (*Access, error) {
	started := false
	users, err := Read(func() (map[[sha256.Size]byte]User, error) {
		users, err := loadAccess(file)
		if started && err != nil && !errors.Is(err, errEntry) {
			return nil, &WithoutValue{fmt.Errorf("nobody has access: the access file is not usable: %w", err)}
		}
		return users, err
	}, log, now, file)
	if err != nil {
		return nil, err
	}
	started = true // from here on the function is called by Get, once at a time
	return &Access{users}, nil
}

// User returns the user of a token.
func (a *Access) User(token string) (User, bool) {
	if !tokenPattern.MatchString(token) {
		return User{}, false
	}
	u, known := a.users.Get()[sumOf(token)]
	return u, known
}

// Len returns the number of entries.
func (a *Access) Len() int { return len(a.users.Get()) }

// errEntry is the error of a file that somebody has made a mistake in.
var errEntry = errors.New("invalid entry")

// maxAccessFile is some ten thousand entries.
const maxAccessFile = 4 << 20

// loadAccess reads the file. A user of the machine who may write to it could add an entry.
func loadAccess(file string) (map[[sha256.Size]byte]User, error) {
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
		return nil, fmt.Errorf("%s: every user of this machine can write to it and add an entry: chmod o-w", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAccessFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxAccessFile:
		return nil, fmt.Errorf("%s: %w: larger than %d bytes", file, errEntry, maxAccessFile)
	}
	var entries []entry
	lines, err := cli.ReadYAML(text, "", &entries)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", file, errEntry, err)
	}
	users := map[[sha256.Size]byte]User{}
	for i, one := range entries {
		err := one.Check()
		sum, notHex := hex.DecodeString(one.SHA256)
		if err == nil && (notHex != nil || len(sum) != sha256.Size) {
			err = errors.New("sha256: want the SHA-256 of a token, 64 hexadecimal digits, as enqueue access new prints it")
		}
		if err == nil && users[[sha256.Size]byte(sum)].Name != "" {
			err = errors.New("sha256: another entry has the same hash")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: line %d: %w", file, errEntry, lines[i], err)
		}
		users[[sha256.Size]byte(sum)] = one.User
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("%s: no entries: enqueue access new prints one", file)
	}
	return users, nil
}
