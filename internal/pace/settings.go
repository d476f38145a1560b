package pace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"
)

// Settings are what a worker tells producers of a tenant, so that these need
// nothing but Redis.
type Settings struct {
	Tenant string `json:"tenant"`
	// Rate is as ParseRate reads it.
	Rate    string  `json:"rate"`
	Burst   int     `json:"burst"`
	Reserve float64 `json:"reserve"`
	// SweepShare is the share of what is left that sweeps get.
	SweepShare float64 `json:"sweep_share"`
	// GiveUp is after how long a domain that is not proven expires.
	GiveUp               time.Duration `json:"give_up_ns"`
	MaxClientsPerRequest int           `json:"max_clients_per_request"`
	// Sweep is the cron text of the tenant's sweeps, in UTC, or "off"; VerifyPending
	// says that these look at pending domains too.
	Sweep         string `json:"sweep"`
	VerifyPending bool   `json:"verify_pending"`
	// What is done to domains whose token is gone, after how long, and after how many
	// sweeps; and to which domains and organizations it never is.
	AbsentAction string        `json:"absent_action"`
	Grace        time.Duration `json:"grace_ns"`
	AbsentChecks int           `json:"absent_checks"`
	Protect      []string      `json:"protect,omitempty"`
	// DNS says how domains are proven.
	DNS       DNSSettings `json:"dns,omitzero"`
	UpdatedAt time.Time   `json:"updated_at"`
}

// DNSSettings say how a tenant's domains are proven, in the words of its settings.
type DNSSettings struct {
	Resolvers       []string      `json:"resolvers"`
	Quorum          int           `json:"quorum"`
	Mode            string        `json:"mode"`
	CanaryZone      string        `json:"canary_zone,omitempty"`
	RequireDNSSEC   bool          `json:"require_dnssec,omitempty"`
	RefuseAliases   bool          `json:"refuse_aliases,omitempty"`
	RefuseWildcards bool          `json:"refuse_wildcards,omitempty"`
	ThinProofAfter  time.Duration `json:"thin_proof_after_ns,omitempty"`
}

var tenantPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func checkTenant(tenant string) error {
	if !tenantPattern.MatchString(tenant) {
		return fmt.Errorf("tenant %s: want 1 to 32 of a-z, 0-9, - and _, the first a letter or digit", quoted(tenant))
	}
	return nil
}

// Announce stores the settings of s.Tenant in place of any before. They stay
// when the workers are gone.
func Announce(ctx context.Context, rdb redis.UniversalClient, s Settings) error {
	if err := checkTenant(s.Tenant); err != nil {
		return fmt.Errorf("announce settings: %w", err)
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = rdb.Set(ctx, key(s.Tenant, "settings"), data, 0).Err()
	}
	if err != nil {
		return fmt.Errorf("announce settings of tenant %s: %w", s.Tenant, err)
	}
	return nil
}

// Announced returns what was last announced of the tenant; ok is false if no
// worker ever announced it.
func Announced(ctx context.Context, rdb redis.UniversalClient, tenant string) (s Settings, ok bool, err error) {
	if err := checkTenant(tenant); err != nil {
		return Settings{}, false, fmt.Errorf("read settings: %w", err)
	}
	data, err := rdb.Get(ctx, key(tenant, "settings")).Bytes()
	if errors.Is(err, redis.Nil) {
		return Settings{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return Settings{}, false, fmt.Errorf("read settings of tenant %s: %w", tenant, err)
	}
	return s, true, nil
}

func key(tenant, part string) string { return "orgops:v1:{tenant:" + tenant + "}:" + part }
