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

// target is a parsed URL.
type target struct {
	scheme   string // "redis", "redis-sentinel", "redis-cluster" or "unix"
	tls      bool
	user     string
	password string
	hosts    []string // host:port, at least one; of a Unix socket its path
	master   string   // redis-sentinel only
	database int
}

// mask replaces a password that is shown.
const mask = "***"

// Mask returns the URL with its password replaced; of a URL that cannot be parsed only the
// scheme, since the rest may contain a password anywhere.
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

// Hosts returns the hosts of a URL without their ports, and whether connections use TLS.
func Hosts(url string) (hosts []string, tls bool, err error) {
	t, err := parse(url)
	if err != nil {
		return nil, false, err
	}
	if t.scheme == "unix" {
		return []string{"localhost"}, false, nil
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

// check parses a URL. It is an error if it contains a password and must not: every user of the
// machine can read a command line.
func check(url string, allowPassword bool) (target, error) {
	t, err := parse(url)
	if err == nil && t.password != "" && !allowPassword {
		err = errors.New("a password does not belong here, where every user of this machine can read it: " +
			"set ORGOPS_REDIS_PASSWORD or ORGOPS_REDIS_PASSWORD_FILE and leave only the user, redis://user@host")
	}
	if err != nil {
		err = fmt.Errorf("redis-url: %w", err)
	}
	return t, err
}

// String returns the URL with all ports and a masked password.
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
	if t.scheme == "redis" || t.scheme == "redis-sentinel" {
		b.WriteString("/" + strconv.Itoa(t.database))
	}
	return b.String()
}

var schemePattern = regexp.MustCompile(`^[a-z-]{1,32}$`)

// parse does not use net/url, which accepts no list of hosts, and whose errors quote their
// input. The user's part ends at the last @, so that a password needs no encoding for
// / ? # and @. Errors quote nothing before that.
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
		t.scheme = "redis" + strings.TrimPrefix(scheme, "rediss")
		t.tls = true
	case "unix":
		t.scheme = scheme
	default:
		return target{}, fmt.Errorf("scheme %q: want redis, rediss, redis-sentinel, redis-cluster or unix", scheme)
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
	if t.scheme == "unix" {
		if !strings.HasPrefix(rest, "/") {
			return target{}, errors.New("want the path of a socket: unix:///run/redis/redis.sock")
		}
		t.hosts = []string{rest}
		return t, nil
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
	if err != nil { // its text would quote the input
		return "", "", errors.New("user or password holds a % that begins no escape: write %25 for it")
	}
	return user, password, nil
}

// hostPattern matches a name or an IPv4 address; underscores are common in compose files.
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

// parseHost quotes nothing: if the @ is missing, the text may be a password.
func parseHost(text, defaultPort string) (string, error) {
	if text == "" {
		return "", errors.New("it has no host, or an empty one in its list: want host or host:port")
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil { // it has no port, or is invalid with one too
		host, port, err = net.SplitHostPort(text + ":" + defaultPort)
	}
	addr, notAddr := netip.ParseAddr(host)
	is6 := notAddr == nil && addr.Is6()
	n, badPort := strconv.ParseUint(port, 10, 16)
	if err != nil || is6 != (text[0] == '[') || (!is6 && !hostPattern.MatchString(host)) || badPort != nil || n == 0 {
		return "",
			errors.New("invalid host or port: want host, host:port or [IPv6 address]:port, with a port from 1 to 65535; " +
				"if a password was meant, an @ is missing after it")
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
		return errors.New("a cluster has only database 0: leave the number out")
	}
	t.database = int(n)
	return nil
}
