package intakeapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"orgops/internal/intake"
	"orgops/internal/pace"
	"orgops/internal/runs"
	"orgops/tasks"
)

// submit takes rows in: POST /v1/runs/{kind}.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	j, dry, err := s.order(r)
	if err != nil {
		return err
	}
	if !s.uploads.TryAcquire(1) {
		return busy("uploads")
	}
	defer s.uploads.Release(1)
	if s.full() {
		return busy("pending submissions")
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Upload)
	defer cancel()
	return s.take(ctx, w, r, j, dry)
}

// order is what a request asks for, as far as its head tells. dry: nothing is
// to be submitted.
func (s *Server) order(r *http.Request) (j *job, dry bool, err error) {
	kind := r.PathValue("run")
	if _, known := kindOf(kind); !known {
		return nil, false, newProblem(http.StatusNotFound, "not-found", "Unknown kind of run %s. Known kinds: %s.", shown(kind), strings.Join(kindNames(), ", "))
	}
	query, err := queryOf(r, "tenant", "label", "skip_invalid", "ignore_columns", "give_up", "not_before", "dry_run")
	if err != nil {
		return nil, false, err
	}
	if dry, err = flagOf(query, "dry_run"); err != nil {
		return nil, false, err
	}
	j, err = orderOf(callerOf(r.Context()), kind, query)
	if err == nil {
		err = checkType(r)
	}
	if err == nil && !dry {
		j.Traceparent = traceparentOf(r)
		j.Run, err = runOf(r, j.Caller)
	}
	return j, dry, err
}

func orderOf(caller Caller, kind string, query url.Values) (*job, error) {
	j := newJob()
	j.Caller, j.Kind, j.Tenant, j.Label, j.Received = caller.Name, kind, caller.tenant(), query.Get("label"), time.Now().UTC()
	var err error
	if query.Has("tenant") {
		j.Tenant = query.Get("tenant")
		if err := tasks.CheckTenant(j.Tenant); err != nil {
			return nil, badRequest("The parameter tenant: %s.", err)
		}
	}
	if err := caller.check(kind, j.Tenant); err != nil {
		return nil, err
	}
	if err := checkLabel(j.Label); err != nil {
		return nil, err
	}
	if j.SkipInvalid, err = flagOf(query, "skip_invalid"); err != nil {
		return nil, err
	}
	if j.GiveUp, err = giveUpOf(query, kind); err != nil {
		return nil, err
	}
	if j.NotBefore, err = notBeforeOf(query); err != nil {
		return nil, err
	}
	if names := query.Get("ignore_columns"); names != "" {
		j.Ignore = strings.Split(names, ",")
	}
	return j, nil
}

// longestLabel is how many characters of a label the ledger keeps.
const longestLabel = 200

func checkLabel(label string) error {
	if utf8.RuneCountInString(label) > longestLabel || !utf8.ValidString(label) {
		return badRequest("The parameter label must be text of at most %d characters.", longestLabel)
	}
	return nil
}

func giveUpOf(query url.Values, kind string) (time.Duration, error) {
	if !query.Has("give_up") {
		return 0, nil
	}
	if kind != tasks.TypeVerify {
		return 0, badRequest("The parameter give_up is only for runs of kind %s.", tasks.TypeVerify)
	}
	giveUp, err := time.ParseDuration(query.Get("give_up"))
	if err != nil || giveUp <= 0 || giveUp%time.Second != 0 {
		return 0, badRequest("The parameter give_up must be in whole seconds, such as 72h or 90m, not %s.", shown(query.Get("give_up")))
	}
	return giveUp, nil
}

// notBeforeOf returns when the rows may start, the zero time for at once. A time in the
// past is one too: the request may be a repeated one.
func notBeforeOf(query url.Values) (time.Time, error) {
	if !query.Has("not_before") {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, query.Get("not_before"))
	if err != nil {
		return time.Time{}, badRequest("The parameter not_before must be a time such as 2026-12-01T02:00:00Z, not %s.", shown(query.Get("not_before")))
	}
	return at.UTC(), nil
}

var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// runOf is the id of the run that the request's Idempotency-Key stands for, a
// hash of caller and key: whoever has a key of another's has not his run. The
// key may be in quotes, as the header's draft (draft-ietf-httpapi-idempotency-
// key-header) writes it. That is also where the statuses come from: 400 without
// a key, 422 for one that was used for something else.
func runOf(r *http.Request, caller string) (string, error) {
	given := r.Header.Values("Idempotency-Key")
	if len(given) == 0 {
		return "", badRequest("The header Idempotency-Key is missing. Choose a unique key for this submission, such as a UUID. A repeated request with the same key returns the same run.")
	}
	key := given[0]
	if len(key) > 1 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = key[1 : len(key)-1]
	}
	if len(given) > 1 || !keyPattern.MatchString(key) {
		return "", badRequest("The header Idempotency-Key must have 1 to 64 letters, digits, - or _.")
	}
	sum := sha256.Sum256([]byte("orgops run\x00" + caller + "\x00" + key))
	return hex.EncodeToString(sum[:16]), nil
}

// take receives the body, checks it and takes the submission over.
func (s *Server) take(ctx context.Context, w http.ResponseWriter, r *http.Request, j *job, dry bool) error {
	u, err := s.spool.receive()
	if err != nil {
		return err
	}
	defer u.end()
	if err := s.receiveBody(w, r, u); err != nil {
		return err
	}
	j.Rows = u.name()
	in, err := s.input(ctx, j)
	if err != nil {
		return err
	}
	checked, err := s.check(ctx, in)
	defer func() { _ = checked.Close() }()
	switch {
	case checked.Rows > s.limits.MaxRows:
		return newProblem(http.StatusRequestEntityTooLarge, "too-large", "The body has %d rows; one run takes at most %d. Submit them as several runs.", checked.Rows, s.limits.MaxRows)
	case err != nil:
		return err
	case dry:
		return s.answerPlan(ctx, w, j, in, checked)
	}
	j.Digest = checked.Digest
	aboutOf(ctx).run = j.Run
	run, seen, err := s.takeOver(ctx, j, u, in, checked)
	if err != nil {
		return err
	}
	told := runAsJSON(run)
	told.Submission = &submittedJSON{
		Rows: checked.Rows, Invalid: checked.Invalid.Total, InvalidRows: rowsAsJSON(checked.Invalid.First),
		Duplicates: checked.Duplicates.Total, DuplicateRows: duplicatesAsJSON(checked.Duplicates), WorkerSeen: seen,
	}
	answerRun(w, told)
	return nil
}

// takeOver begins the run and takes the submission over. What is kept is on the disk
// before the run is begun, so that a full disk leaves no run behind.
func (s *Server) takeOver(ctx context.Context, j *job, u *upload, in intake.Input, checked intake.Checked) (run runs.Run, seen bool, err error) {
	settings, seen, err := pace.Announced(ctx, s.cfg.Redis, j.Tenant)
	if err != nil {
		return run, seen, err
	}
	if j.GiveUp == 0 {
		j.GiveUp = settings.GiveUp
	}
	if err := u.stage(j); err != nil {
		return run, seen, err
	}
	run, _, err = s.cfg.Intake.Begin(ctx, in, checked, j.asRun())
	if err == nil && run.Caller != j.Caller { // by hand, under the same id
		err = &runs.MismatchError{Run: run.ID, Member: "caller"}
	}
	if err != nil || run.Sealed && !run.Incomplete {
		return run, seen, err
	}
	_, err = s.accept(j, u)
	return run, seen, err
}

// answerRun answers with a run that was submitted, now or before.
func answerRun(w http.ResponseWriter, j runJSON) {
	status := http.StatusAccepted
	if j.EndedAt != nil {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/v1/runs/"+j.Run)
	answerJSON(w, status, j)
}

// submittedJSON is what was found of the rows of a body.
type submittedJSON struct {
	Rows          int64           `json:"rows"`         // of the body
	Invalid       int64           `json:"invalid"`      // of these, bad ones; with skip_invalid=1
	InvalidRows   []rowJSON       `json:"invalid_rows"` // the first of them
	Duplicates    int64           `json:"duplicates"`   // rows that are no work of their own
	DuplicateRows []duplicateJSON `json:"duplicate_rows"`
	WorkerSeen    bool            `json:"worker_seen"` // else the rows wait for one
}

type duplicateJSON struct {
	Line   int `json:"line"`
	SameAs int `json:"same_as_line"`
}

func duplicatesAsJSON(d intake.Duplicates) []duplicateJSON {
	all := make([]duplicateJSON, 0, len(d.First))
	for _, one := range d.First {
		all = append(all, duplicateJSON(one))
	}
	return all
}

// planJSON is what rows would come to.
type planJSON struct {
	DryRun      bool      `json:"dry_run"`
	Kind        string    `json:"kind"`
	Tenant      string    `json:"tenant"`
	Rows        int64     `json:"rows"`
	Invalid     int64     `json:"invalid"`
	InvalidRows []rowJSON `json:"invalid_rows"`
	Duplicates  int64     `json:"duplicates"`
	Tasks       int64     `json:"tasks"`
	APICalls    int64     `json:"api_calls"` // where nothing is tried again
}

// answerPlan says what the rows would come to, and changes nothing.
func (s *Server) answerPlan(ctx context.Context, w http.ResponseWriter, j *job, in intake.Input, checked intake.Checked) error {
	settings, _, err := pace.Announced(ctx, s.cfg.Redis, j.Tenant)
	if err != nil {
		return err
	}
	plan, err := in.Plan(checked, settings.MaxClientsPerRequest)
	if err != nil {
		return err
	}
	answerJSON(w, http.StatusOK, planJSON{
		DryRun: true, Kind: j.Kind, Tenant: j.Tenant, Rows: plan.Rows, Invalid: plan.Invalid, InvalidRows: rowsAsJSON(checked.Invalid.First),
		Duplicates: plan.Duplicates, Tasks: plan.Tasks, APICalls: plan.Calls,
	})
	return nil
}
