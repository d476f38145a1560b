package ops

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"orgops/apiclient"
)

var (
	tokenOK = prometheus.NewDesc("orgops_token_ok",
		"1 if this worker has a token that the API accepts, otherwise 0.", []string{"tenant"}, nil)
	tokenFailures = prometheus.NewDesc("orgops_token_failures_total",
		"Failed token requests, and new tokens that the API refused.", []string{"tenant"}, nil)
)

// tokenCollector tells what is known of the tenants' tokens, and asks nobody for one.
type tokenCollector struct {
	tenants []string
	health  func(tenant string) apiclient.TokenHealth
}

// WatchTokens adds what is known of these tenants' tokens.
func (m *Metrics) WatchTokens(tenants []Tenant) error {
	c := &tokenCollector{}
	of := map[string]*apiclient.Client{}
	for _, t := range tenants {
		c.tenants = append(c.tenants, t.Name)
		of[t.Name] = t.API
	}
	c.health = func(tenant string) apiclient.TokenHealth { return of[tenant].TokenHealth() }
	if err := m.registry.Register(c); err != nil {
		return fmt.Errorf("register the metrics of tokens: %w", err)
	}
	return nil
}

// Describe names the metrics.
func (c *tokenCollector) Describe(ch chan<- *prometheus.Desc) { ch <- tokenOK; ch <- tokenFailures }

// Collect asks the clients.
func (c *tokenCollector) Collect(ch chan<- prometheus.Metric) {
	for _, tenant := range c.tenants {
		h := c.health(tenant)
		ch <- gauge(tokenOK, oneIf(h.Err == nil), tenant)
		ch <- prometheus.MustNewConstMetric(tokenFailures, prometheus.CounterValue, float64(h.Failures), labels(tenant)...)
	}
}
