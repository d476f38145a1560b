package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Flags are the flags that identify a Redis.
type Flags struct {
	RedisURL      string `help:"Redis: redis://, rediss://, redis-sentinel://, redis-cluster:// or unix://. Set the password in ORGOPS_REDIS_PASSWORD or ORGOPS_REDIS_PASSWORD_FILE. Without ORGOPS_REDIS_URL, REDIS_URL counts." default:"redis://127.0.0.1:6379/0" orenv:"REDIS_URL"`
	RedisCAFile   string `help:"Certificate authorities to trust for Redis in addition to the system's, PEM." placeholder:"FILE"`
	RedisCertFile string `help:"Certificate for Redis to know this program by, PEM, with --redis-key-file." placeholder:"FILE"`
	RedisKeyFile  string `help:"Private key of that certificate, PEM. Both files are read again for each connection." placeholder:"FILE"`
}

// Config returns how to connect. fromArgs says that the URL was given on the command line, where a
// password does not belong. readPassword reads the password.
func (f Flags) Config(fromArgs bool, readPassword func() (string, error)) (c Config, err error) {
	c = Config{URL: f.RedisURL, ReadPassword: readPassword, AllowURLPassword: !fromArgs}
	t, err := check(c.URL, c.AllowURLPassword)
	if err != nil {
		return c, err
	}
	files := f.RedisCAFile + f.RedisCertFile + f.RedisKeyFile
	switch {
	case files != "" && !t.tls:
		return c, fmt.Errorf("redis-url: %s is without TLS, and certificates are given: want rediss://, rediss-sentinel:// "+
			"or rediss-cluster://", t)
	case (f.RedisCertFile == "") != (f.RedisKeyFile == ""):
		return c, errors.New("redis-cert-file and redis-key-file: give both or none")
	}
	c.TLS, err = f.tls()
	return c, err
}

// tls returns the settings of TLS by the files, which it reads once to find faults in them.
func (f Flags) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.RedisCAFile != "" {
		pem, err := os.ReadFile(f.RedisCAFile)
		if err != nil {
			return nil, fmt.Errorf("redis-ca-file: %w", err)
		}
		if c.RootCAs, err = x509.SystemCertPool(); err != nil {
			c.RootCAs = x509.NewCertPool()
		}
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis-ca-file: %s has no certificate in PEM", f.RedisCAFile)
		}
	}
	if f.RedisCertFile == "" {
		return c, nil
	}
	read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.RedisCertFile, f.RedisKeyFile)
		if err != nil {
			err = fmt.Errorf("redis-cert-file and redis-key-file: %w", err)
		}
		return &pair, err
	}
	c.GetClientCertificate = read
	_, err := read(nil)
	return c, err
}
