package webhooks_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"orgops/internal/webhooks"
)

const (
	secret      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"             // of 24 bytes
	otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" // of 32
)

func getenv(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// written writes a file with that text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hooks.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read reads valid endpoints.
func read(t *testing.T, text string, env map[string]string) []webhooks.Endpoint {
	t.Helper()
	all, err := webhooks.ReadEndpoints(written(t, text), getenv(env))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEndpoints(t *testing.T) {
	all := read(t, `
endpoints:
  - name: crm
    url: https://crm.example.com:8443/hooks/orgops?token=canary
    secret_env: HOOK
    events: [domain.lost, run.finished]
  - name: local
    url: http://[::1]:9000/
    secret_env: HOOK
    allow_private: true
`, map[string]string{"HOOK": secret + "\n " + otherSecret})
	got := fmt.Sprint(all)
	const want = `[crm: https://crm.example.com:8443 (domain.lost, run.finished) local: http://[::1]:9000 (all events)]`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, c := range []struct {
		endpoint int
		event    string
		wants    bool
	}{{0, "domain.lost", true}, {0, "domain.verified", false}, {1, "domain.verified", true}} {
		if got := all[c.endpoint].Wants(c.event); got != c.wants {
			t.Errorf("%s wants %s: %t, want %t", all[c.endpoint].Name, c.event, got, c.wants)
		}
	}
}

// TestEndpointsKeepTheirSecrets prints endpoints in every format and checks that no secret
// appears.
func TestEndpointsKeepTheirSecrets(t *testing.T) {
	all := read(t,
		"endpoints: [{name: crm, url: 'https://crm.example.com/very-long-path-token?token=canary', secret_env: HOOK}]",
		map[string]string{
			"HOOK": secret,
		})
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "one", all[0], "all", all)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "one", all[0], "all", all)
	asJSON, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	texts := log.String() + string(asJSON)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts += fmt.Sprintf(verb, all) + fmt.Sprintf(verb, all[0]) + fmt.Sprintf(verb, &all[0])
	}
	for _, hidden := range []string{"canary", "very-long-path-token", secret[6:], secret[6:20]} {
		if strings.Contains(texts, hidden) {
			t.Errorf("%q is in %s", hidden, texts)
		}
	}
}

// TestRefusedEndpoints has one mistake in each file, and its error.
func TestRefusedEndpoints(t *testing.T) {
	const (
		neither = `url: invalid host: want a DNS name (in ASCII: xn--…), an IPv4 address, or an IPv6 address in brackets`
		private = `url: the host is not public: loopback, link-local and private addresses need allow_private`
		noRead  = `url: it cannot be read: want https://HOST/PATH of at most 2048 bytes`
		onlyTLS = `url: want https; http is for loopback only, with allow_private`
		noForm  = `want whsec_ and base64, as of: echo whsec_$(openssl rand -base64 32)`
	)
	entry := func(members string) string { return "endpoints:\n  - {name: crm, " + members + "}\n" }
	at := func(url string) string { return entry("secret_env: HOOK, url: '" + url + "'") }
	env := map[string]string{
		"HOOK": secret, "CANARY": "canary-canary", "PLAIN": "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"SHORT": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=",
		"LONG":  "whsec_" + strings.Repeat("AAAA", 21) + "AAA=", "SECOND": secret + " whsec_!canary",
		"MANY": strings.Repeat(secret+"\n", 6),
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "line 1: endpoints: there is none: name at least one, or leave the file out of the settings"},
		{
			"no entry", "endpoints: []\n",
			"line 1: endpoints: there is none: name at least one, or leave the file out of the settings",
		},
		{"not YAML", "endpoints: [\n", "line 1: did not find expected node content"},
		{"a list", "- name: crm\n", "line 1: cannot unmarshal !!seq"},
		{"unknown member", "endpoints:\n  - name: crm\n    secret: canary\n", "line 3: unknown member secret: " +
			"secrets are not in this file: put it into a file or a variable, and name that by secret_file or secret_env"},
		{"unknown member above", "hooks: []\n", "line 1: unknown member hooks"},
		{"member twice", "endpoints:\n  - name: crm\n    name: crm\n",
			`line 3: mapping key "name" already defined at line 2`},
		{"no flag", entry("allow_private: canary"), "line 2: cannot unmarshal !!str `canary`"},
		{"second document", at("https://crm.example.com/") + "---\nendpoints: []\n",
			"there is a second document: put all endpoints into one"},
		{"no name", "endpoints:\n\n  - url: https://crm.example.com/\n",
			`line 3: name: want 1 to 32 of a-z, 0-9, _ or -, beginning with a letter or digit, got ""`},
		{
			"bad name", "endpoints: [{name: 'Crm\\'}]\n",
			`line 1: name: want 1 to 32 of a-z, 0-9, _ or -, beginning with a letter or digit, got "Crm\\"`,
		},
		{"name twice", at("https://crm.example.com/") + "  - {name: crm, url: 'https://a.example.com/', secret_env: HOOK}\n",
			`line 3: name: there are two endpoints "crm": each needs a name of its own`},
		{"no url", entry("secret_env: HOOK"), "line 2: url: it is missing: want https://HOST/PATH"},
		{"no scheme", at("crm.example.com/hooks"), "line 2: " + noRead},
		{"no host", at("https:///hooks?canary"), "line 2: " + noRead},
		{"opaque", at("https:crm.example.com"), "line 2: " + noRead},
		{"unreadable", at("https://crm.example.com/%zzcanary"), "line 2: " + noRead},
		{"too long", at("https://crm.example.com/" + strings.Repeat("x", 2048)), "line 2: " + noRead},
		{
			"user", at("https://canary@crm.example.com/"),
			"line 2: url: must not contain a user or password: the signature identifies the sender",
		},
		{"password", at("https://user:canary@crm.example.com/"),
			"line 2: url: must not contain a user or password: the signature identifies the sender"},
		{"fragment", at("https://crm.example.com/#canary"), "line 2: url: must not contain a fragment (#)"},
		{"scheme", at("ftp://crm.example.com/canary"), `line 2: url: want https, got "ftp"`},
		{"port", at("https://crm.example.com:65536/"), "line 2: url: invalid port: want 1 to 65535"},
		{"port 0", at("https://crm.example.com:0/"), "line 2: url: invalid port: want 1 to 65535"},
		{"http", at("http://crm.example.com/"), "line 2: " + onlyTLS},
		{"http to loopback", at("http://127.0.0.1/"), "line 2: " + onlyTLS},
		{"http to private", entry("allow_private: true, secret_env: HOOK, url: 'http://10.0.0.1/'"), "line 2: " + onlyTLS},
		{"loopback", at("https://127.0.0.1/"), "line 2: " + private},
		{"localhost", at("https://LocalHost./"), "line 2: " + private},
		{"below localhost", at("https://crm.localhost/"), "line 2: " + private},
		{"loopback of IPv6", at("https://[::1]/"), "line 2: " + private},
		{"metadata", at("https://169.254.169.254/latest"), "line 2: " + private},
		{"a cloud's platform", at("https://168.63.129.16/"), "line 2: " + private},
		{"private", at("https://192.168.1.1/"), "line 2: " + private},
		{"carrier's", at("https://100.64.0.1/"), "line 2: " + private},
		{"unique local", at("https://[fd00::1]/"), "line 2: " + private},
		{"link-local with zone", at("https://[fe80::1%25eth0]/"), "line 2: " + private},
		{"multicast", at("https://224.0.0.1/"), "line 2: " + private},
		{"unspecified", at("https://0.0.0.0/"), "line 2: " + private},
		{"mapped", at("https://[::ffff:10.0.0.1]/"), "line 2: " + private},
		{"by NAT64", at("https://[64:ff9b::a00:1]/"), "line 2: " + private},
		{"by 6to4", at("https://[2002:7f00:1::]/"), "line 2: " + private},
		{"a number", at("https://2130706433/"), "line 2: " + neither},
		{"hexadecimal", at("https://0x7f000001/"), "line 2: " + neither},
		{"three parts", at("https://127.0.1/"), "line 2: " + neither},
		{"octal", at("https://0177.0.0.1/"), "line 2: " + neither},
		{"address with a dot", at("https://127.0.0.1./"), "line 2: " + neither},
		{"not ASCII", at("https://crm.exämple.com/"), "line 2: " + neither},
		{"no events", entry("url: 'https://crm.example.com/', secret_env: HOOK, events: []"),
			"line 2: events: the list is empty: leave it out to receive all events"},
		{"unknown event", entry("url: 'https://crm.example.com/', secret_env: HOOK, events: [domain.gone]"),
			`line 2: events: unknown event "domain.gone": want some of domain.verified, domain.expired, domain.at_risk, ` +
				`domain.lost, domain.found, domain.withdrawn, run.finished`},
		{"no secret", entry("url: 'https://crm.example.com/'"),
			"line 2: secret: none is named: set secret_file or secret_env"},
		{"two places", entry("url: 'https://crm.example.com/', secret_env: HOOK, secret_file: /hook"),
			"line 2: secret: a file and an environment variable are both named: name one of them"},
		{"no variable", entry("url: 'https://crm.example.com/', secret_env: NONE"),
			`line 2: secret: the environment variable "NONE" is not set, or empty`},
		{"no file", entry("url: 'https://crm.example.com/', secret_file: /there/is/none"),
			"line 2: secret: open /there/is/none: no such file or directory"},
		{"not base64", entry("url: 'https://crm.example.com/', secret_env: CANARY"),
			"line 2: secret: value 1 of 1: " + noForm},
		{"without prefix", entry("url: 'https://crm.example.com/', secret_env: PLAIN"),
			"line 2: secret: value 1 of 1: " + noForm},
		{"short", entry("url: 'https://crm.example.com/', secret_env: SHORT"),
			"line 2: secret: value 1 of 1: want a key of 24 to 64 bytes, got 23"},
		{"long", entry("url: 'https://crm.example.com/', secret_env: LONG"),
			"line 2: secret: value 1 of 1: want a key of 24 to 64 bytes, got 65"},
		{"the second", entry("url: 'https://crm.example.com/', secret_env: SECOND"),
			"line 2: secret: value 2 of 2: " + noForm},
		{"too many", entry("url: 'https://crm.example.com/', secret_env: MANY"),
			"line 2: secret: want at most 5 values, got 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := written(t, c.text)
			all, err := webhooks.ReadEndpoints(path, getenv(env))
			if err == nil {
				t.Fatalf("taken: %v", all)
			}
			got := strings.TrimPrefix(err.Error(), path+": ")
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if strings.Contains(got, "canary") && c.name != "no flag" {
				t.Errorf("it repeats what may be a secret: %s", got)
			}
		})
	}
	if _, err := webhooks.ReadEndpoints("/there/is/none", getenv(nil)); err == nil {
		t.Error("a file that is not there is no error")
	}
}

// FuzzEndpoints checks that every endpoint accepted from a file is one that the rules allow.
func FuzzEndpoints(f *testing.F) {
	f.Add("endpoints: [{name: crm, url: 'https://crm.example.com/', secret_env: HOOK}]")
	f.Add(
		"endpoints:\n  - &a {name: crm, url: 'https://1.1.1.1/?x', secret_env: HOOK, events: [domain.lost]}\n  - <<: *a\n    name: b\n")
	f.Add("x: &x [{name: a, url: 'http://localhost/', secret_env: HOOK, allow_private: true}]\nendpoints: *x\n")
	f.Add("endpoints: [null, ~, {}]\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := webhooks.ParseEndpoints([]byte(text), getenv(map[string]string{"HOOK": secret}))
		if err != nil {
			if len(all) > 0 || strings.Contains(err.Error(), secret[6:]) {
				t.Fatalf("%v with %v", err, all)
			}
			return
		}
		var names []string
		for _, e := range all {
			if slices.Contains(names, e.Name) {
				t.Fatalf("two are %q", e.Name)
			}
			names = append(names, e.Name)
			if origin := e.Origin(); !strings.HasPrefix(origin, "https://") && !strings.HasPrefix(origin, "http://") ||
				strings.ContainsAny(origin, "@?#") {
				t.Fatalf("sends to %q", origin)
			}
		}
		if _, err := webhooks.NewSender(webhooks.Config{Endpoints: all}); err != nil {
			t.Fatal(err)
		}
	})
}
