package tenant

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"orgops/internal/pace"
	"orgops/internal/sweep"
	"orgops/tasks"
)

// Announced are the settings of a tenant that workers store for producers, which only connect
// to Redis.
type Announced struct {
	Tenant string `json:"tenant"`
	// Rate is in the form of [pace.ParseRate].
	Rate    string  `json:"rate"`
	Burst   int     `json:"burst"`
	Reserve float64 `json:"reserve"`
	// SweepShare is the share of sweeps in the rate after the reserve.
	SweepShare float64 `json:"sweep_share"`
	// GiveUp is the time after which a domain that is not proven expires.
	GiveUp               time.Duration `json:"give_up_ns"`
	MaxClientsPerRequest int           `json:"max_clients_per_request"`
	// Sweep is the cron text of the tenant's sweeps, in UTC, or [Off]; with VerifyPending
	// they check pending domains too.
	Sweep         string `json:"sweep"`
	VerifyPending bool   `json:"verify_pending"`
	// After which time and number of sweeps a domain whose token is gone is lost, and the
	// domains and organizations that are never revoked.
	Grace        time.Duration `json:"grace_ns"`
	AbsentChecks int           `json:"absent_checks"`
	Protect      []string      `json:"protect,omitempty"`
	// DNS says how domains are proven.
	DNS       DNS       `json:"dns,omitzero"`
	UpdatedAt time.Time `json:"updated_at"`
}

// DNS is how a tenant's domains are proven, as in its settings.
type DNS struct {
	Resolvers     []string `json:"resolvers"`
	Quorum        int      `json:"quorum"`
	Mode          string   `json:"mode"`
	RequireDNSSEC bool     `json:"require_dnssec,omitempty"`
	RefuseAliases bool     `json:"refuse_aliases,omitempty"`
}

// Announced returns the settings that workers announce.
func (t Settings) Announced() Announced {
	return Announced{
		Tenant: t.Name, Rate: t.Rate, Burst: t.Burst, Reserve: t.Reserve / 100, SweepShare: t.SweepShare / 100,
		GiveUp: time.Duration(t.GiveUp), MaxClientsPerRequest: t.MaxClientsPerRequest,
		Sweep: t.Sweep, VerifyPending: t.VerifyPending,
		Grace: t.Rules.Grace, AbsentChecks: t.Rules.AbsentChecks, Protect: t.Rules.Protect,
		DNS: DNS{
			Resolvers: t.Resolvers, Quorum: t.Quorum, Mode: t.Mode.String(), RequireDNSSEC: t.RequireDNSSEC,
			RefuseAliases: t.RefuseAliases,
		},
	}
}

// Limit returns the tenant's pace.
func (s Announced) Limit() (pace.Limit, error) {
	rate, err := pace.ParseRate(s.Rate)
	if err != nil {
		return pace.Limit{}, fmt.Errorf("settings of tenant %s: %w", s.Tenant, err)
	}
	return pace.Limit{Rate: rate, Burst: s.Burst, Reserve: s.Reserve,
		SweepShare: cmp.Or(s.SweepShare, pace.DefaultSweepShare)}, nil
}

// Schedule returns the times of the tenant's sweeps; the zero Cron: there are none.
func (s Announced) Schedule() (sweep.Cron, error) {
	if s.Sweep == "" || s.Sweep == Off {
		return sweep.Cron{}, nil
	}
	cron, err := sweep.ParseCron(s.Sweep)
	if err != nil {
		return sweep.Cron{}, fmt.Errorf("settings of tenant %s: sweep: %w", s.Tenant, err)
	}
	return cron, nil
}

// Rules returns the rules of sweeps, with defaults for those that are missing.
func (s Announced) Rules() sweep.Rules {
	return sweep.Rules{
		Grace: cmp.Or(s.Grace, sweep.DefaultGrace), AbsentChecks: cmp.Or(s.AbsentChecks, sweep.DefaultAbsentChecks),
		Protect: s.Protect,
	}
}

// Announce stores the settings of s.Tenant, and returns the names of those that differ from the
// former ones, if there were any: "rate, grace". They stay when the workers have stopped.
func Announce(ctx context.Context, rdb redis.UniversalClient, s Announced) (changed string, err error) {
	if err := tasks.CheckTenant(s.Tenant); err != nil {
		return "", fmt.Errorf("announce settings: %w", err)
	}
	data, err := json.Marshal(s)
	if err == nil {
		data, err = rdb.SetArgs(ctx, announcedKey(s.Tenant), data, redis.SetArgs{Get: true}).Bytes()
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("announce settings of tenant %s: %w", s.Tenant, err)
	}
	var former Announced
	if err != nil || json.Unmarshal(data, &former) != nil {
		return "", nil
	}
	for field, is := range reflect.ValueOf(s).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		was := reflect.ValueOf(former).FieldByIndex(field.Index)
		if name != "updated_at" && fmt.Sprint(was) != fmt.Sprint(is) {
			changed += ", " + strings.TrimSuffix(name, "_ns")
		}
	}
	return strings.TrimPrefix(changed, ", "), nil
}

// ReadAnnounced returns the settings that were last announced of the tenant; ok is false if no
// worker ever announced it.
func ReadAnnounced(ctx context.Context, rdb redis.UniversalClient, tenant string) (s Announced, ok bool, err error) {
	if err := tasks.CheckTenant(tenant); err != nil {
		return Announced{}, false, fmt.Errorf("read settings: %w", err)
	}
	data, err := rdb.Get(ctx, announcedKey(tenant)).Bytes()
	if errors.Is(err, redis.Nil) {
		return Announced{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return Announced{}, false, fmt.Errorf("read settings of tenant %s: %w", tenant, err)
	}
	return s, true, nil
}

func announcedKey(tenant string) string { return "orgops:v1:{tenant:" + tenant + "}:settings" }
