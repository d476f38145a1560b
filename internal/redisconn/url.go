package redisconn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// target is what a URL says.
type target struct {
	scheme   string // "redis", "redis-sentinel" or "redis-cluster"
	tls      bool
	user     string
	password string
	hosts    []string // host:port, at least one
	master   string   // redis-sentinel only
	database int
}

// mask is what a password is shown as.
const mask = "***"

// Mask returns the URL as it may be shown: the password replaced, and all but
// the scheme if it cannot be read, since a password might then be anywhere.
func Mask(url string) string {
	t, err := parse(url)
	if err == nil {
		return t.String()
	}
	if scheme, _, ok := strings.Cut(url, "://"); ok && schemePattern.MatchString(scheme) {
		return scheme + "://" + mask
	}
	return mask
}

// Hosts are those that the URL names, without their ports, and whether they are
// talked to over TLS.
func Hosts(url string) (hosts []string, tls bool, err error) {
	t, err := parse(url)
	if err != nil {
		return nil, false, err
	}
	for _, at := range t.hosts {
		host, _, err := net.SplitHostPort(at)
		if err != nil {
			return nil, false, err
		}
		hosts = append(hosts, host)
	}
	return hosts, t.tls, nil
}

// Check says what is wrong with the URL, and with a password in it unless that
// is allowed: on a command line every user of the machine can read it.
func Check(url string, allowPassword bool) error {
	_, err := check(url, allowPassword)
	return err
}

func check(url string, allowPassword bool) (target, error) {
	t, err := parse(url)
	if err == nil && t.password != "" && !allowPassword {
		err = errors.New("a password does not belong here, where every user of this machine can read it: " +
			"set ORGOPS_REDIS_PASSWORD or ORGOPS_REDIS_PASSWORD_FILE and leave only the user, redis://user@host")
	}
	return t, err
}

// String is the URL with ports filled in and the password masked.
func (t target) String() string {
	var b strings.Builder
	scheme := t.scheme
	if t.tls {
		scheme = "rediss" + strings.TrimPrefix(scheme, "redis")
	}
	b.WriteString(scheme + "://")
	if t.user != "" || t.password != "" {
		b.WriteString(url.User(t.user).String())
		if t.password != "" {
			b.WriteString(":" + mask)
		}
		b.WriteString("@")
	}
	b.WriteString(strings.Join(t.hosts, ","))
	if t.master != "" {
		b.WriteString("/" + url.PathEscape(t.master))
	}
	if t.scheme != "redis-cluster" {
		b.WriteString("/" + strconv.Itoa(t.database))
	}
	return b.String()
}

var schemePattern = regexp.MustCompile(`^[a-z-]{1,32}$`)

// parse reads a URL by hand: net/url takes no list of hosts, and its errors
// quote what it was given. The user's part ends at the last @, so that a
// password needs no encoding for / ? # and @; nothing before that is ever quoted.
func parse(text string) (target, error) {
	if text == "" {
		return target{}, errors.New("it is empty: want a form such as redis://127.0.0.1:6379/0")
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !schemePattern.MatchString(scheme) {
		return target{}, errors.New("it has no scheme: want a form such as redis://127.0.0.1:6379/0")
	}
	var t target
	switch scheme {
	case "redis", "redis-sentinel", "redis-cluster":
		t.scheme = scheme
	case "rediss", "rediss-sentinel", "rediss-cluster":
		t.scheme, t.tls = "redis"+strings.TrimPrefix(scheme, "rediss"), true
	default:
		return target{}, fmt.Errorf("scheme %q: want redis, rediss, redis-sentinel or redis-cluster", scheme)
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		var err error
		if t.user, t.password, err = parseUser(rest[:at]); err != nil {
			return target{}, err
		}
		rest = rest[at+1:]
	}
	if strings.ContainsAny(rest, "?#") {
		return target{}, errors.New("parameters (? or #) are not taken: leave them out")
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if err := t.parseHosts(hosts); err != nil {
		return target{}, err
	}
	if err := t.parsePath(path); err != nil {
		return target{}, err
	}
	return t, nil
}

func parseUser(info string) (user, password string, err error) {
	name, secret, _ := strings.Cut(info, ":")
	user, err = url.PathUnescape(name)
	if err == nil {
		password, err = url.PathUnescape(secret)
	}
	if err != nil { // It would quote what it could not read.
		return "", "", errors.New("user or password holds a % that begins no escape: write %25 for it")
	}
	return user, password, nil
}

// hostPattern is a name or an IPv4 address; underscores are common in compose
// files.
var hostPattern = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})$`)

func (t *target) parseHosts(list string) error {
	port := "6379"
	if t.scheme == "redis-sentinel" {
		port = "26379"
	}
	for each := range strings.SplitSeq(list, ",") {
		host, err := parseHost(each, port)
		if err != nil {
			return err
		}
		t.hosts = append(t.hosts, host)
	}
	if t.scheme == "redis" && len(t.hosts) > 1 {
		return fmt.Errorf("%d hosts: want one, or the scheme redis-sentinel or redis-cluster", len(t.hosts))
	}
	return nil
}

// parseHost quotes nothing: where the @ is missing, this may be a password.
func parseHost(text, port string) (string, error) {
	if text == "" {
		return "", errors.New("it has no host, or an empty one in its list: want host or host:port")
	}
	host := text
	if name, after, ok := strings.Cut(strings.TrimPrefix(text, "["), "]"); ok && text[0] == '[' {
		if addr, err := netip.ParseAddr(name); err != nil || !addr.Is6() {
			return "", errors.New("the text in brackets is not an IPv6 address")
		}
		host = name
		if after != "" {
			var found bool
			if port, found = strings.CutPrefix(after, ":"); !found {
				return "", errors.New("want a colon and a port after the brackets")
			}
		}
		return joinPort(host, port)
	}
	if name, after, ok := strings.Cut(text, ":"); ok {
		host, port = name, after
	}
	if strings.Contains(port, ":") {
		return "", errors.New("a host holds more than one colon: put an IPv6 address in brackets")
	}
	if !hostPattern.MatchString(host) {
		return "", errors.New("a host is no name and no address: want letters, digits, dots and hyphens")
	}
	return joinPort(host, port)
}

func joinPort(host, port string) (string, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", errors.New("a port is no number from 1 to 65535; if a password was meant, an @ is missing after it")
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

func (t *target) parsePath(path string) error {
	database := path
	if t.scheme == "redis-sentinel" {
		var master string
		master, database, _ = strings.Cut(path, "/")
		name, err := url.PathUnescape(master)
		if err != nil || name == "" || strings.ContainsAny(name, " \t\r\n\x00") {
			return errors.New("want the master's name after the Sentinels: redis-sentinel://host1,host2/master/0")
		}
		t.master = name
	}
	if database == "" {
		return nil
	}
	n, err := strconv.ParseUint(database, 10, 16)
	if err != nil {
		return errors.New("invalid database number after the host: want a form such as redis://127.0.0.1:6379/0")
	}
	if t.scheme == "redis-cluster" && n != 0 {
		return errors.New("a cluster has database 0 alone: leave the number out")
	}
	t.database = int(n)
	return nil
}
