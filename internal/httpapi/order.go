package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/intake"
	"orgops/internal/ledger"
	"orgops/internal/untrusted"
	"orgops/internal/view"
	"orgops/internal/web"
	"orgops/tasks"
)

// order has the properties of a submission, from the head of its request.
type order struct {
	tenant view.Tenant
	input  intake.Input  // without its rows
	run    ledger.NewRun // without an id in a dry run
	dryRun bool
}

// orderOf reads the head of a request of the view's user.
func orderOf(v view.View, r *http.Request) (o order, err error) {
	kind, known := tasks.KindOf(r.PathValue("run"))
	if !known || kind.Submitter != tasks.Anyone {
		all := namesOf(func(tasks.Kind) bool { return true })
		return o, newProblem(http.StatusNotFound, "not-found", "Unknown kind of run %s. Known kinds: %s.",
			untrusted.Value(r.PathValue("run")), all)
	}
	if o, err = orderOfQuery(v, callerOf(r.Context()), kind, r.URL.Query()); err != nil {
		return o, err
	}
	if err := checkType(r); err != nil {
		return o, err
	}
	if !o.dryRun {
		var id string
		id, err = runOf(r, callerOf(r.Context()).Name)
		o.run.ID = ledger.RunID(id)
	}
	return o, err
}

// namesOf names the kinds that can be submitted and that fit.
func namesOf(fits func(tasks.Kind) bool) string {
	var names []string
	for _, kind := range tasks.Kinds() {
		if fits(kind) {
			names = append(names, kind.Name)
		}
	}
	return strings.Join(names, ", ")
}

func orderOfQuery(v view.View, caller web.User, kind tasks.Kind, query url.Values) (o order, err error) {
	// Who may submit, and for which tenant.
	name := cmp.Or(v.OnlyTenant(), tasks.DefaultTenant)
	if query.Has("tenant") {
		name = query.Get("tenant")
		if err := ids.CheckTenant(name); err != nil {
			return o, badRequest("The parameter tenant: %s.", err)
		}
	}
	if err := checkKind(caller, kind.Name); err != nil {
		return o, err
	}
	t, err := v.Tenant(name)
	if err != nil {
		return o, newProblem(http.StatusForbidden, "not-allowed",
			"The token of %s does not allow tenant %s.", caller.Name, name)
	}

	// What the parameters say of the input and of the run. The first bad one is the answer.
	o = order{tenant: t, input: intake.Input{Name: "body", Kind: kind.Name},
		run: ledger.NewRun{Tenant: ledger.Tenant(name), Description: ledger.Description{Label: query.Get("label")}}}
	if names := query.Get("ignore_columns"); names != "" {
		o.input.Ignore = strings.Split(names, ",")
	}
	if err := checkLabel(o.run.Label); err != nil {
		return o, err
	}
	if o.dryRun, err = flagOf(query, "dry_run"); err != nil {
		return o, err
	}
	if o.input.SkipInvalid, err = flagOf(query, "skip_invalid"); err != nil {
		return o, err
	}
	if o.run.GiveUp, err = giveUpOf(query, kind); err != nil {
		return o, err
	}
	if o.run.Max, err = maxOf(query, kind); err != nil {
		return o, err
	}
	if o.run.BatchWait, err = batchWaitOf(query, kind); err != nil {
		return o, err
	}
	o.run.NotBefore, err = notBeforeOf(query)
	return o, err
}

// checkKind returns an error for rows of a kind that the caller may not submit.
func checkKind(caller web.User, kind string) error {
	if !caller.MayKind(kind) {
		return newProblem(http.StatusForbidden, "not-allowed",
			"The token of %s does not allow runs of kind %s.", caller.Name, kind)
	}
	return nil
}

// flagOf reads a parameter that is 1 or 0, or not there.
func flagOf(query url.Values, name string) (bool, error) {
	switch value := query.Get(name); value {
	case "1", "true":
		return true, nil
	case "", "0", "false":
		return false, nil
	default:
		return false, badRequest("The parameter %s must be 1 or 0, not %s.", name, untrusted.Value(value))
	}
}

// longestLabel is how many characters of a label the ledger keeps.
const longestLabel = 200

func checkLabel(label string) error {
	if utf8.RuneCountInString(label) > longestLabel || !utf8.ValidString(label) {
		return badRequest("The parameter label must be text of at most %d characters.", longestLabel)
	}
	return nil
}

func giveUpOf(query url.Values, kind tasks.Kind) (time.Duration, error) {
	if !query.Has("give_up") {
		return 0, nil
	}
	if !kind.Awaits {
		return 0, badRequest("The parameter give_up is only for runs of kind %s.",
			namesOf(func(k tasks.Kind) bool { return k.Awaits }))
	}
	giveUp, err := cli.ParseDuration(query.Get("give_up"))
	if err != nil || giveUp <= 0 || giveUp%time.Second != 0 {
		return 0, badRequest("The parameter give_up must be in whole seconds, such as 72h or 90m, not %s.",
			untrusted.Value(query.Get("give_up")))
	}
	if giveUp < tasks.LeastGiveUp {
		return 0, badRequest("The parameter give_up must be at least %s, such as 72h: rows would expire at their first check.",
			tasks.LeastGiveUp)
	}
	return giveUp, nil
}

// maxOf returns the most verified domains that may be set to pending in seven days; 0: the default.
func maxOf(query url.Values, kind tasks.Kind) (int64, error) {
	if !query.Has("max") {
		return 0, nil
	}
	if kind.Name != tasks.TypeUpdate {
		return 0, badRequest("The parameter max is only for runs of kind %s.", tasks.TypeUpdate)
	}
	most, err := strconv.ParseInt(query.Get("max"), 10, 64)
	if err != nil || most < 1 {
		return 0, badRequest("The parameter max must be 1 or more, not %s.", untrusted.Value(query.Get("max")))
	}
	return most, nil
}

// batchWaitOf returns how long a removal waits for others.
func batchWaitOf(query url.Values, kind tasks.Kind) (time.Duration, error) {
	if kind.Together == 0 && query.Has("batch_wait") {
		return 0, badRequest("The parameter batch_wait is only for runs of kind %s.",
			namesOf(func(k tasks.Kind) bool { return k.Together > 0 }))
	}
	if !query.Has("batch_wait") {
		return tasks.DefaultBatchWait, nil
	}
	wait, err := cli.ParseDuration(query.Get("batch_wait"))
	if err != nil || tasks.CheckBatchWait(wait) != nil {
		return 0, badRequest("The parameter batch_wait must be 0s to %s, such as 500ms, not %s.", tasks.MaxBatchWait,
			untrusted.Value(query.Get("batch_wait")))
	}
	return wait, nil
}

// notBeforeOf returns when the rows may start, the zero time for at once. A time in the past is one
// too: the request may be a repeated one. So a duration from now on is none, since the repeated
// request would have another time.
func notBeforeOf(query url.Values) (time.Time, error) {
	if !query.Has("not_before") {
		return time.Time{}, nil
	}
	at, err := cli.ParseTime(query.Get("not_before"))
	if err != nil {
		return time.Time{}, badRequest("The parameter not_before: %s.", err)
	}
	return at, nil
}

var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// runOf returns the id of the run that the request's Idempotency-Key names: a hash of
// caller and key, so that a key of one caller does not lead to a run of another. The
// key may be in quotes, as the header's draft (draft-ietf-httpapi-idempotency-key-header)
// has it. The statuses are that draft's too: 400 without a key, 422 for one that was used
// for something else.
func runOf(r *http.Request, caller string) (string, error) {
	given := r.Header.Values("Idempotency-Key")
	if len(given) == 0 {
		return "",
			badRequest(
				"The header Idempotency-Key is missing. Choose a unique key for this submission, such as a UUID. A repeated request with the same key returns the same run.")
	}
	key := given[0]
	if len(key) > 1 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = key[1 : len(key)-1]
	}
	if len(given) > 1 || !keyPattern.MatchString(key) {
		return "", badRequest("The header Idempotency-Key must have 1 to 64 letters, digits, - or _.")
	}
	return idOf(caller, key), nil
}

// idOf returns the id of the caller's run of a key.
func idOf(caller, key string) string {
	sum := sha256.Sum256([]byte("orgops run\x00" + caller + "\x00" + key))
	return hex.EncodeToString(sum[:16])
}

// longestTraceparent bounds the header traceparent, whose defined length is 55 bytes.
const longestTraceparent = 128

// traced returns the context of a submission, with the request's traceparent.
func (s *Server) traced(ctx context.Context, r *http.Request) context.Context {
	traceparent := r.Header.Get("Traceparent")
	if s.trace == nil || len(traceparent) > longestTraceparent {
		return ctx
	}
	return s.trace(ctx, traceparent)
}

// mentions adds a run to the request's line in the log.
func mentions(ctx context.Context, run string) {
	if it := web.Of(ctx); !slices.Contains(it.About, any(run)) {
		it.About = append(it.About, "run", run)
	}
}
