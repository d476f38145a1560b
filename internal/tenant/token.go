package tenant

import (
	"fmt"

	"orgops/apiclient"
)

// TokenSource returns the source of the tenant's tokens.
func (t Settings) TokenSource() (apiclient.TokenSource, error) {
	switch {
	case t.TokenFile != "":
		source, err := apiclient.TokenFile(t.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("tenant %s: token: %w", t.Name, err)
		}
		return source, nil
	case !t.Token.IsZero():
		return apiclient.StaticToken(t.Token), nil
	}
	return apiclient.ClientCredentials(apiclient.ClientCredentialsConfig{
		TokenURL: t.TokenURL, Audience: t.Audience, ClientID: t.ClientID, Method: apiclient.AuthMethod(t.ClientAuth),
		ClientSecret: t.Secret, ClientSecretFile: t.ClientSecretFile,
		KeyFile: t.ClientKeyFile, KeyAlgorithm: t.ClientKeyAlg, AssertionAudience: t.AssertionAudience,
		Network: t.Network,
	}), nil
}
