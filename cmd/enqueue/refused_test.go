package main

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"orgops/internal/redistest"
)

// TestRefusals checks that a command that Redis refuses, or whose port is in use, names what to do.
func TestRefusals(t *testing.T) {
	server := redistest.Start(t)
	if err := server.Client().ACLSetUser(t.Context(), "reader", "on", ">secret", "~*", "+@read", "+@connection", "+info",
		"+time", "+eval", "+evalsha").Err(); err != nil {
		t.Fatal(err)
	}
	if err := server.Client().HSet(t.Context(), "orgops:v3:{tenant:default}:webhooks", "crm.failed", 1).Err(); err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", strings.Replace(server.Addr, ":", " ", 1))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	const row = "organization_id,client_id\norg_1,client_1\n"
	asReader := strings.Replace(server.URL(), "redis://", "redis://reader:secret@", 1)
	for _, tc := range []struct{ url, args, want string }{
		{server.URL(), "clients remove --run job --no-worker-yet", ""},
		{asReader, "runs show job", ""},
		{asReader, "tenant stop default --no-worker-yet", "its user may not run enqueue tenant stop: |use the user operator of deploy/redis"},
		{asReader, "runs cancel job", "may not run enqueue runs cancel: |use the user operator of deploy/redis"},
		{asReader, "tenant deliver default crm", "may not run enqueue tenant deliver: |use the user operator of deploy/redis"},
		{asReader, "clients remove --run other --no-worker-yet",
			"enqueue: Redis redis://reader:***@|/0: its user may not run enqueue clients remove: |use the user producer of deploy/redis"},
		{replica.URL(), "tenant stop default --no-worker-yet", "READONLY |\nit is a replica and takes no writes: name the master"},
		{server.URL(), "serve --no-auth --addr " + taken.Addr().String(),
			taken.Addr().String() + ": bind: address already in use\nset --addr to another address\n"},
	} {
		var out, errs bytes.Buffer
		status := run(t.Context(), strings.Fields(tc.args), strings.NewReader(row), &out, &errs,
			[]string{"ORGOPS_REDIS_URL=" + tc.url})
		if (status == 0) != (tc.want == "") {
			t.Errorf("%s: status %d\n%s", tc.args, status, &errs)
		}
		for want := range strings.SplitSeq(tc.want, "|") {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%s: %swant %q", tc.args, &errs, want)
			}
		}
		if strings.Contains(errs.String(), "secret") {
			t.Errorf("%s: the password is in %s", tc.args, &errs)
		}
	}
}
