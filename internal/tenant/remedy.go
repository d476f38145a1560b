package tenant

import (
	"cmp"
	"strings"

	"orgops/apiclient"
)

// Remedy returns what a person should do while requests of the tenant are refused for a fault. It
// names the file or variable of the credential, and whether workers have to be started again.
func (t Settings) Remedy(fault apiclient.Fault) string {
	switch fault {
	case apiclient.FaultOfToken:
		return t.mendCredential()
	case apiclient.FaultOfScope:
		grant := "grant " + t.client() + " the scope at the platform"
		if t.TokenFile != "" || !t.Token.IsZero() { // its scopes are those of when it was made
			return grant + ", and " + t.mendCredential()
		}
		return grant
	case apiclient.FaultOfOperation:
		return "change what the tenant's plan or settings allow at the platform, or cancel the runs that need it"
	case apiclient.FaultOfTenant:
		return "check the base URL (" + t.BaseURL + "), and the proxy or firewall before the API: the answer is not the API's"
	case apiclient.FaultOfEndpoint:
		return "check the token URL (" + t.TokenURL + "), which is not followed elsewhere, and the way there: DNS, firewall, proxy"
	case apiclient.FaultOfCertificate:
		return "name the certificate of the server's authority by --ca-file (ca_file in the file of tenants)"
	case apiclient.FaultOfProxy:
		return "check HTTPS_PROXY with its user and password, and that the proxy admits this host; NO_PROXY excludes hosts"
	}
	return "do what the reason says"
}

func (t Settings) client() string {
	if t.ClientID == "" {
		return "the token's client"
	}
	return "client " + t.ClientID
}

// mendCredential says where the credential is. Files are read again for each token, and variables
// by a new process alone.
func (t Settings) mendCredential() string {
	const restart = ", and start the workers again"
	audience := " for the audience " + t.Audience
	switch {
	case t.TokenFile != "":
		return "put a new token" + audience + " into " + t.TokenFile + again(t.TokenFile)
	case !t.Token.IsZero():
		return "put a new token" + audience + " into " + cmp.Or(t.TokenEnv, "its variable") + restart +
			"; a file would be read again"
	}
	client := "check " + t.client() + ", the audience " + t.Audience
	switch {
	case t.ClientKeyFile != "":
		return client + " and the key in " + t.ClientKeyFile + again(t.ClientKeyFile)
	case t.ClientSecretFile != "":
		return client + " and the secret in " + t.ClientSecretFile + again(t.ClientSecretFile)
	}
	return client + " and the secret in " + cmp.Or(t.ClientSecretEnv, "its variable") + restart
}

// again says what becomes of a file that is replaced. Under systemd it is a copy.
func again(file string) string {
	if strings.HasPrefix(file, "/run/credentials/") {
		return ", which systemd copies at the start: restart the worker"
	}
	return ", which is read again without a restart"
}
