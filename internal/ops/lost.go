package ops

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

var lostRows = prometheus.NewDesc("orgops_lost_rows",
	"Open rows for which no task stands, as the fleet found last: every worker tells the same.", []string{"tenant"}, nil)

// lostCollector tells what LostRows was told last.
type lostCollector struct {
	byTenant atomic.Pointer[map[string]int64]
}

// Describe names the metric.
func (c *lostCollector) Describe(ch chan<- *prometheus.Desc) { ch <- lostRows }

// Collect writes a line for each tenant.
func (c *lostCollector) Collect(ch chan<- prometheus.Metric) {
	byTenant := c.byTenant.Load()
	if byTenant == nil {
		return
	}
	for tenant, rows := range *byTenant {
		ch <- prometheus.MustNewConstMetric(lostRows, prometheus.GaugeValue, float64(rows), labels(tenant)...)
	}
}

// LostRows says how many rows of each tenant are lost, in the place of what was
// said before. The map is not to be changed after.
func (m *Metrics) LostRows(byTenant map[string]int64) { m.lost.byTenant.Store(&byTenant) }
