package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestRawRequests checks which answers are problem documents, and that net/http's own, which are
// written before there is a request to handle, are as openapi.yaml describes them.
func TestRawRequests(t *testing.T) {
	w := newWorld(t)
	token := "Authorization: Bearer " + billing + "\r\n"
	const problem, text = "application/problem+json", "text/plain; charset=utf-8"
	for head, want := range map[string]string{
		"GET /v1/none HTTP/1.1\r\nHost: x\r\n" + token:                          "404 " + problem,
		"GET //v1/runs HTTP/1.1\r\nHost: x\r\n" + token:                         "404 " + problem,
		"PUT /v1/runs HTTP/1.1\r\nHost: x\r\n" + token:                          "405 " + problem,
		"GET /v1/runs HTTP/1.1\r\nHost: x\r\n":                                  "401 " + problem,
		"garbage\r\n":                                                           "400 " + text,
		"GET /v1/runs HTTP/1.1\r\n":                                             "400 " + text,
		"GET /v1/runs HTTP/1.1\r\nHost: x\r\nbad header\r\n":                    "400 " + text,
		"GET /v1/runs HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 21<<10): "431 " + text,
		"POST /v1/runs/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n":    "501 " + text,
		"GET /v1/runs HTTP/9.9\r\nHost: x\r\n":                                  "505 " + text,
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, head+"\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%.60q: %v", head, err)
		}
		if got := fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("Content-Type")); got != want {
			t.Errorf("%.60q: %s, want %s", head, got, want)
		}
		_, _ = answer.Body.Close(), conn.Close()
	}
}
