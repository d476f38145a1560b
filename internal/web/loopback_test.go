package web_test

import (
	"strings"
	"testing"

	"orgops/internal/web"
)

func TestIsLoopback(t *testing.T) {
	tests := map[string]bool{"127.9.9.9:0": true, "[::1]:65535": true, "LOCALHOST:1": true, ":8080": false,
		"[::]:8080": false, "example.com:8080": false}
	for addr, want := range tests {
		if got, err := web.IsLoopback(addr); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", addr, got, err, want)
		}
	}
	wrong := map[string]string{
		"127.0.0.1":            `"127.0.0.1": want host:port, such as 127.0.0.1:8080`,
		"":                     "want host:port",
		"127.0.0.1:http":       `want a port from 0 to 65535, got "http"`,
		"127.0.0.1:65536":      `want a port from 0 to 65535, got "65536"`,
		"127.0.0.1:":           `want a port from 0 to 65535, got ""`,
		"bad\x1b[31m.host:80:": `"bad\x1b[31m.host:80:"`,
	}
	for addr, want := range wrong {
		if _, err := web.IsLoopback(addr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", addr, err, want)
		}
	}
}
