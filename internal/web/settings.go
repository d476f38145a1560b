package web

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Settings are those of every server with users. Their tags are of package cli.
type Settings struct {
	Access string `placeholder:"FILE" help:"File of those who have access, YAML: enqueue access new prints its entries. Reloaded when it changes."`
	Certificate
}

// Certificate names the files of a server's certificate.
type Certificate struct {
	TLSCert string `name:"tls-cert" placeholder:"FILE" help:"Certificate chain, PEM. Reloaded when it changes."`
	TLSKey  string `name:"tls-key" placeholder:"FILE" help:"Key of the certificate, PEM."`
}

// Open checks whether a server may listen on addr, the value of that flag, and reads the files.
// Other machines are served only over HTTPS and with a sign-in: of the access file, or if elsewhere
// says so of a proxy. A result is nil if no file is named.
func (s Settings) Open(
	flag, addr string, elsewhere bool, log *slog.Logger,
) (access *Access, certificate *tls.Config, err error) {
	local, err := IsLoopback(addr)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", flag, err)
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return nil, nil, errors.New("tls-cert and tls-key go together")
	case !local && s.Access == "" && !elsewhere:
		return nil, nil, fmt.Errorf("%s: %s can be reached from other machines, and everyone would get in: "+
			"name --access, a file of entries by enqueue access new; "+
			"or serve on 127.0.0.1 and forward the port (ssh -L)", flag, addr)
	case !local && s.TLSCert == "":
		return nil, nil, fmt.Errorf("%s: %s can be reached from other machines, and tokens would be sent unencrypted: "+
			"set --tls-cert and --tls-key; "+
			"or serve on 127.0.0.1, behind a proxy on this machine that terminates TLS", flag, addr)
	}
	if s.Access != "" {
		if access, err = ReadAccess(s.Access, log, time.Now); err != nil {
			return nil, nil, fmt.Errorf("access: %w", err)
		}
	}
	if s.TLSCert != "" {
		if certificate, err = TLS(s.TLSCert, s.TLSKey, log, time.Now); err != nil {
			return nil, nil, fmt.Errorf("tls-cert: %w", err)
		}
	}
	return access, certificate, nil
}
