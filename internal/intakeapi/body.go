package intakeapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// mediaTypes are what rows may be sent as. What they are is told by their
// content; some of these say nothing, and are what clients send by themselves.
var mediaTypes = []string{
	"", "text/csv", "text/plain", "application/csv", "application/json", "application/jsonl", "application/x-jsonlines",
	"application/x-ndjson", "application/ndjson", "application/gzip", "application/x-gzip", "application/octet-stream",
	"application/x-www-form-urlencoded",
}

// checkType refuses what cannot be rows, before any of it is read.
func checkType(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	mediaType, params, err := mime.ParseMediaType(given)
	if given != "" && err != nil {
		return unsupported("The Content-Type %s is malformed.", shown(given))
	}
	if strings.HasPrefix(mediaType, "multipart/") {
		return unsupported("Send the rows as the request body, not as a form: with curl, use --data-binary @FILE instead of -F.")
	}
	if !slices.Contains(mediaTypes, mediaType) {
		return unsupported("Send rows as text/csv or application/jsonl, optionally gzipped, not as %s.", shown(mediaType))
	}
	if charset := strings.ToLower(params["charset"]); charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return unsupported("Send rows in UTF-8, not in %s.", shown(charset))
	}
	return nil
}

func unsupported(detail string, a ...any) *problem {
	return newProblem(http.StatusUnsupportedMediaType, "unsupported-type", detail, a...)
}

// gzipped says whether the body is said to be gzipped.
func gzipped(r *http.Request) (bool, error) {
	switch coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ","))); coding {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip":
		return true, nil
	default:
		return false, unsupported("The Content-Encoding must be gzip, not %s.", shown(coding))
	}
}

// receiveBody copies the body to the spool, without its gzip.
func (s *Server) receiveBody(w http.ResponseWriter, r *http.Request, to io.Writer) error {
	coded, err := gzipped(r)
	if err != nil {
		return err
	}
	if r.ContentLength > s.limits.MaxBytes {
		return s.tooLarge("body")
	}
	rc := http.NewResponseController(w)
	body := &patientBody{
		body: http.MaxBytesReader(w, r.Body, s.limits.MaxBytes), rc: rc, ctx: r.Context(), idle: s.limits.Idle, until: time.Now().Add(s.limits.Upload),
	}
	plain, err := s.decoded(body, coded)
	if err == nil {
		_, err = io.Copy(to, plain)
	}
	if err != nil {
		return s.bodyProblem(err)
	}
	// The check may take longer than the next byte was waited for, and the
	// connection is listened to meanwhile.
	_ = rc.SetReadDeadline(time.Time{})
	return nil
}

// patientBody waits for the next bytes, but not for ever.
type patientBody struct {
	body  io.Reader
	rc    *http.ResponseController
	ctx   context.Context
	idle  time.Duration
	until time.Time // for all of it
}

func (b *patientBody) Read(p []byte) (int, error) {
	deadline := time.Now().Add(b.idle)
	if deadline.After(b.until) {
		deadline = b.until
	}
	_ = b.rc.SetReadDeadline(deadline)
	n, err := b.body.Read(p)
	if err == nil && time.Now().After(b.until) {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// decoded undoes gzip: that of the transfer, which is announced, and that of
// the file, which begins with its magic number (RFC 1952 2.3.1).
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
		in = bufio.NewReaderSize(&expanded{in: unzipped, left: s.limits.MaxBytes}, 64<<10)
	}
}

// errExpands reports a gzipped body that is too large when expanded.
var errExpands = errors.New("expanded body too large")

// expanded bounds what gzip expands to.
type expanded struct {
	in   io.Reader
	left int64
}

func (e *expanded) Read(p []byte) (int, error) {
	if int64(len(p)) > e.left+1 {
		p = p[:e.left+1]
	}
	n, err := e.in.Read(p)
	if e.left -= int64(n); e.left < 0 {
		return n, errExpands
	}
	return n, err
}

func (s *Server) tooLarge(what string) *problem {
	return newProblem(http.StatusRequestEntityTooLarge, "too-large", "The %s is larger than %d bytes. Submit the rows as several runs.", what, s.limits.MaxBytes)
}

// bodyProblem says why a body could not be received. Where it is not the spool,
// it is the client.
func (s *Server) bodyProblem(err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return s.tooLarge("body")
	}
	p := badRequest("Reading the body failed: %s.", reason(err))
	switch {
	case errors.Is(err, errExpands):
		p = s.tooLarge("expanded body")
	case errors.Is(err, os.ErrDeadlineExceeded):
		p = newProblem(http.StatusRequestTimeout, "body-timeout", "No data arrived for %s, or the upload took longer than %s.", s.limits.Idle, s.limits.Upload)
	}
	p.cause = err
	return p
}

func reason(err error) string {
	switch {
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it was cut off"
	}
	return fmt.Sprintf("%.100q", err)
}
