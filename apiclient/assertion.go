package apiclient

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"orgops/internal/untrusted"
)

const (
	// assertionLife is the lifetime of an assertion: its one request may take as long, and
	// clocks differ. Servers refuse long ones.
	assertionLife = 90 * time.Second

	// assertionLead is subtracted from the time of issue, so that a server whose clock is
	// behind ours does not get an assertion from its future.
	assertionLead = 30 * time.Second

	// leastRSABits is the smallest RSA key of RFC 7518 section 3.3.
	leastRSABits = 2048
)

// assertion returns a new private_key_jwt: iss and sub are the client, jti is unique
// (RFC 7523 section 3).
func (cfg ClientCredentialsConfig) assertion(now time.Time) (Secret, error) {
	key, err := readSigningKey(cfg.KeyFile, jose.SignatureAlgorithm(cfg.KeyAlgorithm))
	if err != nil {
		return Secret{}, fmt.Errorf("client key: %w", err)
	}
	signer, err := jose.NewSigner(key, new(jose.SignerOptions).WithType("JWT"))
	if err != nil {
		return Secret{}, fmt.Errorf("client key: %s: it cannot sign: %w", cfg.KeyFile, err)
	}
	made := jwt.NewNumericDate(now.Add(-assertionLead))
	text, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": cfg.ClientID, "sub": cfg.ClientID, "aud": cfg.AssertionAudience, // not a list: not every server reads lists
		"jti": rand.Text(), "iat": made, "nbf": made, "exp": jwt.NewNumericDate(now.Add(assertionLife)),
	}).Serialize()
	if err != nil {
		return Secret{}, fmt.Errorf("client key: %s: it cannot sign: %w", cfg.KeyFile, err)
	}
	return NewSecret(text), nil
}

// CheckKeyFile checks that an assertion can be signed with the key of a file, by an
// algorithm or, if that is empty, by one that fits. The error contains nothing of the key.
func CheckKeyFile(path, algorithm string) error {
	_, err := readSigningKey(path, jose.SignatureAlgorithm(algorithm))
	return err
}

// readSigningKey reads a private key as PEM (PKCS#8, PKCS#1 or SEC1) or as one JWK, whose
// kid is put into the assertion. An empty algorithm is that of the JWK, or else RS256 for
// RSA and ES256 for P-256. Errors contain nothing of the key.
func readSigningKey(path string, algorithm jose.SignatureAlgorithm) (jose.SigningKey, error) {
	text, err := ReadSecretFile(path, ParseText)
	if err != nil {
		return jose.SigningKey{}, err
	}
	content := []byte(text.Reveal())
	read := privateKeyOfPEM
	if content[0] == '{' {
		read = privateKeyOfJWK
	}
	key, err := read(content)
	if err == nil {
		algorithm, err = fitting(key, algorithm)
	}
	if err != nil {
		return jose.SigningKey{}, fmt.Errorf("%s: %w", path, err)
	}
	return jose.SigningKey{Algorithm: algorithm, Key: key}, nil
}

var errNoPrivateKey = errors.New("it has no private key: want PEM (PKCS#8, PKCS#1 or SEC1) or a JWK")

// privateKeyOfPEM returns the first private key, and ignores certificates and parameters.
func privateKeyOfPEM(content []byte) (jose.JSONWebKey, error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return jose.JSONWebKey{}, errEncrypted
		default:
			continue
		}
		switch {
		case block.Headers["DEK-Info"] != "":
			return jose.JSONWebKey{}, errEncrypted
		case err != nil:
			return jose.JSONWebKey{}, fmt.Errorf("its %q cannot be read: %w", block.Type, err)
		}
		return jose.JSONWebKey{Key: key}, nil
	}
	return jose.JSONWebKey{}, errNoPrivateKey
}

var errEncrypted = errors.New(
	"its key is encrypted, and the worker has no passphrase for it: store it unencrypted, in a file that only the worker can read")

func privateKeyOfJWK(content []byte) (jose.JSONWebKey, error) {
	var key jose.JSONWebKey
	switch err := key.UnmarshalJSON(content); {
	case bytes.Contains(content, []byte(`"keys"`)):
		return key, errors.New("it is a set of keys: want one private key")
	case err != nil:
		return key, fmt.Errorf("its JWK cannot be read: %w", err)
	case key.IsPublic():
		return key, errors.New("it is the public key: want the private one")
	}
	return key, nil
}

// fitting returns the algorithm to sign with, or an error if the key does not fit it.
func fitting(key jose.JSONWebKey, wanted jose.SignatureAlgorithm) (jose.SignatureAlgorithm, error) {
	var can []jose.SignatureAlgorithm
	var only string
	switch k := key.Key.(type) {
	case *rsa.PrivateKey:
		can = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.PS256}
		only = "an RSA key signs with RS256, RS384 or PS256"
		if bits := k.N.BitLen(); bits < leastRSABits {
			return "", fmt.Errorf("an RSA key of %d bits is too small: want %d or more", bits, leastRSABits)
		}
	case *ecdsa.PrivateKey:
		can = []jose.SignatureAlgorithm{jose.ES256}
		only = "a P-256 key signs with ES256"
		if k.Curve != elliptic.P256() {
			return "", fmt.Errorf("a key on the curve %s cannot be used: want P-256", k.Curve.Params().Name)
		}
	default:
		return "", errors.New("a key of this kind cannot be used: want RSA or P-256")
	}
	wanted = cmp.Or(wanted, jose.SignatureAlgorithm(key.Algorithm), can[0])
	if !slices.Contains(can, wanted) {
		return "", fmt.Errorf("%s, not with %s", only, untrusted.Value(wanted))
	}
	return wanted, nil
}
