package redisconn_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"orgops/internal/redisconn"
)

// pair writes a certificate for loopback that signs itself, and its key, and returns their files.
func pair(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true,
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	for file, block := range map[string]pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(&block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestCertificates connects to a Redis that wants a client's certificate, which is replaced
// meanwhile.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	serverCert, serverKey := pair(t, dir, "server")
	cert, key := pair(t, dir, "client")
	identity, err := tls.LoadX509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	names := make(chan string, 100)
	server, err := miniredis.RunTLS(&tls.Config{
		Certificates: []tls.Certificate{identity}, ClientAuth: tls.RequireAnyClientCert,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			c, err := x509.ParseCertificate(raw[0])
			if err == nil {
				names <- c.Subject.CommonName
			}
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	flags := redisconn.Flags{
		RedisURL: "rediss://" + server.Addr(), RedisCAFile: serverCert, RedisCertFile: cert, RedisKeyFile: key,
	}
	none := func() (string, error) { return "", nil }
	ping := func(f redisconn.Flags) error {
		t.Helper()
		c, err := f.Config(false, none)
		if err != nil {
			t.Fatal(err)
		}
		return open(t, c).Ping(t.Context()).Err()
	}
	c, err := flags.Config(false, none)
	if err != nil {
		t.Fatal(err)
	}
	if err := open(t, c).Ping(t.Context()).Err(); err != nil || <-names != "client" {
		t.Fatalf("with all files: %v", err)
	}
	renewed, renewedKey := pair(t, dir, "renewed")
	if err := errors.Join(os.Rename(renewed, cert), os.Rename(renewedKey, key)); err != nil {
		t.Fatal(err)
	}
	if err := open(t, c).Ping(t.Context()).Err(); err != nil || <-names != "renewed" {
		t.Errorf("after the certificate was replaced: %v", err)
	}
	if err := ping(redisconn.Flags{RedisURL: flags.RedisURL, RedisCertFile: cert, RedisKeyFile: key}); err == nil {
		t.Error("an authority that is not known is accepted")
	}
	if err := ping(redisconn.Flags{RedisURL: flags.RedisURL, RedisCAFile: serverCert}); err == nil {
		t.Error("Redis accepts a client without a certificate")
	}
}

// TestWrongFiles names files that are of no use.
func TestWrongFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := pair(t, dir, "a")
	_, other := pair(t, dir, "b")
	for _, c := range []struct {
		flags redisconn.Flags
		want  string
	}{
		{redisconn.Flags{RedisURL: "redis://h", RedisCAFile: cert}, "redis-url: redis://h:6379/0 is without TLS"},
		{redisconn.Flags{RedisURL: "rediss://h", RedisCertFile: cert}, "redis-cert-file and redis-key-file: give both or none"},
		{redisconn.Flags{RedisURL: "rediss://h", RedisCAFile: key}, "redis-ca-file: " + key + " has no certificate in PEM"},
		{redisconn.Flags{RedisURL: "rediss://h", RedisCAFile: dir + "/none"}, "redis-ca-file: open " + dir + "/none"},
		{redisconn.Flags{RedisURL: "rediss://h", RedisCertFile: cert, RedisKeyFile: other}, "private key does not match"},
	} {
		if _, err := c.flags.Config(false, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.flags, err, c.want)
		}
	}
}

// TestPasswordIsReadAgain changes the password of a Redis.
func TestPasswordIsReadAgain(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireAuth("former")
	password := "former"
	client := open(t, redisconn.Config{URL: "redis://" + server.Addr(), PoolSize: 1,
		ReadPassword: func() (string, error) { return password, nil }})
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	server.Close() // ends the connections
	password = "latter"
	server.RequireAuth("latter")
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after the password was changed: %v", err)
	}
}
