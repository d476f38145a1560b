package httpapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"orgops/internal/untrusted"
	"orgops/internal/web"
)

// mediaTypes are the media types that rows may be sent as. The content decides on their
// format: some of these types say nothing about it, but clients send them by default.
var mediaTypes = []string{
	"", "text/csv", "text/tab-separated-values", "text/plain", "application/csv", "application/json", "application/jsonl",
	"application/x-jsonlines", "application/x-ndjson", "application/ndjson", "application/gzip", "application/x-gzip",
	"application/octet-stream", "application/x-www-form-urlencoded",
}

// checkType refuses a body that cannot be rows, before any of it is read.
func checkType(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	mediaType, params, err := mime.ParseMediaType(given)
	if given != "" && err != nil {
		return unsupported("The Content-Type %s is malformed.", untrusted.Value(given))
	}
	if strings.HasPrefix(mediaType, "multipart/") {
		return unsupported(
			"Send the rows as the request body, not as a form: with curl, use --data-binary @FILE instead of -F.")
	}
	if !slices.Contains(mediaTypes, mediaType) {
		return unsupported("Send rows as text/csv or application/jsonl, optionally gzipped, not as %s.",
			untrusted.Value(mediaType))
	}
	switch charset := strings.ToLower(params["charset"]); charset {
	case "", "utf-8", "us-ascii", "utf-16", "utf-16le", "utf-16be": // the content decides
	default:
		return unsupported("Send rows in UTF-8 or UTF-16, not in %s.", untrusted.Value(charset))
	}
	return nil
}

func unsupported(detail string, a ...any) *problem {
	return newProblem(http.StatusUnsupportedMediaType, "unsupported-type", detail, a...)
}

// gzipped reports whether the header says that the body is gzipped.
func gzipped(r *http.Request) (bool, error) {
	switch coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ","))); coding {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip":
		return true, nil
	default:
		return false, unsupported("The Content-Encoding must be gzip, not %s.", untrusted.Value(coding))
	}
}

// body is the body of a request, unzipped. Its errors are problems.
type body struct {
	server    *Server
	raw       *patientBody
	announced bool      // the header says that it is gzipped
	plain     io.Reader // nil before the first Read
	caller    string
	held      int // bytes of rows
}

// openBody returns the body, or a problem if its head says that it cannot be read.
func (s *Server) openBody(w http.ResponseWriter, r *http.Request) (*body, error) {
	announced, err := gzipped(r)
	if err != nil {
		return nil, err
	}
	if r.ContentLength > s.limits.MaxBytes {
		return nil, s.tooLarge()
	}
	return &body{server: s, announced: announced, caller: web.Of(r.Context()).User.Name, raw: &patientBody{
		body: http.MaxBytesReader(w, r.Body, s.limits.MaxBytes), rc: http.NewResponseController(w),
		left: s.limits.Idle, idle: s.limits.Idle, until: time.Now().Add(s.limits.Upload),
	}}, nil
}

func (b *body) Read(p []byte) (n int, err error) {
	if b.plain == nil {
		b.plain, err = b.server.decoded(b.raw, b.announced)
	}
	if err == nil {
		n, err = b.plain.Read(p)
		if refused := b.server.bytes.Add(b.caller, n); refused != nil {
			return 0, refused
		}
		b.held += n
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.server.bodyProblem(err)
	}
	return n, err
}

// drain reads the rest of a body whose rows are refused: many clients read the answer only
// when they have sent all of it.
func (b *body) drain() { _, _ = io.Copy(io.Discard, b.raw) }

// free frees the bytes of the rows, which are committed, or deleted. It is called once.
func (b *body) free() { _ = b.server.bytes.Add(b.caller, -b.held) }

// leastRate is how many bytes of a body have to arrive in a second, after the first ones.
const leastRate = 10 << 10

// patientBody waits for the next bytes for a time, which a client slower than leastRate uses up;
// and for all of them. Another goroutine may end it: see arriving.
type patientBody struct {
	body  io.Reader
	rc    *http.ResponseController
	left  time.Duration // for which the client may still be waited for
	idle  time.Duration // the most of it
	until time.Time     // for all of it
	err   error         // of the last Read

	mu     sync.Mutex
	got    int           // bytes
	waited time.Duration // for them
	since  time.Time     // of the Read in progress; zero: there is none
	over   bool          // nothing more is read
	ended  *problem      // why another goroutine has ended it
}

func (b *patientBody) Read(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	began := time.Now()
	deadline := began.Add(b.left)
	if deadline.After(b.until) {
		deadline = b.until
	}
	if ended := b.wait(began, deadline); ended != nil {
		b.err = ended
		return 0, b.err
	}
	n, b.err = b.body.Read(p)
	if ended := b.waitedFor(n, b.err); ended != nil {
		b.err = ended // the deadline that ended the Read stays
		return 0, b.err
	}
	b.left = min(b.idle, b.left-time.Since(began)+time.Duration(n)*time.Second/leastRate)
	if b.err == nil && time.Now().After(b.until) {
		b.err = os.ErrDeadlineExceeded
	}
	// To store the rows may take longer than the next bytes are waited for, and over HTTP/2 a
	// deadline ends a body that is not being read. After an error it stays: net/http tries
	// to read the rest before it answers.
	if b.err == nil || errors.Is(b.err, io.EOF) {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, b.err
}

// wait begins to wait for the next bytes, unless the body was ended.
func (b *patientBody) wait(now, deadline time.Time) *problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended == nil {
		b.since = now
		_ = b.rc.SetReadDeadline(deadline)
	}
	return b.ended
}

// waitedFor notes the result of a Read, and returns why the body was ended meanwhile.
func (b *patientBody) waitedFor(n int, err error) *problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got += n
	b.waited += time.Since(b.since)
	b.since = time.Time{}
	b.over = err != nil
	return b.ended
}

// rate returns how many bytes have arrived in a second for which the client was waited for, and how
// long that was; 0 if nothing more is read.
func (b *patientBody) rate(now time.Time) (rate float64, waited time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, 0
	}
	waited = b.waited
	if !b.since.IsZero() {
		waited += now.Sub(b.since)
	}
	return float64(b.got) / max(waited.Seconds(), 1e-3), waited
}

// end ends the body with a problem.
func (b *patientBody) end(why *problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = why
	if !b.since.IsZero() {
		_ = b.rc.SetReadDeadline(time.Unix(1, 0))
	}
}

// decoded undoes gzip: that of the transfer, which is announced, and that of the file, which
// begins with its magic number (RFC 1952 2.3.1). The size of each expansion is bounded like a body.
func (s *Server) decoded(body io.Reader, announced bool) (io.Reader, error) {
	in := bufio.NewReaderSize(body, 64<<10)
	for layer := 0; ; layer++ {
		magic, err := in.Peek(2)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		isGzip := bytes.Equal(magic, []byte{0x1f, 0x8b})
		switch {
		case announced && layer == 0 && !isGzip:
			return nil, badRequest("The Content-Encoding is gzip, but the body is not gzipped.")
		case !isGzip:
			return in, nil
		case layer == 2 || (layer == 1 && !announced):
			return nil, badRequest("The rows are gzipped more than once.")
		}
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(http.MaxBytesReader(nil, unzipped, s.limits.MaxBytes), 64<<10)
	}
}

func (s *Server) tooLarge() *problem {
	return newProblem(http.StatusRequestEntityTooLarge, "too-large",
		"The body, or its expanded content, is larger than %d bytes. Submit the rows as several runs.", s.limits.MaxBytes)
}

// bodyProblem returns why a body could not be read.
func (s *Server) bodyProblem(err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return s.tooLarge()
	}
	reason := untrusted.Value(err.Error())
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return newProblem(http.StatusRequestTimeout, "body-timeout",
			"No data arrived for %s, or less than 10 KiB/s for longer, or the upload took longer than %s.",
			s.limits.Idle, s.limits.Upload).because(err).at("upload_rate")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		reason = err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		reason = "it was cut off"
	}
	return badRequest("Reading the body failed: %s.", reason).because(err)
}
