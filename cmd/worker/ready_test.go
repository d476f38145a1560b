package main

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"orgops/internal/intake"
	"orgops/internal/redistest"
	"orgops/internal/sandbox"
	"orgops/tasks"
)

// closed is an address where nobody answers.
func closed(t *testing.T) string {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packets.Close() }()
	return packets.LocalAddr().String()
}

func TestReadinessSaysWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, env map[string]string, box *sandbox.Sandbox)
		row    bool
		status int
		want   []string
	}{
		{"nothing", nil, false, http.StatusOK, []string{"redis: ok\n", "tenant default: ok\n", "tenant default token: ok\n", "tenant default resolvers: ok\n"}},
		{"one resolver of three", func(t *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			all := strings.Split(env["ORGOPS_RESOLVERS"], ",")
			env["ORGOPS_RESOLVERS"] = strings.Join(append(all[:2:2], closed(t)), ",")
		}, false, http.StatusOK, []string{"ready\n", "tenant default resolvers: ok, but 1 of 3 resolvers do not answer: 127.0.0.1:"}},
		{"the quorum of resolvers", func(t *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			all := strings.Split(env["ORGOPS_RESOLVERS"], ",")
			env["ORGOPS_RESOLVERS"] = strings.Join([]string{all[0], closed(t), closed(t)}, ",")
		}, false, http.StatusServiceUnavailable, []string{"not ready\n", "tenant default resolvers: 2 of 3 resolvers do not answer: 127.0.0.1:", "nothing can be proven without 2 of them: see that this machine"}},
		{"all of one perspective", func(t *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			all := strings.Split(env["ORGOPS_RESOLVERS"], ",")
			env["ORGOPS_RESOLVERS"] = strings.Join([]string{all[0] + "@eu", all[1] + "@eu", closed(t) + "@us"}, ",")
		}, false, http.StatusServiceUnavailable, []string{"not ready\n", "tenant default resolvers: 1 of 3 resolvers do not answer: 127.0.0.1:", "nothing can be proven without 2 (in two perspectives) of them: see that this machine"}},
		{"the secret", func(_ *testing.T, env map[string]string, _ *sandbox.Sandbox) {
			env["ORGOPS_CLIENT_SECRET"] = "no such secret"
		},
			true, http.StatusServiceUnavailable, []string{"tenant default token: no token: POST http://", "401", "check the client id"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			box, d := startBox(t, sandbox.Options{}), newDesk(t)
			env := pointedAt(box, redistest.URL(t), map[string]string{"ORGOPS_PROBE_ADDR": "127.0.0.1:0"})
			if tc.change != nil {
				tc.change(t, env, box)
			}
			p := begin(t, env)
			p.says("worker started", nil)
			if tc.row {
				d.handIn(intake.Run{ID: "updates"}, tasks.TypeUpdate, box.SeedUpdates(1))
				d.openFor("updates", 1, "no token")
			}
			var status int
			var body string
			await(t, "the status", func() bool {
				status, body = p.page("probe-addr", "/readyz")
				return status == tc.status
			})
			for _, want := range tc.want {
				if !strings.Contains(body, want) {
					t.Errorf("/readyz: %s\nwant it to say %q", body, want)
				}
			}
			if strings.Contains(body, "no such secret") {
				t.Error("the secret is told")
			}
		})
	}
}
