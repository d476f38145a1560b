package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/dnscheck"
	"orgops/dnscheck/dnsname"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/pace"
)

// Errors as package pace returns them.
type (
	noPermit struct {
		after    time.Duration
		stopping bool
	}
	blocked struct{ after time.Duration }
)

func (noPermit) Error() string            { return "no permit" }
func (e noPermit) RetryIn() time.Duration { return e.after }
func (e noPermit) Stopping() bool         { return e.stopping }
func (blocked) Error() string             { return "blocked for all" }
func (e blocked) RetryIn() time.Duration  { return e.after }
func (blocked) Blocked() bool             { return true }

// Errors of package pace have the methods that Decide uses.
var (
	_ interface {
		RetryIn() time.Duration
		Stopping() bool
	} = &pace.NoPermitError{}
	_ interface {
		RetryIn() time.Duration
		Blocked() bool
	} = &pace.BlockedError{}
)

// redisAnswer is an error that Redis answers.
type redisAnswer string

func (a redisAnswer) Error() string { return string(a) }
func (redisAnswer) RedisError()     {}

func answer(status int) *apiclient.Error {
	return &apiclient.Error{Operation: schema.OpGetDiscoveryDomain, Method: "GET", Path: "/x",
		Status: status, Message: "says so"}
}

// of is an answer with a code and a message.
func of(status int, code, message string) *apiclient.Error {
	a := answer(status)
	a.Code, a.Message = code, message
	return a
}

// page is an answer of something before the API.
func page(status int) *apiclient.AnswerError {
	return &apiclient.AnswerError{Status: status, Foreign: true, Err: errors.New("x")}
}

// TestDecide checks the consequence of each error, also of one that is wrapped or joined. Those of
// the API's answers are in TestFaultMatrix too.
func TestDecide(t *testing.T) {
	const s = time.Second
	lacksScopeInWords := answer(403)
	lacksScopeInWords.Message = "Insufficient scope, expected any of: read:x"
	overloadedForLong := answer(503)
	overloadedForLong.RetryAfter = 20 * time.Hour

	type decided struct {
		Outcome   ledger.Outcome
		After     time.Duration
		Counts    bool
		Operation string
	}
	trouble := decided{ledger.Transient, 0, true, ""}
	refused := decided{ledger.Refused, 0, false, ""}
	invalid := decided{ledger.InvalidRow, 0, false, ""}
	stopping := decided{ledger.Stopping, 0, false, ""}
	all := decided{ledger.Blocked, 30 * s, false, "*"}
	one := decided{ledger.Blocked, 30 * s, false, schema.OpGetDiscoveryDomain}
	away := decided{ledger.Transient, 10 * s, false, ""}
	unreachable := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	paced := func(after time.Duration) decided { return decided{ledger.Paced, after, false, ""} }

	for _, test := range []struct {
		name string
		err  error
		want decided
	}{
		{"nothing", nil, decided{ledger.Done, 0, false, ""}},

		{"refused", engine.Refuse("no %d", 1), refused},
		{"invalid", engine.Invalid(errors.New("no")), invalid},
		{"transient", engine.Retry(errors.New("no")), trouble},
		{"transient, after half a minute", engine.RetryAfter(errors.New("no"), 30*s),
			decided{ledger.Transient, 30 * s, true, ""}},
		{"a refusal that may pass", engine.Retry(engine.Refuse("no")), trouble},
		{"a 404 that may pass", engine.Retry(answer(404)), trouble},
		{"stopping", engine.ErrStopping, stopping},
		{"stopped run", engine.ErrStopped, decided{ledger.Stopped, 0, false, ""}},
		{"superseded", engine.ErrSuperseded, decided{ledger.Superseded, 0, false, ""}},
		{"a newer member", &engine.UnknownError{What: "a member"}, decided{ledger.Unrecognized, 5 * s, false, ""}},

		{"no permit", noPermit{after: 20 * s}, paced(20 * s)},
		{"no permit, at once", noPermit{}, paced(s)},
		{"no permit, stopping", noPermit{after: 20 * s, stopping: true}, stopping},
		{"no permit of package pace", &pace.NoPermitError{After: 5 * s, Why: "it is used up"}, paced(5 * s)},
		{"blocked", blocked{30 * s}, decided{ledger.Blocked, 30 * s, false, ""}},
		{"blocked, the probe is due", blocked{}, decided{ledger.Blocked, 30 * s, false, ""}},
		{"blocked by package pace", &pace.BlockedError{Operation: "x", Reason: "y", After: 12 * s},
			decided{ledger.Blocked, 30 * s, false, ""}},

		{"no permit for a year", noPermit{after: 365 * 24 * time.Hour}, paced(30 * time.Second)},
		{"no permit of package pace for two hours", &pace.NoPermitError{After: 2 * time.Hour,
			Why: "the budget of 1/h is spent"}, paced(30 * time.Second)},
		// unless another row ends the block
		{"blocked, and the probe is due in five minutes", blocked{5 * time.Minute},
			decided{ledger.Blocked, 30 * s, false, ""}},

		{"token: no answer", &apiclient.TokenError{}, all},
		{"token: 429", &apiclient.TokenError{Status: 429, RetryAfter: 9 * s}, paced(9 * s)},
		{"token: 503 with Retry-After", &apiclient.TokenError{Status: 503, RetryAfter: 90 * s}, all},
		{"token: the caller did not wait", &apiclient.TokenError{Err: fmt.Errorf("wait: %w", context.Canceled)}, trouble},
		{"token: the execution's time is over", &apiclient.TokenError{Err: context.DeadlineExceeded}, trouble},

		{"503 with Retry-After of a day", overloadedForLong, decided{ledger.Transient, time.Hour, true, ""}},

		{"402", answer(402), one},
		{"403 of a feature", of(403, "feature_not_enabled", "x"), one},
		{"403 of a feature in words", of(403, "", "This feature is not enabled for this tenant."), one},
		{"404 of a feature", of(404, "operation_not_supported", "x"), one},
		{"404 of a plan", of(404, "", "Please upgrade your subscription to use this."), one},
		{"423", answer(423), one},
		{"451", answer(451), one},
		{"403 of the row", of(403, "other", "x"), refused},
		{"403 in words", lacksScopeInWords, one},
		{"410", answer(410), refused},

		{"200 of a portal", page(200), all},
		{"302 of a proxy", page(302), all},
		{"401 of a proxy", page(401), all},
		{"403 of a firewall, which may mean the row", page(403), trouble},
		{"404 of a proxy", page(404), all},
		{"413 of a proxy", page(413), trouble},
		{"503, a page", &apiclient.Error{Status: 503, Page: true}, all},
		{"504, a page", &apiclient.Error{Status: 504, Page: true}, trouble},
		{"an answer that cannot be read", &apiclient.AnswerError{Status: 200, Err: errors.New("x")}, trouble},
		{"no connection", &apiclient.TransportError{Err: errors.New("x")}, trouble},
		{"a proxy that wants to be authorized to", &apiclient.TransportError{Err: &apiclient.ProxyError{Status: 407}}, all},
		{"a proxy that forbids the host", &apiclient.TransportError{Err: &apiclient.ProxyError{Status: 403}}, all},
		{"a proxy that does not reach the API", &apiclient.TransportError{Err: &apiclient.ProxyError{Status: 503}}, trouble},
		{"timeout", &apiclient.TransportError{Sent: true, Err: context.DeadlineExceeded}, trouble},
		{
			"own request not valid", &schema.ValidationError{
				Fields: []schema.FieldError{{Field: "f", Rule: "r", Value: "v"}},
			}, invalid,
		},
		{"id not valid", schema.CheckID("organization_id", "a/b"), invalid},
		{"host not a name", dnsname.CheckHost("not a name"), refused},
		{"no token", &dnscheck.QuestionError{Host: "h", Problem: "p"}, refused},

		{"redis: no memory", redisAnswer("OOM command not allowed when used memory > 'maxmemory'."), away},
		{
			"redis: no memory, in a script of 6.2",
			redisAnswer(
				"ERR Error running script (call to f_1f): @user_script:3: @user_script: 3: -OOM command not allowed when used memory > 'maxmemory'."), away,
		},
		{
			"redis: no disk",
			redisAnswer("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."),
			away,
		},
		{"redis: a replica", redisAnswer("READONLY You can't write against a read only replica."), away},
		{"redis: too few replicas", redisAnswer("NOREPLICAS Not enough good replicas to write."), away},
		{"redis: loading", redisAnswer("LOADING Redis is loading the dataset in memory"), away},
		{"redis: cluster down", redisAnswer("CLUSTERDOWN The cluster is down"), away},
		{
			"redis: master down",
			redisAnswer("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), away,
		},
		{"redis: no connection", unreachable, away},
		{"redis: wrong type", redisAnswer("WRONGTYPE Operation against a key holding the wrong kind of value"), trouble},
		{"redis: a script fails", redisAnswer("ERR user_script:3: OOM is no function"), trouble},
		{"redis: may not", redisAnswer("NOPERM this user has no permissions to run the 'set' command"), away},
		{
			"redis: may not, in a script",
			redisAnswer(
				"ERR The user executing the script can't run this command or subcommand script: f_1f, on @user_script:3."), away,
		},
		{"redis: may not, by the ledger's check", redisAnswer("DENIED this user may not run HSET"), away},
		{"redis: nothing there", redis.Nil, trouble},
		{"redis: the connection breaks", &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset")}, trouble},
		{"redis: silent", io.EOF, trouble},
		{"no connection to the API", &apiclient.TransportError{Err: unreachable}, trouble},
		{"no connection to the token endpoint", &apiclient.TokenError{Err: unreachable}, all},
		{"text that names an answer", errors.New("OOM command not allowed"), trouble},

		{"context cancelled", context.Canceled, trouble},
		{"context over", context.DeadlineExceeded, trouble},
		{"anything else", errors.New("redis: connection refused"), trouble},
	} {
		forms := map[string]error{"": test.err}
		if test.err != nil {
			forms[", wrapped"] = fmt.Errorf("read the domain: %w", fmt.Errorf("once more: %w", test.err))
			forms[", joined"] = errors.Join(test.err, errors.New("and more"))
		}
		for form, err := range forms {
			t.Run(test.name+form, func(t *testing.T) {
				j := engine.Decide(err)
				got := decided{j.Outcome, j.After, j.Counts, j.Operation}
				if test.want == away && got.After >= away.After*9/10 && got.After <= away.After*11/10 {
					got.After = away.After // it is spread
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("the consequence (-want +got):\n%s", diff)
				}
				if err != nil && j.Reason != err.Error() {
					t.Errorf("reason %q, want the text of the error %q", j.Reason, err)
				}
			})
		}
	}
}
