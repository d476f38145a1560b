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

	"orgops/internal/cli"
	"orgops/internal/ids"
	"orgops/internal/pace"
	"orgops/internal/sweep"
)

// Announced are the settings of a tenant that workers store for producers, which only connect
// to Redis. They have the units of the flags.
type Announced struct {
	// Tenant is the tenant's name.
	Tenant string `yaml:"-" json:"tenant" kong:"-"`

	Rate                 string       `yaml:"rate" json:"rate" help:"Request rate that the tenant's plan allows: 16/s, 150/min, or unlimited." default:"2/s"`
	Burst                int          `yaml:"burst" json:"burst" help:"Burst that the tenant's plan allows, in requests." default:"2"`
	Reserve              float64      `yaml:"reserve" json:"reserve" unit:" %" help:"Percentage of rate and burst reserved for the tenant's own logins." default:"20"`
	SweepShare           float64      `yaml:"sweep_share" json:"sweep_share" unit:" %" help:"Percentage of the rate after the reserve that sweeps may use." default:"20"`
	MaxClientsPerRequest int          `yaml:"max_clients_per_request" json:"max_clients_per_request" help:"Maximum number of clients that one request removes." default:"100"`
	Resolvers            []string     `yaml:"resolvers" json:"resolvers" help:"Resolvers to query: https://ADDRESS/dns-query#NAME, or unencrypted ADDRESS or tcp://ADDRESS. The certificate must be valid for NAME (default: the address), which is never looked up. @PERSPECTIVE names the network of your own resolver (https://ADDRESS/dns-query#NAME@eu); if any resolver has one, each perspective has one vote." default:"https://1.1.1.1/dns-query#one.one.one.one,https://8.8.8.8/dns-query#dns.google,https://9.9.9.9/dns-query#dns.quad9.net"`
	ResolverQuorum       int          `yaml:"resolver_quorum" json:"resolver_quorum" help:"Resolvers that must return the token (default and minimum: all of two, all but one of three to five, all but two of six or more)." default:"0"`
	RequireDNSSEC        bool         `yaml:"require_dnssec" json:"require_dnssec" name:"require-dnssec" help:"Require a quorum of answers authenticated by DNSSEC. Domains without DNSSEC are then never verified."`
	RefuseAliases        bool         `yaml:"refuse_aliases" json:"refuse_aliases" help:"Do not verify a domain whose TXT record is reached through an alias (CNAME or DNAME) that leads out of the domain."`
	DNSMode              string       `yaml:"dns_mode" json:"dns_mode" name:"dns-mode" help:"Servers to query: authority (the domain's own name servers; a proof requires a quorum of the resolvers too), or resolvers (only these, for networks in which port 53 is closed; a quorum of them has to be queried over HTTPS or at private addresses)." default:"authority"`
	GiveUp               cli.Duration `yaml:"give_up" json:"give_up" help:"How long to wait for the TXT record of a domain to appear, unless a row's submission says it." default:"72h"`
	Sweep                string       `yaml:"sweep" json:"sweep" help:"Schedule for checking all verified domains again: five cron fields in UTC (0 3 * * *), @daily and the like, or off." default:"off" placeholder:"CRON"`
	VerifyPending        bool         `yaml:"verify_pending" json:"verify_pending" help:"Let sweeps check pending domains too, and verify those whose TXT record is there."`
	Grace                cli.Duration `yaml:"grace" json:"grace" help:"How long the TXT record of a verified domain must be gone until sweeps report the domain as lost, and it may be revoked; at least 24h." default:"168h"`
	AbsentChecks         int          `yaml:"absent_checks" json:"absent_checks" help:"Number of consecutive sweeps that must find it gone until then; at least 2." default:"3"`
	Protect              []string     `yaml:"protect" json:"protect" help:"Domains (including their subdomains) and organization ids that are never revoked. clients remove --everywhere leaves these organizations alone." placeholder:"NAME"`

	// UpdatedAt is when they were announced.
	UpdatedAt time.Time `yaml:"-" json:"updated_at" kong:"-"`
}

// Off is the schedule of a tenant that has none.
const Off = "off"

// Pace returns the tenant's pace.
func (s Announced) Pace() (pace.Limit, error) {
	limit, err := s.limit()
	if err != nil {
		return pace.Limit{}, fmt.Errorf("settings of tenant %s: %w", s.Tenant, err)
	}
	return limit, nil
}

func (s Announced) limit() (pace.Limit, error) {
	rate, err := pace.ParseRate(s.Rate)
	if err != nil {
		return pace.Limit{}, fmt.Errorf("rate: %w", err)
	}
	return pace.Limit{Rate: rate, Burst: s.Burst, Reserve: s.Reserve / 100,
		SweepShare: cmp.Or(s.SweepShare/100, pace.DefaultSweepShare)}, nil
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
		Grace:        cmp.Or(time.Duration(s.Grace), sweep.DefaultGrace),
		AbsentChecks: cmp.Or(s.AbsentChecks, sweep.DefaultAbsentChecks),
		Protect:      s.Protect,
	}
}

// Announce stores the settings of s.Tenant, and returns the names of those that differ from the
// former ones, if there were any: "rate, grace". They stay when the workers have stopped.
func Announce(ctx context.Context, rdb redis.Cmdable, s Announced) (changed string, err error) {
	if err := ids.CheckTenant(s.Tenant); err != nil {
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
			changed += ", " + name
		}
	}
	return strings.TrimPrefix(changed, ", "), nil
}

// ReadAnnounced returns the settings that were last announced of the tenant; ok is false if no
// worker ever announced it.
func ReadAnnounced(ctx context.Context, rdb redis.Cmdable, tenant string) (s Announced, ok bool, err error) {
	if err := ids.CheckTenant(tenant); err != nil {
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
