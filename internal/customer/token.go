package customer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"orgops/internal/status"
	"orgops/internal/untrusted"
)

// errInvalid is the error of a token that opens nothing. It has no reason, which could help to
// guess one.
var errInvalid = errors.New("the link is not valid")

// claim is the content of a token.
type claim struct {
	status.DomainName

	expires time.Time // in whole seconds
	nonce   [nonceSize]byte
}

// The form of a token is the unpadded URL-safe base64 (RFC 4648, section 5) of the time as
// seconds since 1970 in 64 bits, the nonce, and tenant, organization and domain, each after its
// length in a byte; and of the HMAC-SHA-256 of purpose and these. There is no other form, and no
// field that names one.
const (
	purpose   = "orgops link of a customer, form 1\x00"
	keySize   = 32
	nonceSize = 16
	headSize  = 8 + nonceSize
)

// longestToken is more than any token: names have at most 255 bytes.
const longestToken = (headSize+3*256+sha256.Size)*4/3 + 1

// key signs tokens.
type key [keySize]byte

func (k key) mac(content []byte) []byte {
	h := hmac.New(sha256.New, k[:])
	h.Write([]byte(purpose))
	h.Write(content)
	return h.Sum(nil)
}

// seal returns the token of a claim.
func (k key) seal(c claim) (string, error) {
	content := binary.BigEndian.AppendUint64(nil, uint64(c.expires.Unix())) //nolint:gosec // it is after 1970
	content = append(content, c.nonce[:]...)
	for _, name := range []string{c.Tenant, c.Organization, c.ID} {
		if len(name) > math.MaxUint8 {
			return "",
				fmt.Errorf("%s is too long for a link: %d bytes, at most %d", untrusted.Value(name), len(name), math.MaxUint8)
		}
		content = append(append(content, byte(len(name))), name...) //nolint:gosec // its length fits
	}
	return base64.RawURLEncoding.EncodeToString(append(content, k.mac(content)...)), nil
}

// unseal returns the claim of a token that one of the keys has signed and that has not expired.
func unseal(keys []key, token string, now time.Time) (claim, error) {
	if len(token) > longestToken {
		return claim{}, errInvalid
	}
	all, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(all) < headSize+sha256.Size {
		return claim{}, errInvalid
	}
	content := all[:len(all)-sha256.Size]
	mac := all[len(all)-sha256.Size:]
	if !slices.ContainsFunc(keys, func(k key) bool { return hmac.Equal(mac, k.mac(content)) }) {
		return claim{}, errInvalid
	}
	c := claim{
		expires: time.Unix(int64(binary.BigEndian.Uint64(content)), 0), //nolint:gosec // it was signed
		nonce:   [nonceSize]byte(content[headSize-nonceSize : headSize]),
	}
	rest := content[headSize:]
	for _, name := range []*string{&c.Tenant, &c.Organization, &c.ID} {
		end := 1 + int(rest[0])
		*name = string(rest[1:end])
		rest = rest[end:]
	}
	if !now.Before(c.expires) {
		return claim{}, errInvalid
	}
	return c, nil
}

// readKeys reads the keys of files. The error never contains one.
func readKeys(files []string) ([]key, error) {
	var keys []key
	for _, file := range files {
		k, err := readKey(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func readKey(file string) (key, error) {
	f, err := os.Open(file)
	if err != nil {
		return key{}, errors.Unwrap(err) // without the file's name
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return key{}, err
	}
	if info.Mode().Perm()&0o007 != 0 && runtime.GOOS != "windows" {
		return key{}, errors.New("every user of this machine can read the key: chmod o= FILE, and replace the key")
	}
	text, err := io.ReadAll(io.LimitReader(f, 4*keySize))
	if err != nil {
		return key{}, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != keySize {
		return key{}, fmt.Errorf("want %d hexadecimal digits, as openssl rand -hex %d prints them", 2*keySize, keySize)
	}
	return key(secret), nil
}
