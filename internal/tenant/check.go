package tenant

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/internal/cli"
	"orgops/internal/deliveries"
	"orgops/internal/ids"
	"orgops/internal/untrusted"
	"orgops/internal/webhooks"
)

// Complete reads secrets and files, derives the other values, and checks all that can be
// checked without a connection.
func (t *Settings) Complete(env func(string) string) error {
	t.Files = t.DigestFiles()
	t.Tenant = t.Name
	return errors.Join(ids.CheckTenant(t.Name), t.checkURLs(), t.readSecrets(env), t.readNetwork(), t.checkLimit(),
		t.checkDNS(), t.checkSweep(), t.checkRules(), t.readWebhooks(env), t.checkBacklog())
}

func (t *Settings) checkURLs() error {
	if t.BaseURL == "" {
		return errors.New("base-url is missing: the tenant's Management API, https://TENANT/api/v2 (or try --sandbox)")
	}
	t.BaseURL = completeBaseURL(t.BaseURL)
	if err := apiclient.CheckBaseURL(t.BaseURL); err != nil {
		return err
	}
	t.AuthURL = cmp.Or(t.AuthURL, strings.TrimSuffix(strings.TrimSuffix(t.BaseURL, "/"), "/api/v2"))
	t.TokenURL = cmp.Or(t.TokenURL, apiclient.DefaultTokenURL(t.AuthURL))
	if err := apiclient.CheckTokenURL(t.TokenURL); err != nil {
		return err
	}
	if t.Audience == "" {
		audience, err := apiclient.DefaultAudience(t.BaseURL)
		if err != nil {
			return fmt.Errorf("audience: %w", err)
		}
		t.Audience = audience
	}
	return nil
}

// completeBaseURL drops a trailing slash, and adds the path of the Management API to a
// tenant's URL without a path.
func completeBaseURL(text string) string {
	text = strings.TrimRight(text, "/")
	if u, err := url.Parse(text); err == nil && u.Host != "" && u.Path == "" && u.RawQuery == "" && u.Fragment == "" {
		return text + "/api/v2"
	}
	return text
}

// readSecrets reads the credentials: a bearer token, or the secret or the key of a client.
func (t *Settings) readSecrets(env func(string) string) (err error) {
	if t.Secret, err = cli.FileOrEnv(env, t.ClientSecretFile, t.ClientSecretEnv, "client secret",
		apiclient.ParseSecret); err != nil {
		return err
	}
	if t.Token, err = cli.FileOrEnv(env, t.TokenFile, t.TokenEnv, "token", apiclient.ParseToken); err != nil {
		return err
	}
	method, err := apiclient.ParseAuthMethod(t.ClientAuth)
	if err != nil {
		return fmt.Errorf("client-auth: %w", err)
	}
	byKey := method == apiclient.AuthPrivateKeyJWT
	bearer := !t.Token.IsZero()
	switch {
	case bearer && !t.Secret.IsZero():
		return errors.New("both a token and a client secret are set: set one of them")
	case bearer && (byKey || t.ClientKeyFile != ""):
		return errors.New("both a token and a client key are set: set one of them")
	case !byKey && t.ClientKeyAlg != "":
		return fmt.Errorf("client-key-alg is set, and client-auth is %s: it is for private-key-jwt", method)
	case !byKey && t.AssertionAudience != "":
		return fmt.Errorf("assertion-audience is set, and client-auth is %s: it is for private-key-jwt", method)
	case bearer && method != apiclient.AuthBody:
		return fmt.Errorf("both a token and client-auth %s are set: set one of them", method)
	case bearer:
		t.ClientAuth = "" // no client authenticates
		return nil
	case byKey && !t.Secret.IsZero():
		return errors.New("both a client secret and client-auth private-key-jwt are set: set one of them")
	case byKey && t.ClientKeyFile == "":
		return errors.New("client-key-file is missing: client-auth private-key-jwt signs with a private key, PEM or JWK")
	case !byKey && t.ClientKeyFile != "":
		return fmt.Errorf("client-key-file is set, and client-auth is %s: a key is for private-key-jwt", method)
	case !byKey && t.Secret.IsZero():
		return errors.New(
			"no credentials: set client-id with ORGOPS_CLIENT_SECRET or ORGOPS_CLIENT_SECRET_FILE (or with client-auth private-key-jwt and client-key-file), or set ORGOPS_TOKEN or ORGOPS_TOKEN_FILE (in a file: client_secret_file, client_secret_env, token_file or token_env)")
	case t.ClientID == "" && byKey:
		return errors.New("client-id is missing: a client key is set")
	case t.ClientID == "":
		return errors.New("client-id is missing: a client secret is set")
	case byKey:
		if err := apiclient.CheckKeyFile(t.ClientKeyFile, t.ClientKeyAlg); err != nil {
			return fmt.Errorf("client-key-file: %w", err)
		}
		t.AssertionAudience = cmp.Or(t.AssertionAudience, apiclient.DefaultAssertionAudience(t.AuthURL))
	}
	return nil
}

// readNetwork checks the format of bodies, and reads the certificate authorities.
func (t *Settings) readNetwork() error {
	if _, err := apiclient.ParseBodyFormat(t.Body); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if t.CAFile == "" {
		return nil
	}
	roots, err := apiclient.ReadRootCAs(t.CAFile)
	if err != nil {
		return fmt.Errorf("ca-file: %w", err)
	}
	t.Network.RootCAs = roots
	return nil
}

// checkLimit checks rate, burst and reserve, and derives the limit of the pace.
func (t *Settings) checkLimit() error {
	limit, err := t.limit()
	if err != nil {
		return err
	}
	switch {
	case t.Burst < 1:
		return fmt.Errorf("burst: want at least 1, got %d", t.Burst)
	case !(t.Reserve >= 0 && t.Reserve <= 95): // NaN is neither
		return fmt.Errorf("reserve: want 0 to 95 percent, got %g", t.Reserve)
	case !(t.SweepShare > 0 && t.SweepShare <= 100):
		return fmt.Errorf("sweep-share: want above 0 to 100 percent, got %g", t.SweepShare)
	case t.MaxClientsPerRequest < 1 || t.MaxClientsPerRequest > schema.MaxClientsPerRequest:
		return fmt.Errorf("max-clients-per-request: want 1 to %d, got %d", schema.MaxClientsPerRequest, t.MaxClientsPerRequest)
	case t.GiveUp <= 0:
		return fmt.Errorf("give-up: want a time above 0, got %s", t.GiveUp)
	}
	t.Limit = limit
	if left, _ := t.Limit.Effective(); left.PerSecond() < slowestRate {
		return fmt.Errorf(
			"rate: %s less the reserve of %g percent is less than one request in 30 s: a task that needs several could not end",
			t.Rate, t.Reserve)
	}
	return nil
}

// checkDNS checks the mode and the resolvers: without name servers, more is needed of them.
func (t *Settings) checkDNS() (err error) {
	if t.Mode, err = dnscheck.ParseMode(t.DNSMode); err != nil {
		return fmt.Errorf("dns-mode: want authority or resolvers, got %s", untrusted.Value(t.DNSMode))
	}
	t.DNSMode = t.Mode.String()
	return t.checkResolvers()
}

func (t *Settings) checkResolvers() error {
	if len(t.Resolvers) == 0 {
		return errors.New("resolvers: none is named")
	}
	t.DNSResolvers = nil
	for _, s := range t.Resolvers {
		r, err := dnscheck.ParseResolver(s)
		if err != nil {
			return fmt.Errorf("resolvers: %w", err)
		}
		t.DNSResolvers = append(t.DNSResolvers, r)
	}
	if len(t.DNSResolvers) < 2 {
		return fmt.Errorf("resolvers: want at least two, of different operators, since one alone proves nothing; got only %s",
			t.Resolvers[0])
	}
	// New checks the resolvers, and sends no query.
	config := dnscheck.Config{Resolvers: t.DNSResolvers, Quorum: t.ResolverQuorum, Mode: t.Mode}
	if _, err := dnscheck.New(config); err != nil {
		return fmt.Errorf("resolvers: %w", err)
	}
	var err error
	if t.ResolverQuorum, err = dnscheck.QuorumOf(t.ResolverQuorum, len(t.DNSResolvers)); err != nil {
		return fmt.Errorf("resolvers: %w", err)
	}
	return nil
}

func (t *Settings) readWebhooks(env func(string) string) (err error) {
	if t.Webhooks == "" {
		return nil
	}
	t.Endpoints, err = webhooks.ReadEndpoints(t.Webhooks, env)
	if err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	return nil
}

// slowestRate, in requests per second, lets a task that needs two requests have both
// permits within the time that it waits for one.
const slowestRate = 1.0 / 30

func (t *Settings) checkBacklog() error {
	if t.WebhookBacklog < 1 || t.WebhookBacklog > deliveries.MaxBacklog {
		return fmt.Errorf("webhook-backlog: want 1 to %d events, got %d", deliveries.MaxBacklog, t.WebhookBacklog)
	}
	return nil
}
