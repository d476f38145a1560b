package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"orgops/apiclient"
	"orgops/apiclient/schema"
)

// exchange is a recorded request with its answer.
type exchange struct {
	ID      int `yaml:"id"`
	Request struct {
		Method string `yaml:"method"`
		URL    string `yaml:"url"`
		Body   string `yaml:"body"`
	} `yaml:"request"`
	Response struct {
		Code    int         `yaml:"code"`
		Body    string      `yaml:"body"`
		Headers http.Header `yaml:"headers"`
	} `yaml:"response"`
}

// read reads the exchanges of a recording.
func read(path string) ([]exchange, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var recording struct {
		Interactions []exchange `yaml:"interactions"`
	}
	if err := yaml.Unmarshal(text, &recording); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return recording.Interactions, nil
}

// Exchanges that are counted apart from their operations.
const (
	anyError = "errors of any operation"
	// redacted are errors whose whole body was replaced in the recording: they have no message.
	redacted = "errors without their body"
)

// replay sends the request by the client, to a server that gives the recorded answer. It returns
// the operation, or "" if the client has none for the request, and how the exchange differs.
func (x exchange) replay(ctx context.Context) (operation string, err error) {
	u, err := url.Parse(x.Request.URL)
	if err != nil {
		return "", err
	}
	path, ofAPI := strings.CutPrefix(u.Path, "/api/v2/")
	if !ofAPI {
		return "", nil
	}
	server := serve(x)
	defer server.Close()
	client, err := apiclient.New(apiclient.Config{
		BaseURL: server.URL + "/api/v2",
		Tokens:  apiclient.StaticToken(apiclient.NewSecret("a token")),
	})
	if err != nil {
		return "", err
	}
	defer client.CloseIdle()

	// The answer to a refused token is another one: the client fetches a token.
	if x.Response.Code == http.StatusUnauthorized {
		return "", nil
	}
	// Errors have one form in all operations.
	if x.Response.Code >= http.StatusBadRequest {
		if !strings.Contains(x.Response.Body, `"message"`) {
			return redacted, nil
		}
		_, _, err := client.OrganizationsPage(ctx, "")
		return anyError, x.isError(err)
	}

	parts := strings.Split(path, "/")
	if parts[0] != "organizations" {
		return "", nil
	}
	var organization string
	if len(parts) > 1 {
		organization = parts[1]
	}
	switch pattern := x.Request.Method + " " + shape(parts); pattern {
	case "GET organizations":
		page, next, err := client.OrganizationsPage(ctx, u.Query().Get("from"))
		return schema.OpListOrganizations, sameList(x.Response.Body, "organizations", page, next, err)
	case "GET organizations/*/discovery-domains":
		page, next, err := client.DiscoveryDomainsPage(ctx, organization, u.Query().Get("from"))
		err = errors.Join(err, server.sent(x.Request.Method, u.Path, ""))
		return schema.OpListDiscoveryDomains, sameList(x.Response.Body, "domains", page, next, err)
	case "GET organizations/*/discovery-domains/*":
		record, err := client.DiscoveryDomain(ctx, organization, parts[3])
		err = errors.Join(err, server.sent(x.Request.Method, u.Path, ""))
		return schema.OpGetDiscoveryDomain, errors.Join(err, same(x.Response.Body, record))
	case "POST organizations/*/discovery-domains":
		// The client creates none. The record is that of a read.
		var created struct{ ID string }
		if err := json.Unmarshal([]byte(x.Response.Body), &created); err != nil {
			return schema.OpGetDiscoveryDomain, err
		}
		record, err := client.DiscoveryDomain(ctx, organization, created.ID)
		return schema.OpGetDiscoveryDomain, errors.Join(err, same(x.Response.Body, record))
	case "PATCH organizations/*/discovery-domains/*":
		var update schema.DiscoveryDomainUpdate
		if err := json.Unmarshal([]byte(x.Request.Body), &update); err != nil {
			return schema.OpUpdateDiscoveryDomain, err
		}
		record, err := client.UpdateDiscoveryDomain(ctx, organization, parts[3], update, nil)
		err = errors.Join(err, server.sent(x.Request.Method, u.Path, x.Request.Body))
		return schema.OpUpdateDiscoveryDomain, errors.Join(err, same(x.Response.Body, record))
	case "DELETE organizations/*/clients":
		var removal struct{ Clients []string }
		if err := json.Unmarshal([]byte(x.Request.Body), &removal); err != nil {
			return schema.OpRemoveOrganizationClients, err
		}
		err := client.RemoveOrganizationClients(ctx, organization, removal.Clients)
		return schema.OpRemoveOrganizationClients, errors.Join(err, server.sent(x.Request.Method, u.Path, x.Request.Body))
	}
	return "", nil
}

// shape returns a path with * for its identifiers, which are every second part.
func shape(parts []string) string {
	shaped := make([]string, len(parts))
	for i, part := range parts {
		shaped[i] = part
		if i%2 == 1 {
			shaped[i] = "*"
		}
	}
	return strings.Join(shaped, "/")
}

// recorder is a server that gives one answer, and keeps the last request.
type recorder struct {
	*httptest.Server
	method, path, body string
}

func serve(x exchange) *recorder {
	s := &recorder{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.method = r.Method
		s.path = r.URL.Path
		s.body = string(body)
		w.Header().Set("Content-Type", x.Response.Headers.Get("Content-Type"))
		w.WriteHeader(x.Response.Code)
		_, _ = io.WriteString(w, x.Response.Body)
	}))
	return s
}

// sent reports how the last request differs from the recorded one.
func (s *recorder) sent(method, path, body string) error {
	if s.method != method || s.path != path {
		return fmt.Errorf("the client sent %s %s", s.method, s.path)
	}
	if body == "" && s.body == "" {
		return nil
	}
	var want any
	var got any
	err := errors.Join(json.Unmarshal([]byte(body), &want), json.Unmarshal([]byte(s.body), &got))
	if err == nil && !reflect.DeepEqual(got, want) {
		err = fmt.Errorf("the client sent %s, recorded is %s", s.body, body)
	}
	return err
}

// isError reports how err differs from the recorded error.
func (x exchange) isError(err error) error {
	var body struct{ Message, ErrorCode string }
	if err := json.Unmarshal([]byte(x.Response.Body), &body); err != nil {
		return fmt.Errorf("the recorded error: %w", err)
	}
	got, ok := errors.AsType[*apiclient.Error](err)
	switch {
	case !ok:
		return fmt.Errorf("the client does not return an error of the API, but %w", err)
	case got.Status != x.Response.Code || got.Code != body.ErrorCode:
		return fmt.Errorf("the client reads %d %s", got.Status, got.Code)
	case !begins(body.Message, got.Message):
		return fmt.Errorf("the client reads the message %q", got.Message)
	}
	return nil
}

// begins reports whether a text that the client may have cut is the beginning of the whole.
func begins(whole, cut string) bool { return strings.HasPrefix(whole, strings.TrimSuffix(cut, "…")) }

// sameList reports how a page differs from the recorded body, whose records are in member.
func sameList[T any](body, member string, page []apiclient.Listed[T], next string, err error) error {
	if err != nil {
		return err
	}
	var recorded map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &recorded); err != nil {
		return err
	}
	var records []json.RawMessage
	if err := json.Unmarshal(recorded[member], &records); err != nil {
		return err
	}
	var checkpoint string
	if recorded["next"] != nil {
		if err := json.Unmarshal(recorded["next"], &checkpoint); err != nil {
			return err
		}
	}
	if next != checkpoint || len(page) != len(records) {
		return fmt.Errorf("the client reads %d records and the checkpoint %q, recorded are %d and %q", len(page), next,
			len(records), checkpoint)
	}
	for i, listed := range page {
		if err := errors.Join(listed.Err, same(string(records[i]), listed.Record)); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return nil
}

// same reports how the members of a record differ from those of the recorded body. Members that the
// client does not read may be anything.
func same(body string, record any) error {
	encoded, err := json.Marshal(record)
	if err != nil {
		return err
	}
	var got map[string]any
	var want map[string]any
	if err := errors.Join(json.Unmarshal(encoded, &got), json.Unmarshal([]byte(body), &want)); err != nil {
		return err
	}
	for member, value := range got {
		if !reflect.DeepEqual(value, want[member]) {
			return fmt.Errorf("the client reads %s as %v, recorded is %v", member, value, want[member])
		}
	}
	return nil
}
