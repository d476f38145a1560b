package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/rogpeppe/go-internal/testscript"

	"orgops/apiclient"
	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/pace"
	"orgops/internal/sandbox"
	"orgops/tasks/handlers"
)

// executed are the rows in progress, by run and row.
type executed map[string]ledger.Nonce

func (e executed) key(run string, item int64) string { return fmt.Sprint(run, "/", item) }

// firstSegment returns the only segment of a small run, or false if the run is not in the core.
func firstSegment(ctx context.Context, l *ledger.Ledger, run string) (ledger.Segment, bool, error) {
	r, err := l.Get(ctx, "", ledger.RunID(run))
	if errors.Is(err, ledger.ErrNotFound) {
		return ledger.Segment{}, false, nil
	}
	return ledger.Segment{Tenant: r.Tenant, Run: r.ID, Incarnation: r.Incarnation}, true, err
}

// release releases a row. Others that are released with it are given back.
func release(ctx context.Context, core *ledger.Ledger, seg ledger.Segment,
	row ledger.Row) (ledger.Token, ledger.ReleasedRow, error) {
	released, err := core.Release(ctx, seg, ledger.Quota{First: 250, Check: 250, Ready: 250})
	if err != nil {
		return released.Token, ledger.ReleasedRow{}, err
	}
	at := slices.IndexFunc(released.Rows, func(r ledger.ReleasedRow) bool { return r.Row == row })
	if at < 0 {
		return released.Token, ledger.ReleasedRow{}, fmt.Errorf("row %d is not due", row)
	}
	var others []ledger.Row
	for _, r := range slices.Delete(slices.Clone(released.Rows), at, at+1) {
		others = append(others, r.Row)
	}
	if len(others) > 0 {
		_, err = core.GiveBack(ctx, seg, released.Token, others...)
	}
	return released.Token, released.Rows[at], err
}

// begin starts the execution of a row.
func (e executed) begin(ctx context.Context, core *ledger.Ledger, seg ledger.Segment, item int64) error {
	row := ledger.Row(item)
	token, _, err := release(ctx, core, seg, row)
	if err != nil {
		return err
	}
	nonce := ledger.NewNonce()
	begun, err := core.Begin(ctx, seg, ledger.Execution{Token: token, Nonce: nonce, Session: ledger.NewSessionID()}, row)
	if err != nil {
		return err
	}
	if status := begun.Rows[0].Status; status != ledger.RowAdmitted {
		return fmt.Errorf("row %d is not admitted: %s", item, status)
	}
	e[e.key(string(seg.Run), item)] = nonce
	return nil
}

// request starts a row and stores the intent of its request.
func (e executed) request(ctx context.Context, core *ledger.Ledger, seg ledger.Segment, item int64) error {
	if err := e.begin(ctx, core, seg, item); err != nil {
		return err
	}
	return effective(core.Intend(ctx, seg, e[e.key(string(seg.Run), item)], []byte("x"), ledger.Row(item)))
}

// settle ends the execution of a row, or settles one that is not executed.
func (e executed) settle(ctx context.Context, core *ledger.Ledger, seg ledger.Segment, item int64,
	outcome, detail string) error {
	result := ledger.Result{Outcome: ledger.Outcome(outcome), Detail: detail}
	if nonce, ok := e[e.key(string(seg.Run), item)]; ok {
		return effective(core.End(ctx, seg, nonce, ledger.RowEnd{Row: ledger.Row(item), Ending: result}))
	}
	return effective(core.Dismiss(ctx, seg, result, ledger.Row(item)))
}

// note executes a row once, so that it waits with outcome and reason.
func (e executed) note(ctx context.Context, core *ledger.Ledger, seg ledger.Segment, item int64, note string,
	after time.Duration) error {
	if err := e.begin(ctx, core, seg, item); err != nil {
		return err
	}
	outcome, reason, _ := strings.Cut(note, ": ")
	memo := bytes.Join([][]byte{[]byte(outcome), []byte(reason), nil}, []byte{0})
	key := e.key(string(seg.Run), item)
	end := ledger.RowEnd{Row: ledger.Row(item), Ending: ledger.Waiting{Stage: ledger.StageCheck, After: after, Memo: memo}}
	err := effective(core.End(ctx, seg, e[key], end))
	delete(e, key)
	return err
}

// effective returns an error unless a write had its effect on each row.
func effective(r ledger.Receipt, err error) error {
	for _, status := range r.Statuses {
		if err == nil && status != ledger.RowWritten {
			err = fmt.Errorf("the row is %s", status)
		}
	}
	return err
}

// later advances the clock of Redis, and stops it there.
func later(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "later DURATION")
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	of(ts).advance(ts, d)
}

func (w *world) advance(ts *testscript.TestScript, d time.Duration) {
	now, err := w.client.Time(context.Background()).Result()
	ts.Check(err)
	w.mini.SetTime(now.Add(d))
}

// look adds a domain to the tenant and has a worker execute its row. TXT may be quoted as in
// Go.
func look(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 7, "look RUN ITEM ORG ID DOMAIN HOST TXT")
	verify(ts, args, func(*handlers.VerifyConfig) {})
}

// noLine is a tenant without requests that wait for a permit.
type noLine struct{}

func (noLine) Ahead(pace.Class) time.Duration { return 0 }

// verify executes a row of kind [handlers.Verify] once.
func verify(ts *testscript.TestScript, args []string, change func(*handlers.VerifyConfig)) {
	item, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	txt := args[6]
	if unquoted, err := strconv.Unquote(txt); err == nil {
		txt = unquoted
	}
	box := zone(ts)
	box.AddDomain(args[2], sandbox.Domain{ID: args[3], Domain: args[4], Host: args[5], TXT: txt})
	api, err := apiclient.New(apiclient.Config{BaseURL: box.BaseURL(),
		Tokens: apiclient.StaticToken(apiclient.NewSecret(box.Token()))})
	ts.Check(err)
	defer api.CloseIdle()
	var resolvers []dnscheck.Resolver
	for _, address := range box.DNSAddrs() {
		r, err := dnscheck.ParseResolver(address)
		ts.Check(err)
		resolvers = append(resolvers, r)
	}
	checker, err := dnscheck.New(dnscheck.Config{Resolvers: resolvers, Timeout: patience})
	ts.Check(err)
	defer checker.Close()
	config := handlers.VerifyConfig{
		API:  func(b apiclient.Binding) handlers.Domains { return api.For(b) },
		List: func(b apiclient.Binding) handlers.DomainList { return api.For(b) },
		DNS:  checker, Line: noLine{}, RequestTimeout: time.Second, GiveUp: 72 * time.Hour}
	change(&config)
	inSegment(ts, args[0], func(core *ledger.Ledger, seg ledger.Segment) error {
		return executeRow(context.Background(), core, seg, ledger.Row(item), handlers.NewVerify(config))
	})
}

// executeRow has a worker execute a row. The result is in the ledger.
func executeRow(ctx context.Context, core *ledger.Ledger, seg ledger.Segment, row ledger.Row, h engine.Handler) error {
	run, err := core.Get(ctx, "", seg.Run)
	if err != nil {
		return err
	}
	token, released, err := release(ctx, core, seg, row)
	if err != nil {
		return err
	}
	payload, err := engine.NewTask(run, seg, token, released).Marshal()
	if err != nil {
		return err
	}
	worker := engine.New(engine.Config{
		Tenant: run.Tenant, Ledger: core, Session: ledger.NewSessionID(),
		Handlers: map[ledger.Kind]engine.Handler{run.Kind: h},
		Logger:   slog.New(slog.DiscardHandler),
	})
	_ = worker.ProcessTask(ctx, asynq.NewTask(string(run.Kind), payload))
	return nil
}
