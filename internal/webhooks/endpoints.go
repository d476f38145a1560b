package webhooks

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/events"
	"orgops/internal/ids"
	"orgops/internal/untrusted"
	"orgops/internal/web"
)

// Endpoint is a receiver of a tenant's events. Printing it shows neither its secrets nor its
// URL, which may contain a token.
type Endpoint struct {
	Name string // [a-z0-9][a-z0-9_-]{0,31}

	url          *url.URL
	secrets      func() ([]apiclient.Secret, error) // read anew each time
	events       []string                           // nil: all
	allowPrivate bool
	entry        string // a hash of the settings
}

// Wants reports whether the endpoint is notified of events of that type.
func (e Endpoint) Wants(eventType string) bool {
	return e.events == nil || slices.Contains(e.events, eventType)
}

// Origin returns the URL's scheme, host and port.
func (e Endpoint) Origin() string { return e.url.Scheme + "://" + e.url.Host }

// String returns name, origin and events, for people.
func (e Endpoint) String() string {
	events := "all events"
	if e.events != nil {
		events = strings.Join(e.events, ", ")
	}
	return fmt.Sprintf("%s: %s (%s)", e.Name, e.Origin(), events)
}

// Format writes String for every verb, so that none prints the members.
func (e Endpoint) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.String()) }

// ReadEndpoints reads a tenant's endpoints from a YAML file. Secrets are read to check them,
// and again by each delivery, so that they can be replaced without a restart. An error names
// file, line and member, and contains neither a secret nor a URL.
func ReadEndpoints(path string, getenv func(string) string) ([]Endpoint, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all, err := parseEndpoints(text, getenv)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

type endpointEntry struct {
	Name         string   `yaml:"name"`
	URL          string   `yaml:"url"`
	SecretFile   string   `yaml:"secret_file"`
	SecretEnv    string   `yaml:"secret_env"`
	Events       []string `yaml:"events"`
	AllowPrivate bool     `yaml:"allow_private"`
}

func parseEndpoints(text []byte, getenv func(string) string) ([]Endpoint, error) {
	var file struct {
		Endpoints []endpointEntry `yaml:"endpoints"`
	}
	lines, err := cli.ReadYAML(text, "endpoints", &file)
	if err != nil {
		return nil, err
	}
	if len(file.Endpoints) == 0 {
		return nil, errors.New("line 1: endpoints: there is none: name at least one, or leave the file out of the settings")
	}
	var all []Endpoint
	for i, entry := range file.Endpoints {
		one, err := entry.endpoint(getenv)
		if err == nil && slices.ContainsFunc(all, func(e Endpoint) bool { return e.Name == one.Name }) {
			err = fmt.Errorf("name: there are two endpoints %q: each needs a name of its own", one.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", lines[i], err)
		}
		all = append(all, one)
	}
	return all, nil
}

func (e endpointEntry) endpoint(getenv func(string) string) (Endpoint, error) {
	if err := ids.CheckName("name", e.Name); err != nil {
		return Endpoint{}, err
	}
	target, err := checkURL(e.URL, e.AllowPrivate)
	if err != nil {
		return Endpoint{}, fmt.Errorf("url: %w", err)
	}
	if err := e.checkEvents(); err != nil {
		return Endpoint{}, fmt.Errorf("events: %w", err)
	}
	secrets := func() ([]apiclient.Secret, error) { return e.readSecrets(getenv) }
	if _, err := secrets(); err != nil {
		return Endpoint{}, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %t", e.URL, e.SecretFile, e.SecretEnv, e.Events, e.AllowPrivate))
	return Endpoint{Name: e.Name, url: target, secrets: secrets, events: e.Events, allowPrivate: e.AllowPrivate,
		entry: hex.EncodeToString(sum[:8])}, nil
}

func (e endpointEntry) checkEvents() error {
	if e.Events != nil && len(e.Events) == 0 {
		return errors.New("the list is empty: leave it out to receive all events")
	}
	for _, eventType := range e.Events {
		if !slices.Contains(events.Types, eventType) {
			return fmt.Errorf("unknown event %s: want some of %s", untrusted.Value(eventType), strings.Join(events.Types, ", "))
		}
	}
	return nil
}

// longestURL bounds a URL, in bytes, as servers do.
const longestURL = 2048

// checkURL parses the URL of a receiver. Its errors do not repeat it.
func checkURL(text string, allowPrivate bool) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("it is missing: want https://HOST/PATH")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > longestURL || u.Host == "" || u.Opaque != "":
		return nil, fmt.Errorf("it cannot be read: want https://HOST/PATH of at most %d bytes", longestURL)
	case u.User != nil:
		return nil, errors.New("must not contain a user or password: the signature identifies the sender")
	case u.Fragment != "":
		return nil, errors.New("must not contain a fragment (#)")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("want https, got %s", untrusted.Value(u.Scheme))
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("invalid port: want 1 to 65535")
		}
	}
	return u, checkHost(u, allowPrivate)
}

var hostName = regexp.MustCompile(
	`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?$`)

// checkHost refuses hosts by their name; addresses are checked when a connection is made. The
// last label must begin with a letter: 2130706433 or 127.1 is an address to some resolvers.
func checkHost(u *url.URL, allowPrivate bool) error {
	host := u.Hostname()
	literal, err := netip.ParseAddr(host)
	isName := err != nil
	if isName && (len(host) > 253 || !hostName.MatchString(host)) {
		return errors.New("invalid host: want a DNS name (in ASCII: xn--…), an IPv4 address, or an IPv6 address in brackets")
	}
	local := web.IsLocal(strings.ToLower(strings.TrimSuffix(host, ".")))
	switch {
	case u.Scheme == "http" && (!local || !allowPrivate):
		return errors.New("want https; http is for loopback only, with allow_private")
	case allowPrivate:
		return nil
	case local, !isName && !dnscheck.IsPublic(literal):
		return errors.New("the host is not public: loopback, link-local and private addresses need allow_private")
	}
	return nil
}

// Bounds of a key, in bytes, and of the number of secrets: the one in use, and others while
// they are replaced, whose signatures share a header. The scheme asks for at least 24 bytes;
// HMAC-SHA256 hashes keys longer than 64.
const (
	shortestKey = 24
	longestKey  = 64
	mostSecrets = 5

	secretPrefix = "whsec_"
)

// readSecrets returns the endpoint's secrets, which blanks or line ends separate.
func (e endpointEntry) readSecrets(getenv func(string) string) ([]apiclient.Secret, error) {
	all, err := cli.FileOrEnv(getenv, e.SecretFile, e.SecretEnv, "secret", apiclient.ParseText)
	if err != nil {
		return nil, err
	}
	if all.IsZero() {
		return nil, errors.New("secret: none is named: set secret_file or secret_env")
	}
	values := strings.Fields(all.Reveal())
	if len(values) > mostSecrets {
		return nil, fmt.Errorf("secret: want at most %d values, got %d", mostSecrets, len(values))
	}
	var secrets []apiclient.Secret
	for i, value := range values {
		if err := checkSecret(value); err != nil {
			return nil, fmt.Errorf("secret: value %d of %d: %w", i+1, len(values), err)
		}
		secrets = append(secrets, apiclient.NewSecret(value))
	}
	return secrets, nil
}

// checkSecret checks a secret. Its errors do not repeat it.
func checkSecret(value string) error {
	encoded, ok := strings.CutPrefix(value, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return fmt.Errorf("want %s and base64, as of: echo %s$(openssl rand -base64 32)", secretPrefix, secretPrefix)
	}
	if len(key) < shortestKey || len(key) > longestKey {
		return fmt.Errorf("want a key of %d to %d bytes, got %d", shortestKey, longestKey, len(key))
	}
	return nil
}
