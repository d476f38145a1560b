package kinds

// A check between two sweeps can clear an absence, or begin to give back the taken value.
// A check that does not find the token changes nothing. So a second execution is
// harmless, and a check that is lost leaves all to the next one.

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"orgops/dnscheck"
	"orgops/internal/engine"
	"orgops/internal/ledger"
	"orgops/internal/sweep"
)

// HourlyCheck is the kind of rows that check a watched domain between two sweeps.
const HourlyCheck ledger.Kind = "domain:relook"

// HourlyRow is the content of a row of kind [HourlyCheck].
type HourlyRow struct {
	OrganizationID    string `json:"organization_id"`
	DiscoveryDomainID string `json:"discovery_domain_id"`
	// Tick is that of the last sweep which checked the domain. If another one has by the
	// time of the check, there is nothing to do.
	Tick int64 `json:"tick"`
}

// Validate checks the row, as far as that needs no tenant.
func (r HourlyRow) Validate() error {
	return checkSwept(r.OrganizationID, r.DiscoveryDomainID, r.Tick)
}

// restoreGiveUp is how long a row that gives a status back waits for a proof. The next
// check submits another one.
const restoreGiveUp = time.Hour

// HourlyConfig configures the handler of [HourlyCheck].
type HourlyConfig struct {
	Tenant ledger.Tenant
	States *sweep.States
	DNS    Looker
	// Places are those of [VerifyConfig]; nil: no limit.
	Places *Places
	// Submit submits a run, which gives a status or a flag back, unless it exists.
	Submit func(context.Context, OneRow) error
}

// NewHourlyCheck returns the handler of [HourlyCheck].
func NewHourlyCheck(cfg HourlyConfig) engine.Handler {
	return engine.One(func(ctx context.Context, x *engine.Execution, row *engine.Row) (ledger.Result, error) {
		want, err := decode[HourlyRow](row)
		if err != nil {
			return ledger.Result{}, err
		}
		r := &hourlyCheck{cfg, x, want}
		result, err := r.execute(ctx)
		return result, stateError(err)
	})
}

// hourlyCheck is one execution of a row.
type hourlyCheck struct {
	cfg  HourlyConfig
	x    *engine.Execution
	want HourlyRow
}

func (r *hourlyCheck) execute(ctx context.Context) (ledger.Result, error) {
	s, _, err := r.cfg.States.ReadNotified(ctx, r.want.DiscoveryDomainID)
	if err != nil {
		return ledger.Result{}, err
	}
	if why := r.idle(s); why != "" {
		return unchanged(why), nil
	}
	verdict, err := r.cfg.Places.check(ctx, r.cfg.DNS, s.Reason, s.Host, s.TXT)
	if err != nil {
		return ledger.Result{}, err
	}
	if verdict.State != dnscheck.Present {
		return unchanged(described(verdict)), nil
	}
	return r.present(ctx, s)
}

// described returns a verdict as the detail of a row.
func described(v dnscheck.Verdict) string {
	if v.State == dnscheck.Present {
		return v.State.String()
	}
	return v.State.String() + ": " + v.Sentence()
}

// idle returns why the domain is not checked; "": it is.
func (r *hourlyCheck) idle(s sweep.DomainState) string {
	switch {
	case !s.Watched() || s.OrganizationID != r.want.OrganizationID:
		return "nothing is wrong any more"
	case s.Tick != r.want.Tick:
		return "another sweep has checked it since"
	}
	return s.IdleBetween(r.x.Now())
}

// present clears the absence of a token that is there, and starts to give back the
// taken value.
func (r *hourlyCheck) present(ctx context.Context, checked sweep.DomainState) (ledger.Result, error) {
	now, same := r.x.Now(), false
	s, err := r.cfg.States.Change(ctx, r.want.DiscoveryDomainID, func(s *sweep.DomainState) {
		same = s.FoundBetween(r.want.DiscoveryDomainID, checked, now)
	})
	switch {
	case err != nil:
		return ledger.Result{}, err
	case !same:
		return unchanged("the domain's state has changed since: waiting for the next check"), nil
	case s.Taken == nil && s.InProgress == nil:
		return ledger.Result{Outcome: ledger.Done, Detail: "the token is there again"}, nil
	case s.Taken == nil, now.Sub(s.Taken.EffectiveAt()) < defaultSettled: // reads may be behind
		return unchanged("the token is there again; waiting for the result of an action on the domain"), nil
	case s.TookStatus() && s.Withheld() != "":
		return r.withhold(ctx, s.Withheld())
	}
	return unchanged("the token is there again; the domain is restored once it is proven"), r.restore(ctx, s)
}

// withhold stores that the status is not given back while the flag is not known.
func (r *hourlyCheck) withhold(ctx context.Context, why string) (ledger.Result, error) {
	_, err := r.cfg.States.Change(ctx, r.want.DiscoveryDomainID, func(s *sweep.DomainState) {
		if why := s.Withheld(); why != "" {
			s.NotRestored(r.x.Now(), why)
		}
	})
	return unchanged("the token is there again; not restored: " + why), err
}

// restore submits the row that gives back the taken value. To set a domain to verified
// takes a row of kind [Verify], with the flag for a record that omits it.
func (r *hourlyCheck) restore(ctx context.Context, s sweep.DomainState) error {
	hour := r.x.Now().Truncate(time.Hour).Unix()
	if !s.TookStatus() {
		row := sweep.ActionRow{OrganizationID: r.want.OrganizationID, DiscoveryDomainID: r.want.DiscoveryDomainID, Tick: r.want.Tick, Back: true}
		return submitRestoring(ctx, r.cfg.Submit, OneRow{ID: restoringID("flag", r.cfg.Tenant, row.DiscoveryDomainID, hour), Kind: Act}, row)
	}
	row := VerifyRow{
		OrganizationID: r.want.OrganizationID, DiscoveryDomainID: r.want.DiscoveryDomainID, UseForOrganizationDiscovery: s.Taken.Flag, Restore: true,
	}
	return submitRestoring(ctx, r.cfg.Submit, OneRow{ID: restoringID("status", r.cfg.Tenant, row.DiscoveryDomainID, hour), Kind: Verify, GiveUp: restoreGiveUp}, row)
}

// submitRestoring submits a row with that content, which gives something back to a domain.
func submitRestoring(ctx context.Context, submit func(context.Context, OneRow) error, row OneRow, content any) (err error) {
	if row.Content, err = json.Marshal(content); err == nil {
		err = submit(ctx, row)
	}
	if err != nil {
		return fmt.Errorf("submit the restoration of the domain: %w", err)
	}
	return nil
}
