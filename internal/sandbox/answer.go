package sandbox

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

type answer struct {
	status int
	header http.Header
	body   any    // nil: an empty body
	raw    []byte // instead of body, with its Content-Type in header
}

func (a answer) with(header http.Header) answer {
	if a.header == nil {
		a.header = http.Header{}
	}
	for name, values := range header {
		a.header[http.CanonicalHeaderKey(name)] = values
	}
	return a
}

// refuse returns an error in the service's form. An empty message is replaced by the one
// that the service was observed to send with that status.
func refuse(status int, message, code string) answer {
	if status == http.StatusTooManyRequests && message == "" {
		message = "Global limit has been reached"
		code = "too_many_requests"
	}
	if message == "" {
		message = http.StatusText(status)
	}
	body := map[string]any{"statusCode": status, "error": http.StatusText(status), "message": message}
	if code != "" {
		body["errorCode"] = code
	}
	return answer{status: status, header: http.Header{}, body: body}
}

func badRequest(part string, err error, code string) answer {
	return refuse(http.StatusBadRequest, part+" validation error: "+err.Error(), code)
}

func badBody(err error) answer { return badRequest("Payload", err, "invalid_body") }

func methodNotAllowed(allowed []string) answer {
	return refuse(http.StatusMethodNotAllowed, "", "").with(http.Header{"Allow": {strings.Join(allowed, ", ")}})
}

func (a answer) encode() ([]byte, string) {
	switch {
	case a.raw != nil:
		return a.raw, a.header.Get("Content-Type")
	case a.body == nil:
		return nil, ""
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a.body); err != nil {
		return []byte(`{}`), jsonType // maps, strings and numbers always encode
	}
	return bytes.TrimSpace(b.Bytes()), "application/json; charset=utf-8"
}
