package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"orgops/internal/tenant"

	"github.com/google/go-cmp/cmp"
)

// typed runs the command inside the test with an environment of its own. Its context is
// cancelled from the start, so that settings accepted by mistake do not start a worker.
func typed(t *testing.T, env map[string]string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	status = run(ctx, args, strings.NewReader(""), &out, &errs, environ(env))
	return status, out.String(), errs.String()
}

// enough returns valid settings.
func enough(with map[string]string) map[string]string {
	env := map[string]string{
		"ORGOPS_BASE_URL": "https://acme.example.com/api/v2", "ORGOPS_CLIENT_ID": "id", "ORGOPS_CLIENT_SECRET": "s3cret",
		"ORGOPS_HTTP_ADDR": "off", "ORGOPS_PROBE_ADDR": "off",
	}
	maps.Copy(env, with)
	return env
}

const (
	noBaseURL     = "base-url is missing: the tenant's Management API, https://TENANT/api/v2 (or try --sandbox)"
	noCredentials = "no credentials: set client-id with ORGOPS_CLIENT_SECRET or ORGOPS_CLIENT_SECRET_FILE (or with client-auth private-key-jwt and client-key-file), or set ORGOPS_TOKEN or ORGOPS_TOKEN_FILE (in a file: client_secret_file, client_secret_env, token_file or token_env)"
	badRate       = `rate: "fast": want a form such as 16/s, 0.5/s, 150/min, 1000/h, or "unlimited"`
	badResolver   = `resolvers: resolver "dns.example.com": want an IP address with or without a port, such as 1.1.1.1 or [2606:4700:4700::1111]:53; a host name will not do, as it would have to be resolved first`
	urlPassword   = "redis-url: a password does not belong here, where every user of this machine can read it: set ORGOPS_REDIS_PASSWORD or ORGOPS_REDIS_PASSWORD_FILE and leave only the user, redis://user@host"
	forHelp       = "\nfor usage: worker --help"
)

// settingsCase is one mistake in otherwise complete settings, by flags or by the environment,
// and its error.
type settingsCase struct {
	name string
	env  map[string]string
	args []string
	want string
}

func TestWrongSettings(t *testing.T) {
	for _, tc := range slices.Concat(wrongFlags, wrongAccess, wrongTenant, wrongSecrets) {
		t.Run(tc.name, func(t *testing.T) {
			// The result is the same for a check of the settings and for a start.
			for _, how := range []string{"--check-config", "--drain"} {
				status, stdout, stderr := typed(t, enough(tc.env), append(slices.Clone(tc.args), how)...)
				if diff := cmp.Diff("worker: "+tc.want+"\n", stderr); diff != "" || status != 2 || stdout != "" {
					t.Errorf("%s: status %d, stdout %q, stderr (-want +got):\n%s", how, status, stdout, diff)
				}
			}
		})
	}
}

var wrongFlags = []settingsCase{
	{name: "unknown flag", args: []string{"--frob"}, want: "unknown flag --frob" + forHelp},
	{name: "a secret as a flag", args: []string{"--client-secret", "s"}, want: "unknown flag --client-secret\n" +
		"secrets are not flags: set ORGOPS_CLIENT_SECRET_FILE to the path of a file, or ORGOPS_CLIENT_SECRET"},
	{name: "unknown command", args: []string{"play"}, want: "unknown command \"play\"\ncommands of worker: work, sandbox, doctor, completion, man"},
	{name: "bad duration", args: []string{"--give-up", "soon"},
		want: `--give-up: want a duration such as 36h or 14d, got "soon"` + forHelp},
	{name: "bad duration in the environment", env: map[string]string{"ORGOPS_GIVE_UP": "soon"},
		want: `--give-up: want a duration such as 36h or 14d, got "soon"` + forHelp},
	{name: "burst is no number", args: []string{"--burst", "many"},
		want: `--burst: expected a valid 64 bit int but got "many"` + forHelp},
	{name: "log format", args: []string{"--log-format", "xml"},
		want: `--log-format must be one of "json","text","" but got "xml"` + forHelp},
	{name: "log level", args: []string{"--log-level", "loud"},
		want: `log-level: want debug, info, warn or error, got "loud"`},
	{name: "http-addr without a port", args: []string{"--http-addr", "localhost"},
		want: `http-addr: "localhost": want host:port, such as 127.0.0.1:8080`},
	{name: "probe-addr without a port", args: []string{"--probe-addr", "localhost"},
		want: "probe-addr: address localhost: missing port in address: want host:port, such as 127.0.0.1:8081"},
	{name: "debug-http unseen", args: []string{"--debug-http"},
		want: `debug-http: it logs at debug level, and log-level is "info": set log-level to debug`},
	{name: "shutdown-timeout 0", args: []string{"--shutdown-timeout", "0s"},
		want: "shutdown-timeout: want at least 1s, got 0s"},
	{name: "redis-url of another kind", args: []string{"--redis-url", "http://127.0.0.1"},
		want: `redis-url: scheme "http": want redis, rediss, redis-sentinel, redis-cluster or unix`},
	{name: "password in --redis-url", args: []string{"--redis-url", "redis://:s3cret@127.0.0.1/0"}, want: urlPassword},
	{name: "redis password twice", env: map[string]string{"ORGOPS_REDIS_PASSWORD": "s3cret",
		"ORGOPS_REDIS_PASSWORD_FILE": "testdata/empty"},
		want: "ORGOPS_REDIS_PASSWORD and ORGOPS_REDIS_PASSWORD_FILE are both set: unset one of them"},
	{name: "base-url with a file", args: []string{"--config", "testdata/two.yaml"},
		want: "base-url and config are both set: with a file, the tenants are in it"},
	{name: "a tenant's flag with a file", env: map[string]string{"ORGOPS_BASE_URL": ""},
		args: []string{"--config", "testdata/two.yaml", "--rate", "5/s"},
		want: "--rate and --config do not go together: with a file, the tenants' settings are in it"},
	{name: "a tenant's flag with the sandbox", args: []string{"--sandbox", "--base-url",
		"https://acme.example.com/api/v2"},
		want: "--base-url and --sandbox do not go together: the sandbox brings its own tenant and Redis"},
	{name: "a file with the sandbox", args: []string{"--sandbox", "--config", "testdata/two.yaml"},
		want: "--config and --sandbox do not go together: the sandbox brings its own tenant and Redis"},
	{name: "a Redis with the sandbox", args: []string{"--redis-url", "redis://127.0.0.1/0", "--sandbox"},
		want: "--redis-url and --sandbox do not go together: the sandbox brings its own tenant and Redis"},
	{name: "unreadable file", env: map[string]string{"ORGOPS_BASE_URL": ""},
		args: []string{"--config", "testdata/nowhere.yaml"},
		want: "testdata/nowhere.yaml: open testdata/nowhere.yaml: no such file or directory"},
}

// byKey returns credentials with a private key.
func byKey(file string) map[string]string {
	return map[string]string{"ORGOPS_CLIENT_SECRET": "", "ORGOPS_CLIENT_AUTH": "private-key-jwt",
		"ORGOPS_CLIENT_KEY_FILE": file}
}

const oneOperator = "resolvers: resolvers 1.1.1.1:53 and 1.0.0.1:53 are of one operator (Cloudflare), which reaches the quorum of 2 alone: keep one of them, and add resolvers of other operators; or set the quorum to 3"

var wrongTenant = []settingsCase{
	{name: "no such body", args: []string{"--body", "xml"}, want: `body: want json or form, got "xml"`},
	{name: "ca file missing", args: []string{"--ca-file", "testdata/nowhere"},
		want: "ca-file: open testdata/nowhere: no such file or directory"},
	{name: "a proxy that is none", env: map[string]string{"HTTPS_PROXY": "http://me:s3cret@[x"},
		want: "HTTPS_PROXY: it cannot be read: want http://HOST:PORT, https:// or socks5://"},
	{name: "a proxy of another sort", env: map[string]string{"https_proxy": "ftp://proxy.example"},
		want: `HTTPS_PROXY: want http://HOST:PORT, https:// or socks5://, got the scheme "ftp"`},
	{name: "nothing at all", env: map[string]string{"ORGOPS_BASE_URL": "", "ORGOPS_CLIENT_ID": "",
		"ORGOPS_CLIENT_SECRET": ""}, want: noBaseURL + "\n" + noCredentials},
	{name: "base-url missing", env: map[string]string{"ORGOPS_BASE_URL": ""}, want: noBaseURL},
	{name: "base-url http", args: []string{"--base-url", "http://acme.example.com/api/v2"},
		want: `base URL: http is for loopback addresses only, and "acme.example.com" is none: want https`},
	{name: "base-url with a password", args: []string{"--base-url", "https://me:s3cret@acme.example.com/api/v2"},
		want: "base URL: must not contain a user or password"},
	{name: "auth-url http", args: []string{"--auth-url", "http://acme.example.com"},
		want: `token URL: http is for loopback addresses only, and "acme.example.com" is none: want https`},
	{name: "token-url http", args: []string{"--token-url", "http://acme.example.com/oauth/token"},
		want: `token URL: http is for loopback addresses only, and "acme.example.com" is none: want https`},
	{name: "tenant", args: []string{"--tenant", "Acme"},
		want: `tenant: want 1 to 32 of a-z, 0-9, _ or -, beginning with a letter or digit, got "Acme"`},
	{name: "rate fast", args: []string{"--rate", "fast"}, want: badRate},
	{name: "rate in the environment", env: map[string]string{"ORGOPS_RATE": "fast"}, want: badRate},
	{name: "rate below what a task needs", args: []string{"--rate", "2/min", "--reserve", "50"},
		want: "rate: 2/min less the reserve of 50 percent is less than one request in 30 s: a task that needs several could not end"},
	{name: "burst 0", args: []string{"--burst", "0"}, want: "burst: want at least 1, got 0"},
	{name: "reserve 99", args: []string{"--reserve", "99"}, want: "reserve: want 0 to 95 percent, got 99"},
	{name: "reserve below 0", args: []string{"--reserve=-1"}, want: "reserve: want 0 to 95 percent, got -1"},
	{name: "sweep-share 0", args: []string{"--sweep-share", "0"}, want: "sweep-share: want above 0 to 100 percent, got 0"},
	{name: "sweep-share 101", args: []string{"--sweep-share", "101"},
		want: "sweep-share: want above 0 to 100 percent, got 101"},
	{name: "sweep-share no number", args: []string{"--sweep-share", "NaN"},
		want: "sweep-share: want above 0 to 100 percent, got NaN"},
	{name: "reserve no number", args: []string{"--reserve", "NaN"}, want: "reserve: want 0 to 95 percent, got NaN"},
	{name: "max-clients-per-request 0", args: []string{"--max-clients-per-request", "0"},
		want: "max-clients-per-request: want 1 to 100, got 0"},
	{name: "max-clients-per-request 101", args: []string{"--max-clients-per-request", "101"},
		want: "max-clients-per-request: want 1 to 100, got 101"},
	{name: "give-up 0", args: []string{"--give-up", "0s"}, want: "give-up: want a time above 0, got 0s"},
	{name: "no resolvers", args: []string{"--resolvers="}, want: "resolvers: none is named"},
	{name: "resolver is a host name", args: []string{"--resolvers", "1.1.1.1,dns.example.com"}, want: badResolver},
	{name: "resolver twice", args: []string{"--resolvers", "1.1.1.1,tcp://1.1.1.1:53"},
		want: "resolvers: resolver tcp://1.1.1.1:53 is named twice: it would count twice for the quorum; name each once"},
	{name: "quorum above the resolvers", args: []string{"--resolver-quorum", "4"},
		want: "resolvers: resolver quorum 4: want 2 to 3 of 3 resolvers, or 0 for 2"},
	{name: "one resolver", args: []string{"--resolvers", "1.1.1.1"},
		want: "resolvers: want at least two, of different operators, since one alone proves nothing; got only 1.1.1.1"},
	{name: "one operator is a quorum", args: []string{"--resolvers", "1.1.1.1,1.0.0.1,8.8.8.8"}, want: oneOperator},
	{name: "no such dns mode", args: []string{"--dns-mode", "always"},
		want: `dns-mode: want authority or resolvers, got "always"`},
	{name: "sweep is no cron text", args: []string{"--sweep", "nightly"},
		want: "sweep: want five fields (minute hour day month weekday, in UTC) such as 0 3 * * *, or @daily and the like, got " +
			`"nightly": expected exactly 5 fields, found 1: [nightly] (or off)`},
	{name: "grace 0", args: []string{"--grace", "0s"}, want: "grace: want a time above 0, at most 8760h0m0s, got 0s"},
	{name: "grace of hours", args: []string{"--grace", "23h"},
		want: "grace: want at least 24h0m0s, got 23h0m0s: an outage can take as long (less is for a sandbox, whose base URL is on loopback)"},
	{name: "grace of years", args: []string{"--grace", "8761h"},
		want: "grace: want a time above 0, at most 8760h0m0s, got 8761h0m0s"},
	{name: "absent-checks 0", args: []string{"--absent-checks", "0"}, want: "absent-checks: want 2 to 1000, got 0"},
	{name: "absent-checks 1", args: []string{"--absent-checks", "1"},
		want: "absent-checks: want 2 to 1000, got 1: one bad night is no loss (1 is for a sandbox, whose base URL is on loopback)"},
	{name: "absent-checks 1001", args: []string{"--absent-checks", "1001"},
		want: "absent-checks: want 2 to 1000, got 1001"},
	{name: "protect a wildcard", args: []string{"--protect", "org_1,*.acme.example"},
		want: "protect: want domains (including their subdomains) and organization ids: domain \"*.acme.example\": has a label that domains do not have (\"*\"): no domain has U+002A; give the organization's own domain"},
	{name: "protect letters that DNS has not", args: []string{"--protect", "bücher.example"},
		want: `protect: want "bücher.example" in the form that the DNS has it in: xn--bcher-kva.example`},
	{name: "several at once", args: []string{"--rate", "fast", "--resolvers", "dns.example.com"},
		want: badRate + "\n" + badResolver},
}

var wrongSecrets = []settingsCase{
	{name: "no credentials", env: map[string]string{"ORGOPS_CLIENT_SECRET": ""}, want: noCredentials},
	{name: "secret and token", env: map[string]string{"ORGOPS_TOKEN": "t0ken"},
		want: "both a token and a client secret are set: set one of them"},
	{name: "secret without client-id", env: map[string]string{"ORGOPS_CLIENT_ID": ""},
		want: "client-id is missing: a client secret is set"},
	{name: "secret twice", env: map[string]string{"ORGOPS_CLIENT_SECRET_FILE": "testdata/empty"},
		want: "client secret: a file and an environment variable are both named: name one of them"},
	{
		name: "secret file missing", env: map[string]string{"ORGOPS_CLIENT_SECRET": "",
			"ORGOPS_CLIENT_SECRET_FILE": "testdata/nowhere"},
		want: "client secret: open testdata/nowhere: no such file or directory",
	},
	{
		name: "secret file empty", env: map[string]string{"ORGOPS_CLIENT_SECRET": "",
			"ORGOPS_CLIENT_SECRET_FILE": "testdata/empty"}, want: "client secret: testdata/empty: it is empty",
	},
	{
		name: "token file missing", env: map[string]string{"ORGOPS_CLIENT_SECRET": "",
			"ORGOPS_TOKEN_FILE": "testdata/nowhere"}, want: "token: open testdata/nowhere: no such file or directory",
	},
	{name: "token file empty", env: map[string]string{"ORGOPS_CLIENT_SECRET": "", "ORGOPS_TOKEN_FILE": "testdata/empty"},
		want: "token: testdata/empty: it is empty"},
	{name: "no such client-auth", args: []string{"--client-auth", "tls"},
		want: `client-auth: want body, basic or private-key-jwt, got "tls"`},
	{name: "secret and key", args: []string{"--client-auth", "private-key-jwt", "--client-key-file", "testdata/empty"},
		want: "both a client secret and client-auth private-key-jwt are set: set one of them"},
	{name: "token and key", env: map[string]string{"ORGOPS_CLIENT_SECRET": "", "ORGOPS_TOKEN": "t0ken"},
		args: []string{"--client-key-file", "testdata/empty"},
		want: "both a token and a client key are set: set one of them"},
	{name: "a key that is not used", args: []string{"--client-key-file", "testdata/empty"},
		want: "client-key-file is set, and client-auth is body: a key is for private-key-jwt"},
	{name: "an algorithm that is not used", args: []string{"--client-key-alg", "RS256"},
		want: "client-key-alg is set, and client-auth is body: it is for private-key-jwt"},
	{name: "an assertion that is not used", args: []string{"--assertion-audience", "https://a.example/"},
		want: "assertion-audience is set, and client-auth is body: it is for private-key-jwt"},
	{name: "token and an assertion", env: map[string]string{"ORGOPS_CLIENT_SECRET": "", "ORGOPS_TOKEN": "t0ken"},
		args: []string{"--assertion-audience", "https://a.example/"},
		want: "assertion-audience is set, and client-auth is body: it is for private-key-jwt"},
	{name: "token and client-auth", env: map[string]string{"ORGOPS_CLIENT_SECRET": "", "ORGOPS_TOKEN": "t0ken"},
		args: []string{"--client-auth", "basic"}, want: "both a token and client-auth basic are set: set one of them"},
	{
		name: "no key", env: byKey(""),
		want: "client-key-file is missing: client-auth private-key-jwt signs with a private key, PEM or JWK",
	},
	{name: "key without client-id", env: map[string]string{"ORGOPS_CLIENT_SECRET": "", "ORGOPS_CLIENT_ID": "",
		"ORGOPS_CLIENT_AUTH": "private-key-jwt", "ORGOPS_CLIENT_KEY_FILE": "testdata/empty"},
		want: "client-id is missing: a client key is set"},
	{name: "key file missing", env: byKey("testdata/nowhere"),
		want: "client-key-file: open testdata/nowhere: no such file or directory"},
	{name: "redis password file missing", env: map[string]string{"ORGOPS_REDIS_PASSWORD_FILE": "testdata/nowhere"},
		want: "ORGOPS_REDIS_PASSWORD_FILE: open testdata/nowhere: no such file or directory"},
}

// invalidFiles maps the name of each testdata/invalid-*.yml to its error. Each file breaks one
// rule of the file; wrongTenant and wrongSecrets have the rules of the settings.
var invalidFiles = map[string]string{
	"not-yaml":           "line 1: did not find expected node content",
	"empty":              "tenants: none is defined",
	"no-tenants":         "tenants: none is defined",
	"tenants-no-list":    "line 1: cannot unmarshal !!str `acme`",
	"unknown-section":    "line 1: unknown member tenant",
	"unknown-member":     "line 6: unknown member colour",
	"member-as-the-flag": "line 6: unknown member give-up",
	"member-twice":       `line 7: mapping key "rate" already defined at line 6`,
	"two-of-one-name":    `line 5: tenants[1] "acme": the name is used twice`,
	"name":               `line 2: tenants[0] "Acme": tenant: want 1 to 32 of a-z, 0-9, _ or -, beginning with a letter or digit, got "Acme"`,
	"secret-in-the-file": "line 6: unknown member client_secret: secrets are not in this file: put it into a file or a variable, and name that by client_secret_file or client_secret_env",
	"secret-env-unset":   `line 2: tenants[0] "acme": client secret: the environment variable "NOT_SET" is not set, or empty`,
	"token-env-unset":    `line 2: tenants[0] "acme": token: the environment variable "NOT_SET" is not set, or empty`,
	"webhooks":           `line 2: tenants[0] "acme": webhooks: testdata/invalid-webhooks.hooks: line 2: url: want https; http is for loopback only, with allow_private`,
	"webhook-backlog":    `line 2: tenants[0] "acme": webhook-backlog: want 1 to 9999 events, got 0`,
	"rate-too-high":      `line 2: tenants[0] "acme": rate: "1000000/s": want at least 1/h and at most 100000/s`,
	"burst-no-number":    "line 6: cannot unmarshal !!str `many`",
	"give-up":            `line 6: want a duration such as 36h or 14d, got "soon"`,
	"resolver-port":      `line 2: tenants[0] "acme": resolvers: resolver 1.1.1.1:0: invalid port 0; leave the port out for the transport's default`,
	"protect":            `line 2: tenants[0] "acme": protect: want domains (including their subdomains) and organization ids: domain "": is empty; give the organization's own domain`,
	"verify-pending":     "line 6: cannot unmarshal !!str `perhaps`",
	"several-rules": `line 6: tenants[1] "other": ` + noBaseURL + "\n" + noCredentials + "\n" + badRate +
		"\nresolvers: none is named",
}

func TestInvalidFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid-*.yml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(invalidFiles) {
		t.Errorf("%d files, but %d are told of", len(files), len(invalidFiles))
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "invalid-"), ".yml")
		t.Run(name, func(t *testing.T) {
			want, ok := invalidFiles[name]
			if !ok {
				t.Fatal("nothing is known of this file")
			}
			env := map[string]string{"SECRET": "s3cret", "ORGOPS_CONFIG": file, "ORGOPS_HTTP_ADDR": "off",
				"ORGOPS_PROBE_ADDR": "off"}
			status, stdout, stderr := typed(t, env)
			if diff := cmp.Diff("worker: "+file+": "+want+"\n", stderr); diff != "" || status != 2 || stdout != "" {
				t.Errorf("status %d, stdout %q, stderr (-want +got):\n%s", status, stdout, diff)
			}
		})
	}
}

// hookSecret signs deliveries in tests.
const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestDeployedConfig reads the example file of deploy, with its secrets in the files that it
// names.
func TestDeployedConfig(t *testing.T) {
	body, err := os.ReadFile("../../deploy/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	write(t, file, strings.ReplaceAll(string(body), "/etc/orgops/", dir+"/"))
	write(t, filepath.Join(dir, "client-secret"), "s3cret\n")
	write(t, filepath.Join(dir, "production-client-secret"), "s3cret\n")
	key, ca := keyAndCertificate(t)
	write(t, filepath.Join(dir, "partner-key.pem"), key)
	write(t, filepath.Join(dir, "ca.pem"), ca)
	hooks, err := os.ReadFile("../../deploy/webhooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "webhooks.yaml"), strings.ReplaceAll(string(hooks), "/etc/orgops/", dir+"/"))
	write(t, filepath.Join(dir, "crm-hook"), hookSecret+"\n"+hookSecret+"\n")

	status, stdout, stderr := typed(t, map[string]string{"STAGING_TOKEN": "t0ken", "DESK_HOOK_SECRET": hookSecret},
		"--config", file, "--check-config")
	stdout = strings.ReplaceAll(stdout, dir, "/etc/orgops")
	if status != 0 || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	tenants := strings.Split(stdout, "\ntenant ")[1:]
	if len(tenants) != 4 {
		t.Fatalf("%d tenants, want 4:\n%s", len(tenants), stdout)
	}
	for i, want := range [][]string{
		{
			"default:", "base-url: https://tenant.example.com/api/v2", "client secret: [secret]", "rate: 2/s", "sweep: off",
		},
		{
			"production:", "base-url: https://login.example.com/api/v2",
			"token-url: https://example.eu.auth.example.net/oauth/token",
			"audience: https://example.eu.auth.example.net/api/v2/", "client-id: EXAMPLEcLiEnTiD00000000000000000",
			"client-auth: body", "client secret: [secret]", "rate: 16/s", "burst: 50", "reserve: 25 %", "sweep-share: 10 %",
			"max-clients-per-request: 10", "give-up: 168h0m0s", "sweep: 0 3 * * *",
			"sweeps: 24h0m0s apart or more, by UTC", "verify-pending: true", "grace: 336h0m0s", "absent-checks: 5",
			"protect: example.com, org_ExAmPlE000000001", "webhooks: /etc/orgops/webhooks.yaml",
			"webhook crm: https://crm.example.com (domain.at_risk, domain.lost, domain.found), secret [secret]",
			"webhook desk: https://10.20.0.7:8443 (all events), secret [secret]",
		},
		{
			"staging:", "base-url: https://staging.example.com/api/v2", "token: [secret]", "rate: 2/s", "sweep: off",
			"resolver-quorum: 2", "operators: Cloudflare, Google, Quad9",
		},
		{
			"partner:", "client-auth: private-key-jwt", "client-key-file: /etc/orgops/partner-key.pem",
			"assertion-audience: https://partner.example.com/", "body: form", "ca-file: /etc/orgops/ca.pem",
		},
	} {
		printed := strings.Split(strings.ReplaceAll(tenants[i], "\n  ", "\n"), "\n")
		for _, line := range want {
			if !slices.Contains(printed, line) {
				t.Errorf("no line %q in\n%s", line, tenants[i])
			}
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[tenant.Settings]()) {
		if member := field.Tag.Get("yaml"); member != "" && !field.Anonymous && !strings.Contains(string(body), member) {
			t.Errorf("the file says nothing of %s", member)
		}
	}
}

// TestDeployedTenant reads the file of one tenant that people copy, with its examples filled in.
func TestDeployedTenant(t *testing.T) {
	body, err := os.ReadFile("../../deploy/tenant.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := strings.NewReplacer("YOUR-TENANT", "acme.example.com", "YOUR-CLIENT", "EXAMPLE",
		"/run/credentials/orgops-worker.service", dir).Replace(string(body))
	// The settings in comments are settings too.
	text = regexp.MustCompile(`(?m)^( +)# ([a-z_]+: )`).ReplaceAllString(text, "$1$2")
	file := filepath.Join(dir, "config.yaml")
	write(t, file, text)
	write(t, filepath.Join(dir, "client-secret"), "s3cret\n")
	// The unit names the secret's file for settings by the environment: it does no harm.
	env := map[string]string{"ORGOPS_CLIENT_SECRET_FILE": filepath.Join(dir, "client-secret")}
	status, stdout, stderr := typed(t, env, "--config", file, "--check-config")
	if status != 0 || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	for _, line := range []string{"tenant default:", "base-url: https://acme.example.com/api/v2",
		"audience: https://acme.example.com/api/v2/", "client secret: [secret]", "rate: 2/s",
		"give-up: 72h0m0s", "sweep: 0 3 * * *"} {
		if !strings.Contains(stdout, line+"\n") {
			t.Errorf("no line %q in\n%s", line, stdout)
		}
	}
}

// keyAndCertificate returns a client's key and a certificate, both as PEM.
func keyAndCertificate(t *testing.T) (key, certificate string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	ca, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("PRIVATE KEY", der), text("CERTIFICATE", ca)
}

// TestProxySettings checks that the proxy in use is logged without its password.
func TestProxySettings(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  map[string]string
		want string // empty: none
	}{
		{"none", nil, ""},
		{"HTTPS_PROXY", map[string]string{"HTTPS_PROXY": "http://me:s3cret@proxy.example:3128"},
			"  proxy: http://me:xxxxx@proxy.example:3128\n"},
		{"lower case, no scheme", map[string]string{"https_proxy": "proxy.example:3128"},
			"  proxy: http://proxy.example:3128\n"},
		{"NO_PROXY", map[string]string{"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": ".example.com"}, ""},
		{"HTTP_PROXY is not for https", map[string]string{"HTTP_PROXY": "http://proxy.example:3128"}, ""},
		{"loopback is reached directly", map[string]string{"HTTP_PROXY": "http://proxy.example:3128",
			"ORGOPS_BASE_URL": "http://127.0.0.1:9/api/v2"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, stdout, stderr := typed(t, enough(tc.env), "--check-config")
			if status != 0 || strings.Contains(stdout+stderr, "s3cret") {
				t.Fatalf("status %d: %s%s", status, stdout, stderr)
			}
			if got := strings.Contains(stdout, "  proxy: "); got != (tc.want != "") || !strings.Contains(stdout, tc.want) {
				t.Errorf("want %q in\n%s", tc.want, stdout)
			}
		})
	}
}

// TestFlagsSayTheDefaults checks that the defaults of a tenant from the environment and of one
// from a file are equal.
func TestFlagsSayTheDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const body = "tenants:\n  - base_url: https://acme.example.com/api/v2\n    client_id: id\n    client_secret_env: SECRET\n"
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	_, byFlags, _ := typed(t, enough(nil), "--check-config")
	_, byFile, _ := typed(t, map[string]string{"SECRET": "s3cret"}, "--config", file, "--check-config",
		"--http-addr=off", "--probe-addr=off")
	if diff := cmp.Diff(byFlags, byFile); diff != "" || byFlags == "" {
		t.Errorf("(-by flags +by file):\n%s", diff)
	}
}

// TestNoSecretIsShown sets a secret in every setting that may hold one, and searches all
// output for them.
func TestNoSecretIsShown(t *testing.T) {
	secrets := map[string]string{
		"ORGOPS_CLIENT_SECRET": "s3cret-client", "ORGOPS_TOKEN": "s3cret-token", "ORGOPS_REDIS_PASSWORD": "s3cret-redis",
		"ORGOPS_REDIS_URL": "redis://me:s3cret-url@127.0.0.1:1/0",
	}
	for _, tc := range []struct {
		name    string
		without []string
		args    []string
		status  int
	}{
		{name: "help", args: []string{"--help"}},
		{name: "help of work", args: []string{"work", "--help"}},
		{name: "help of sandbox", args: []string{"sandbox", "--help"}},
		{name: "version", args: []string{"--version"}},
		{name: "client secret", without: []string{"ORGOPS_TOKEN"}, args: []string{"--check-config"}},
		{name: "token", without: []string{"ORGOPS_CLIENT_SECRET"}, args: []string{"--check-config"}},
		{name: "both", args: []string{"--check-config"}, status: 2},
		{name: "two passwords of Redis", without: []string{"ORGOPS_TOKEN"}, args: []string{"--drain"}, status: 2},
		{name: "at work", without: []string{"ORGOPS_TOKEN", "ORGOPS_REDIS_PASSWORD"}, args: []string{"--log-level=debug"}},
		{name: "at work, without the password in the URL", without: []string{"ORGOPS_TOKEN", "ORGOPS_REDIS_URL"},
			args: []string{"--log-level=debug", "--redis-url=redis://127.0.0.1:1/0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := enough(secrets)
			for _, name := range tc.without {
				env[name] = ""
			}
			status, stdout, stderr := typed(t, env, tc.args...)
			if status != tc.status {
				t.Errorf("status %d, want %d; stderr: %s", status, tc.status, stderr)
			}
			if strings.Contains(stdout+stderr, "s3cret") {
				t.Errorf("a secret is shown:\n%s%s", stdout, stderr)
			}
		})
	}
}

func TestBaseURLAsPeopleWriteIt(t *testing.T) {
	for given, want := range map[string]string{
		"https://acme.example.com":            "https://acme.example.com/api/v2",
		"https://acme.example.com/":           "https://acme.example.com/api/v2",
		"https://acme.example.com/api/v2":     "https://acme.example.com/api/v2",
		"https://acme.example.com/api/v2/":    "https://acme.example.com/api/v2",
		"https://api.example.com/acme/api/v2": "https://api.example.com/acme/api/v2",
	} {
		status, stdout, stderr := typed(t, enough(map[string]string{"ORGOPS_BASE_URL": given}), "--check-config")
		if status != 0 || !strings.Contains(stdout, "  base-url: "+want+"\n") ||
			!strings.Contains(stdout, "  audience: https://") {
			t.Errorf("%s: status %d, want %s\n%s%s", given, status, want, stdout, stderr)
		}
	}
}

// TestSettingsFromAPipe checks that the file of tenants is read once, so that a shell's <(command)
// can be it.
func TestSettingsFromAPipe(t *testing.T) {
	pipe, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	const body = "tenants:\n  - base_url: https://acme.example.com/api/v2\n    client_id: id\n    client_secret_env: SECRET\n"
	if _, err := io.WriteString(in, body); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := typed(t, map[string]string{"SECRET": "s3cret"}, "--check-config",
		"--config", fmt.Sprintf("/dev/fd/%d", pipe.Fd()))
	if status != 0 || !strings.Contains(stdout, "base-url: https://acme.example.com/api/v2\n") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

// TestIgnoredVariablesAreReported checks that --check-config and doctor name the variables of a
// tenant that the file of tenants replaces.
func TestIgnoredVariablesAreReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	write(t, file, "tenants:\n  - base_url: http://127.0.0.1:1/api/v2\n    client_id: id\n    client_secret_env: SECRET\n"+
		"    dns_mode: resolvers\n    resolvers: [127.0.0.1:1, 127.0.0.2:1]\n")
	env := map[string]string{"SECRET": "s3cret", "ORGOPS_RATE": "3/s", "ORGOPS_DNS_MODE": "resolvers",
		"ORGOPS_TENANT": "acme", "ORGOPS_REDIS_URL": "redis://127.0.0.1:1/0"}
	for _, args := range [][]string{{"--check-config"}, {"doctor"}} {
		var out, errs bytes.Buffer
		run(t.Context(), append(args, "--config", file), strings.NewReader(""), &out, &errs, environ(env))
		said := out.String() + errs.String()
		if strings.Count(said, "ignored") != 1 || !strings.Contains(said, "ORGOPS_DNS_MODE") ||
			!strings.Contains(said, "ORGOPS_RATE") || strings.Contains(said, "ORGOPS_TENANT") {
			t.Errorf("%s: want one line with the ignored variables:\n%s", args[0], said)
		}
	}
	delete(env, "ORGOPS_RATE")
	delete(env, "ORGOPS_DNS_MODE")
	if _, _, stderr := typed(t, env, "--check-config", "--config", file); strings.Contains(stderr, "ignored") {
		t.Errorf("without such variables: %s", stderr)
	}
}

func TestUnknownVariableIsReported(t *testing.T) {
	status, _, stderr := typed(t, enough(map[string]string{"ORGOPS_RESERV": "10"}), "--check-config")
	if status != 0 || !strings.Contains(stderr, "unknown environment variable") ||
		!strings.Contains(stderr, "did you mean ORGOPS_RESERVE?") {
		t.Errorf("status %d, stderr %s", status, stderr)
	}
}
