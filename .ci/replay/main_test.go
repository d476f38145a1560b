package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recording has an exchange of each operation, as go-vcr writes them.
const recording = `version: 2
interactions:
    - id: 0
      request: {method: GET, url: "https://t.example/api/v2/organizations?take=1", body: ""}
      response:
        code: 200
        body: '{"organizations":[{"id":"org_1","name":"northwind","branding":{}}],"next":"c1"}'
        headers: {Content-Type: [application/json]}
    - id: 1
      request: {method: GET, url: "https://t.example/api/v2/organizations/org_1/discovery-domains", body: ""}
      response:
        code: 200
        body: '{"domains":[RECORD]}'
        headers: {Content-Type: [application/json]}
    - id: 2
      request: {method: POST, url: "https://t.example/api/v2/organizations/org_1/discovery-domains", body: '{"domain":"n.example"}'}
      response: {code: 201, body: 'RECORD', headers: {Content-Type: [application/json]}}
    - id: 3
      request:
        method: PATCH
        url: https://t.example/api/v2/organizations/org_1/discovery-domains/ord_1
        body: '{"status":"pending"}'
      response: {code: 200, body: 'RECORD', headers: {Content-Type: [application/json]}}
    - id: 4
      request: {method: DELETE, url: "https://t.example/api/v2/organizations/org_1/clients", body: '{"clients":["c1"]}'}
      response: {code: 204, body: "", headers: {}}
    - id: 5
      request: {method: GET, url: "https://t.example/api/v2/users/1", body: ""}
      response:
        code: 404
        body: '{"statusCode":404,"error":"Not Found","message":"No user.","errorCode":"inexistent_user"}'
        headers: {Content-Type: [application/json]}
    - id: 6
      request: {method: POST, url: "https://t.example/oauth/token", body: ""}
      response: {code: 403, body: "no", headers: {}}
`

const record = `{"id":"ord_1","domain":"n.example","status":"pending","verification_txt":"47645bc6dd646544",` +
	`"verification_host":"_ss-verification.org_1.n.example"}`

func TestReplay(t *testing.T) {
	tests := []struct {
		name, from, to string
		want           string // part of the error; empty: none
	}{
		{name: "as recorded"},
		{"a record without its host", `"verification_host"`, `"host"`, "verification_host"},
		{"a body that the client does not send", `{"clients":["c1"]}`, `{"clients":["c1"],"all":true}`, "the client sent"},
		{"an error of another form", `"statusCode":404`, `"status":404`, "not return an error of the API"},
		{"an error without its body", `{"statusCode":404,"error":"Not Found","message":"No user.","errorCode":"inexistent_user"}`,
			`{"client_secret":"[REDACTED]"}`, "no exchange of errors of any operation"},
		{"no removal", "method: DELETE", "method: PUT", "no exchange of remove_organization_clients is recorded"},
		{"no recording", "interactions:", "exchanges:", "no exchange of list_organizations is recorded"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			text := strings.ReplaceAll(recording, "RECORD", record)
			text = strings.Replace(text, tc.from, tc.to, 1)
			if err := os.WriteFile(filepath.Join(dir, "recording.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := run(t.Context(), []string{dir}, io.Discard)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
		})
	}
}
