package ledger

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/untrusted"
)

// Subject is the object of a row, which people find by its name: a domain. The scripts that end
// executions store those that executions have read, so that the index costs no command of its own.
// A tenant has a million at most: a new one then replaces one of those that were read the longest
// ago. At maxmemory the index stays as it is. It never keeps a row from ending.
type Subject struct {
	// Name is 1 to 253 bytes, without control characters. Several subjects may have one.
	Name string
	// ID distinguishes the subjects of a tenant: 1 to 128 bytes, without control characters.
	ID string
	// At is when About was true, or the subject was found to be gone, to the second. An older one
	// neither replaces nor removes a newer one; of two in one second the one that is stored later
	// counts.
	At time.Time
	// About is for the owner of the rows: at most 1,024 bytes. nil: the subject is gone, and is
	// removed.
	About []byte
}

const (
	maxName      = 253
	maxSubjectID = 128
	maxAbout     = 1024
)

// The separators in stored names.
const (
	sep  = "\x01"
	past = "\x02"
)

func (s Subject) validate() error {
	switch {
	case !isSubjectID(s.ID):
		return fmt.Errorf("id of a subject %s: want 1 to %d bytes without control characters",
			untrusted.Value(s.ID), maxSubjectID)
	case s.About != nil && (s.Name == "" || len(s.Name) > maxName || hasControl(s.Name)):
		return fmt.Errorf("name of a subject %s: want 1 to %d bytes without control characters",
			untrusted.Value(s.Name), maxName)
	case s.At.Unix() <= 0:
		return fmt.Errorf("the time of a subject is missing, or is before 1970: %v", s.At)
	case len(s.About) > maxAbout:
		return fmt.Errorf("%d bytes about a subject: want at most %d", len(s.About), maxAbout)
	}
	return nil
}

func isSubjectID(id string) bool { return id != "" && len(id) <= maxSubjectID && !hasControl(id) }

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// args returns the subject's arguments, as lua/segment_end.lua reads them.
func (s Subject) args() []any {
	at := binary.BigEndian.AppendUint32(nil, uint32(s.At.Unix()))
	if s.About == nil {
		return []any{s.ID, "", at}
	}
	return []any{s.ID, s.Name, append(at, s.About...)}
}

// Subjects returns at most n of the tenant's subjects whose names begin with a prefix, in the order
// of their names and ids, behind the first ones that are skipped.
func (l *Ledger) Subjects(ctx context.Context, t Tenant, prefix string, skip, n int) ([]Subject, error) {
	by := &redis.ZRangeBy{Min: "[" + prefix, Max: "(" + prefix + "\xff", Offset: int64(skip), Count: int64(n)}
	return l.subjects(ctx, t, by)
}

// SubjectsNamed returns the tenant's subjects of a name as Subjects does.
func (l *Ledger) SubjectsNamed(ctx context.Context, t Tenant, name string, skip, n int) ([]Subject, error) {
	return l.Subjects(ctx, t, name+sep, skip, n)
}

// scanStep is how many subjects Redis compares in one command of SubjectsAbout: in less than a
// millisecond.
const scanStep = 1000

// literal makes a text a pattern of Redis that matches the text alone.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// SubjectsAbout returns the tenant's subjects that have a text in their About, in the order of
// their names and ids; more reports that others were left out, since there are more than most.
// Redis compares each subject of the tenant, and sends only those that have the text.
func (l *Ledger) SubjectsAbout(ctx context.Context, t Tenant, text string,
	most int) (all []Subject, more bool, err error) {
	found := map[string]Subject{} // by member: a scan may return one twice
	for cursor, begun := uint64(0), false; !begun || cursor != 0; begun = true {
		var page []string
		page, cursor, err = l.rdb.ZScan(ctx, tenantKey(t, "names"), cursor, "*"+literal.Replace(text)+"*", scanStep).Result()
		if err != nil {
			return nil, false, fmt.Errorf("tenant %s: search subjects: %w", t, err)
		}
		for pair := range slices.Chunk(page, 2) { // a member, and its score
			s, err := parseSubject(t, pair[0])
			if err != nil {
				return nil, false, err
			}
			if bytes.Contains(s.About, []byte(text)) { // not in its name or id alone
				found[pair[0]] = s
			}
		}
		if len(found) > most {
			more = true
			break
		}
	}
	for _, member := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[member])
	}
	return all[:min(len(all), most)], more, nil
}

// Subject returns the tenant's subject of an id, or [ErrNotFound].
func (l *Ledger) Subject(ctx context.Context, t Tenant, id string) (Subject, error) {
	if !isSubjectID(id) {
		return Subject{}, ErrNotFound
	}
	all, err := l.rdb.HGet(ctx, tenantKey(t, "ids"), idField(id)).Result()
	if err != nil && !absent(err) {
		return Subject{}, fmt.Errorf("tenant %s: read subjects: %w", t, err)
	}
	_, behind, ok := strings.Cut(all, sep+id+past)
	name, _, _ := strings.Cut(behind, sep)
	if !ok {
		return Subject{}, ErrNotFound
	}
	first := name + sep + id
	found, err := l.subjects(ctx, t, &redis.ZRangeBy{Min: "[" + first + sep, Max: "(" + first + past, Count: 1})
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Subject{}, err
	}
	return found[0], nil
}

// ForgetNames removes the index of names of a tenant. Rows that are executed fill it again.
func (l *Ledger) ForgetNames(ctx context.Context, t Tenant) error {
	if err := l.rdb.Unlink(ctx, tenantKey(t, "names"), tenantKey(t, "ids")).Err(); err != nil {
		return fmt.Errorf("tenant %s: remove the index of names: %w", t, err)
	}
	return nil
}

// idField is the field of ids that has an id, as lua/named.lua computes it.
func idField(id string) string {
	sum := sha1.Sum([]byte(id))
	return fmt.Sprintf("%x", sum[:2])
}

func (l *Ledger) subjects(ctx context.Context, t Tenant, by *redis.ZRangeBy) ([]Subject, error) {
	members, err := l.rdb.ZRangeByLex(ctx, tenantKey(t, "names"), by).Result()
	if err != nil {
		return nil, fmt.Errorf("tenant %s: read subjects: %w", t, err)
	}
	all := make([]Subject, len(members))
	for i, member := range members {
		if all[i], err = parseSubject(t, member); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// parseSubject reads an entry of the index.
func parseSubject(t Tenant, member string) (Subject, error) {
	name, rest, _ := strings.Cut(member, sep)
	id, about, _ := strings.Cut(rest, sep)
	if len(about) < 4 {
		return Subject{}, fmt.Errorf("tenant %s: the subject %s is damaged", t, untrusted.Value(name))
	}
	at := time.Unix(int64(binary.BigEndian.Uint32([]byte(about))), 0).UTC()
	return Subject{Name: name, ID: id, At: at, About: []byte(about[4:])}, nil
}
