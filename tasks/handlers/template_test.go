package handlers_test

import (
	"context"
	"iter"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"orgops/apiclient"
	"orgops/apiclient/schema"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sandbox"
	"orgops/tasks/handlers"
)

// template is the content of a row.
const template = `{"name":"mdl","type":"mdl","dialect":"simplified/1.0","presentation":{"org.iso.18013.5.1.mDL":{"org.iso.18013.5.1":{"portrait":true}}},"well_known_trusted_issuers":"aamva"}`

// same returns the tenant's template of the row.
func same(changes ...func(*sandbox.Template)) sandbox.Template {
	m := sandbox.Template{Name: "mdl", Type: "mdl", Dialect: "simplified/1.0", Claims: map[string]bool{"portrait": true},
		WellKnownTrustedIssuers: "aamva"}
	for _, change := range changes {
		change(&m)
	}
	return m
}

// other is a template with the name of the row and another type.
func other() sandbox.Template { return same(func(m *sandbox.Template) { m.Type = "other" }) }

// creation is a site with a row that creates a template.
type creation struct {
	*verifySite
	tenant func(apiclient.Binding) handlers.Templates
}

// creating returns a site with one row.
func creating(t *testing.T, change ...func(*sandbox.Options)) *creation {
	t.Helper()
	s := &creation{verifySite: newVerifySite(t, change...)}
	s.tenant = func(b apiclient.Binding) handlers.Templates { return s.api.For(b) }
	s.handlers = func(c handlers.VerifyConfig) map[ledger.Kind]engine.Handler {
		return map[ledger.Kind]engine.Handler{handlers.Create: handlers.NewCreate(handlers.CreateConfig{
			API:            func(b apiclient.Binding) handlers.Templates { return steppedTemplates{s.tenant(b), s.around} },
			RequestTimeout: c.RequestTimeout})}
	}
	s.Submit(handlers.Create, template)
	return s
}

// templates has a name that is not its method's, so that it can be embedded.
type templates = handlers.Templates

type steppedTemplates struct {
	templates
	step func(name string, call func())
}

func (c steppedTemplates) CreateTemplate(ctx context.Context,
	r schema.TemplateRequest, intent apiclient.Intent) (made schema.Template, err error) {
	c.step("POST", func() { made, err = c.templates.CreateTemplate(ctx, r, intent) })
	return made, err
}

func (c steppedTemplates) Templates(ctx context.Context) iter.Seq2[schema.Template, error] {
	return func(yield func(schema.Template, error) bool) {
		c.step("list", func() { c.templates.Templates(ctx)(yield) })
	}
}

func repeatNames(o *sandbox.Options) { o.RepeatTemplateNames = true }

// of returns the requests of an operation.
func (s *site) of(operation string) (all []sandbox.Request) {
	for _, r := range s.sandbox.Requests() {
		if r.Operation == operation {
			all = append(all, r)
		}
	}
	return all
}

func (s *site) posts() int { return len(s.of(sandbox.OpCreateTemplate)) }
func (s *site) lists() int { return len(s.of(sandbox.OpListTemplates)) }

// wantTemplate checks the result of the row, whose detail has the id of the tenant's last template
// unless the row is cancelled.
func (s *creation) wantTemplate(outcome ledger.Outcome, words ...string) {
	s.t.Helper()
	r := s.settle()
	if all := s.sandbox.Templates(); outcome != ledger.Cancelled && len(all) > 0 {
		words = append(words, all[len(all)-1].ID)
	}
	missing := slices.ContainsFunc(words, func(w string) bool { return !contains(r.Detail, w) })
	if r.Outcome != outcome || missing || s.counts().Settled() != 1 {
		s.t.Errorf("%+v, want %s with %q; counts %v", r, outcome, words, s.counts())
	}
}

// TestIntentOfTemplate stores the intent after the permit and before the POST.
func TestIntentOfTemplate(t *testing.T) {
	s := creating(t)
	permitted, intended := false, false
	client := s.client(slowGate{func() {
		permitted = s.Row(0).Intent == nil
		s.Pass(staleAnswer)
	}})
	s.tenant = func(b apiclient.Binding) handlers.Templates { return client.For(b) }
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Match: func(sandbox.Request) bool {
		intended = s.Row(0).Intent != nil
		return false
	}})
	s.wantTemplate(ledger.Done)
	if !permitted || !intended {
		t.Errorf("no intent before the permit: %t; intent before the POST: %t", permitted, intended)
	}
}

// TestTemplate creates a template in spite of faults, templates with its name, and a run that is
// stopped. After a POST without an answer the templates are listed, once it cannot land any more,
// and no other POST is sent if it has landed.
func TestTemplate(t *testing.T) {
	t.Parallel()
	fails := func(all ...sandbox.Fault) func(*creation) {
		return func(s *creation) {
			for _, f := range all {
				s.fail(sandbox.OpCreateTemplate, f)
			}
		}
	}
	there := func(all ...sandbox.Template) func(*creation) {
		return func(s *creation) {
			for _, m := range all {
				s.sandbox.AddTemplate(m)
			}
		}
	}
	others := slices.Repeat([]sandbox.Template{same(func(m *sandbox.Template) { m.Name = "other" })}, 120)
	claims := func(want bool) func(*creation) { // on the second page
		return there(append(slices.Clone(others), same(func(m *sandbox.Template) { m.Claims["nationality"] = want }))...)
	}
	cancel := func(s *creation) { _ = s.Cancel(s.t.Context(), tenant, s.Run.ID) }
	listing := func(bad string) func(*creation) { // a template outside the specification
		return func(s *creation) {
			made := s.sandbox.Templates()[0]
			s.fail(sandbox.OpListTemplates, sandbox.Fault{Body: `{"templates":[` + bad + `,{"id":"` + made.ID + `",` +
				template[1:len(template)-1] + `,"created_at":"` + made.CreatedAt.Format(time.RFC3339) + `"}]}`})
		}
	}
	lostBefore, lostAfter := fails(sandbox.Fault{DropBefore: true}), fails(sandbox.Fault{DropAfter: true})
	for _, c := range []struct {
		name    string
		repeats bool            // the server permits names that are taken
		begin   func(*creation) // nil: nothing happens
		then    func(*creation) // after the first execution
		want    ledger.Outcome
		words   []string
		made    int // templates in the end, but for the others
		posts   int
		lists   int // requests
	}{
		{"undisturbed", false, nil, nil, ledger.Done, nil, 1, 1, 0},
		{"created, and the answer is lost", true, lostAfter, nil, ledger.Done, nil, 1, 1, 1},
		{"not created, and the answer is lost", true, lostBefore, nil, ledger.Done, nil, 1, 2, 1},
		{"500 after", true, fails(sandbox.Fault{Status: 500, Handled: true}), nil, ledger.Done, nil, 1, 1, 1},
		{"answer without an id", true, fails(sandbox.Fault{Body: `{"name":"mdl"}`, Handled: true}), nil,
			ledger.Done, nil, 1, 1, 1},
		{"lands after the list", false, func(s *creation) {
			lostBefore(s)
			s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate, Match: func(sandbox.Request) bool {
				if s.lists() == 1 && len(s.sandbox.Templates()) == 0 {
					s.sandbox.AddTemplate(same())
				}
				return false
			}})
		}, nil, ledger.Done, nil, 1, 2, 2},
		{"the list is refused", false, lostAfter, func(s *creation) {
			s.fail(sandbox.OpListTemplates, sandbox.Fault{Status: http.StatusBadRequest})
		}, ledger.Done, nil, 1, 1, 2},
		{"another client takes the name after a lost answer", false, lostBefore, there(other()),
			ledger.Refused, []string{"type"}, 1, 2, 2},
		{"throttled after a lost answer", true,
			fails(sandbox.Fault{DropBefore: true}, sandbox.Fault{Status: http.StatusTooManyRequests}), nil,
			ledger.Done, nil, 1, 3, 2},
		{"throttled", false, fails(sandbox.Fault{Status: http.StatusTooManyRequests}), nil, ledger.Done, nil, 1, 2, 0},
		{"unauthorized", false, fails(sandbox.Fault{Status: http.StatusUnauthorized, Count: 2}), nil,
			ledger.Done, nil, 1, 3, 0},
		{"taken, same content", false, there(append(slices.Clone(others), same())...), nil, ledger.Unchanged, nil, 1, 1, 2},
		{"taken, a claim that is false", false, claims(false), nil, ledger.Unchanged, nil, 1, 1, 2},
		{"taken, another claim", false, claims(true), nil, ledger.Refused,
			[]string{`"mdl"`, "presentation.nationality", "rename"}, 1, 1, 2},
		{"another of the name, and the server permits that", true, there(other()), nil, ledger.Done, nil, 2, 1, 0},
		{"taken, but not listed", false, fails(sandbox.Fault{Status: http.StatusConflict}), func(s *creation) {
			if note := ledger.ParseNote(s.Row(0).Checkpoint.Memo); note.Outcome != ledger.Transient ||
				!contains(note.Reason, "does not list it") {
				s.t.Errorf("note %+v", note)
			}
		}, ledger.Done, nil, 1, 2, 1},
		// A bad record may be the row's template, unless it has another name.
		{"bad record of another name", false, lostAfter, listing(`{"id":"vct_9","name":"other","dialect":7}`),
			ledger.Done, nil, 1, 1, 1},
		{"bad record of the name", false, lostAfter, listing(`{"name":"mdl"}`), ledger.Done, nil, 1, 1, 2},
		{"bad record without a name", false, lostAfter, listing(`{}`), ledger.Done, nil, 1, 1, 2},
		{"bad record that is none", false, lostAfter, listing(`7`), ledger.Done, nil, 1, 1, 2},
		{"cancelled, created", true, lostAfter, cancel, ledger.Done, nil, 1, 1, 1},
		{"cancelled, not created", true, lostBefore, cancel, ledger.Cancelled, []string{"was not created"}, 0, 1, 1},
		{"cancelled between list and POST", true, lostBefore, func(s *creation) {
			s.on = func(point string) {
				if point == "after list" {
					cancel(s)
					s.Pass(staleAnswer)
				}
			}
		}, ledger.Cancelled, []string{"was not created"}, 0, 1, 2},
		{"paused and resumed, not created", true, lostBefore, func(s *creation) {
			s.pauseAndResume(func() {
				if row := s.Row(0); row.Intent != nil || s.posts() != 1 || s.lists() != 1 {
					s.t.Errorf("%d POSTs, %d lists, row %+v", s.posts(), s.lists(), row)
				}
			})
		}, ledger.Done, nil, 1, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := creating(t, func(o *sandbox.Options) { o.RepeatTemplateNames = c.repeats })
			if c.begin != nil {
				c.begin(s)
			}
			s.step()
			if c.then != nil {
				c.then(s)
			}
			s.wantTemplate(c.want, c.words...)
			made := len(slices.DeleteFunc(s.sandbox.Templates(), func(m sandbox.Template) bool { return m.Name == "other" }))
			if made != c.made || s.posts() != c.posts || s.lists() != c.lists {
				t.Errorf("%d templates, %d POSTs, %d lists, want %d, %d and %d",
					made, s.posts(), s.lists(), c.made, c.posts, c.lists)
			}
			if s.lists() == 0 || strings.HasPrefix(c.name, "taken") {
				return
			}
			post, list := s.of(sandbox.OpCreateTemplate)[0].At, s.of(sandbox.OpListTemplates)[0].At
			if waited := list.Sub(post); waited < 59*time.Second {
				t.Errorf("listed %v after the POST", waited)
			}
		})
	}
}

// pauseAndResume pauses the run, executes the rows that are due, calls check, and resumes the run.
func (s *verifySite) pauseAndResume(check func()) {
	s.t.Helper()
	if err := s.Pause(s.t.Context(), tenant, s.Run.ID); err != nil {
		s.t.Fatal(err)
	}
	for s.step() {
	}
	if row := s.Row(0); row.Phase != ledger.PhaseWaiting {
		s.t.Errorf("paused: %+v", row)
	}
	check()
	if err := s.Resume(s.t.Context(), tenant, s.Run.ID); err != nil {
		s.t.Fatal(err)
	}
}

// TestTemplateRows executes rows that send no POST, and two equal ones.
func TestTemplateRows(t *testing.T) {
	s := creating(t)
	s.SubmitAs("b", handlers.Create,
		template, template, `{}`, `[]`,
		strings.Replace(template, `"aamva"`, `"other"`, 1), strings.Replace(template, `"type"`, `"colour":"red","type"`, 1),
	)
	e, _ := s.worker()
	task := s.NextTask()
	for range 2 { // two deliveries
		_ = e.ProcessTask(t.Context(), task)
	}
	for n, want := range []ledger.Outcome{ledger.Done, ledger.Unchanged, ledger.InvalidRow, ledger.InvalidRow,
		ledger.InvalidRow} {
		if r := s.Row(ledger.Row(n)).Result; r.Outcome != want {
			t.Errorf("row %d: %+v, want %s", n, r, want)
		}
	}
	if r := s.Row(4).Result; !contains(r.Detail, "well_known_trusted_issuers") {
		t.Errorf("row 4: %+v", r)
	}
	if row := s.Row(5); !contains(row.Checkpoint.Note, "newer worker") {
		t.Errorf("row of a newer version: %+v", row)
	}
	if s.posts() != 2 || len(s.sandbox.Templates()) != 1 {
		t.Errorf("%d POSTs, %d templates", s.posts(), len(s.sandbox.Templates()))
	}
}

// forgetful is a ledger whose Redis forgets every intent.
type forgetful struct{ engine.Ledger }

func (forgetful) Intend(context.Context, ledger.Segment, ledger.Nonce, []byte, ...ledger.Row) (ledger.Receipt, error) {
	return ledger.Receipt{Statuses: []ledger.Status{ledger.RowWritten}}, nil
}

// fatal is an API whose caller dies during its POST, which is the request.
type fatal struct {
	templates
	request *sync.WaitGroup
	sent    chan struct{} // is closed by the client
}

func (f fatal) CreateTemplate(ctx context.Context, r schema.TemplateRequest,
	_ apiclient.Intent) (schema.Template, error) {
	f.request.Go(func() { _, _ = f.templates.CreateTemplate(context.WithoutCancel(ctx), r, nil) })
	<-f.sent
	runtime.Goexit()
	return schema.Template{}, nil
}

// TestForgottenIntent has Redis lose the intent of a POST that lands later. The API refuses the
// name to the next POST, and the template is found.
func TestForgottenIntent(t *testing.T) {
	s := creating(t)
	var request sync.WaitGroup
	landing := make(chan struct{})
	land := sync.OnceFunc(func() { close(landing) })
	defer land()
	s.sandbox.AddFault(sandbox.Fault{Operation: sandbox.OpCreateTemplate,
		Match: func(sandbox.Request) bool { <-landing; return false }})
	worker, session := s.Worker(func(c *engine.Config) {
		c.Ledger = forgetful{c.Ledger}
		c.Handlers[handlers.Create] = handlers.NewCreate(handlers.CreateConfig{
			API: func(apiclient.Binding) handlers.Templates {
				sent := make(chan struct{})
				return fatal{s.tenant(apiclient.Binding{Before: func(context.Context) error { close(sent); return nil }}),
					&request, sent}
			},
			RequestTimeout: s.config.RequestTimeout})
	})
	if executed(t.Context(), worker, s.NextTask()) {
		t.Error("the worker has survived")
	}
	s.takeBack(session)
	land()
	request.Wait()
	s.wantTemplate(ledger.Unchanged)
	if len(s.sandbox.Templates()) != 1 || s.posts() != 2 {
		t.Errorf("%d POSTs, %d templates", s.posts(), len(s.sandbox.Templates()))
	}
}
