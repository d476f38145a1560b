package sandbox

import (
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
)

func (f Fault) answer() answer {
	status := f.Status
	switch {
	case status != 0:
	case f.HTML:
		status = http.StatusBadGateway
	case f.Redirect != "":
		status = http.StatusFound
	default:
		status = http.StatusOK
	}
	a := refuse(status, "", "")
	switch {
	case f.HTML:
		a.raw = []byte("<html><head><title>" + http.StatusText(status) + "</title></head><body>" + f.Body +
			"</body></html>\n")
		a.header.Set("Content-Type", "text/html; charset=utf-8")
	case f.Body != "":
		a.raw = []byte(f.Body)
		a.header.Set("Content-Type", "application/json; charset=utf-8")
	case status < 300 || f.Redirect != "":
		a.body = nil
	}
	if f.Redirect != "" {
		a.header.Set("Location", f.Redirect)
	}
	return a
}

func (s *Sandbox) send(w http.ResponseWriter, r *http.Request, a answer, f Fault) {
	body, contentType := a.encode()
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat)) // by the clock of x-ratelimit-reset
	maps.Copy(w.Header(), a.header)
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		body = nil
	} else if !f.Endless {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(a.status)
	switch {
	case f.Endless:
		for blank := []byte(strings.Repeat(" ", 32<<10)); r.Context().Err() == nil && s.closing.Err() == nil &&
			write(w, blank); {
			continue
		}
	case f.Truncate:
		write(w, body[:len(body)/2])
		panic(http.ErrAbortHandler) // closes the connection without the rest
	case f.Drip > 0:
		for i := range body {
			s.pause(f.Drip)
			if r.Context().Err() != nil || !write(w, body[i:i+1]) {
				return
			}
		}
	default:
		write(w, body)
	}
}

// write writes and flushes the body; false: the client has disconnected.
func write(w http.ResponseWriter, body []byte) bool {
	if _, err := w.Write(body); err != nil {
		return false
	}
	return http.NewResponseController(w).Flush() == nil
}

// writeNoHTTP answers as a server of another protocol may, with a TLS alert, and closes the
// connection.
func writeNoHTTP(w http.ResponseWriter) {
	conn := hijack(w)
	_, _ = conn.Write([]byte("\x15\x03\x01\x00\x02\x02\x46\r\n\r\n")) // the client may have disconnected
	_ = conn.Close()
}

// reset closes the connection with an RST, as a crash or a broken network does.
func reset(w http.ResponseWriter) {
	conn := hijack(w)
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise Close sends a FIN
	}
	_ = conn.Close()
}

func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return conn
}
