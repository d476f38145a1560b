package metrics

import (
	"cmp"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"orgops/apiclient"
)

// Metrics are the counters and measurements of a worker. Its methods may be called from any
// goroutine. Labels must come from small fixed sets, tenants and configured resolvers
// included: never a domain, an organization or a run.
type Metrics struct {
	registry *prometheus.Registry

	tasks       *prometheus.CounterVec
	taskTime    *prometheus.HistogramVec
	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec
	queries     *prometheus.CounterVec
	queryTime   *prometheus.HistogramVec
	permitWait  *prometheus.HistogramVec
	clientLimit *prometheus.GaugeVec
	events      *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	sweepTicks  *prometheus.CounterVec
	verdicts    *prometheus.CounterVec
	refused     prometheus.Gauge
	network     *prometheus.GaugeVec
	build       *prometheus.GaugeVec

	// ofTenants are the vectors with a label tenant.
	ofTenants []interface {
		DeletePartialMatch(prometheus.Labels) int
	}
}

// The buckets, in seconds: from the shortest time that was measured to more than the longest
// that the timeouts allow.
var (
	taskBuckets    = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30}
	queryBuckets   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3, 6, 10}
	waitBuckets    = []float64{.001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30}
)

// New registers the worker's metrics, and those of the Go runtime and the
// process. It panics if the registry has any of them already.
func New(registry *prometheus.Registry) *Metrics {
	m := &Metrics{registry: registry}
	with := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return with.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return with.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m.tasks = counter("orgops_tasks_total", "Task executions by outcome.", "tenant", "type", "outcome")
	m.taskTime = histogram("orgops_task_duration_seconds", "Duration of a task execution.", taskBuckets, "tenant", "type")
	m.requests = counter("orgops_api_requests_total", "Requests to the Management API. Status none: no answer.",
		"tenant", "operation", "status")
	m.requestTime = histogram("orgops_api_request_duration_seconds",
		"Duration of a request to the Management API, without the wait for its permit.",
		requestBuckets, "tenant", "operation")
	m.queries = counter("orgops_dns_queries_total",
		"DNS queries by the meaning of their answer. Resolver authority: a zone's own name server. Rcode none: no answer.",
		"resolver", "transport", "rcode", "state", "reason")
	m.queryTime = histogram("orgops_dns_query_duration_seconds", "Duration of a DNS query.", queryBuckets,
		"resolver", "transport")
	m.permitWait = histogram("orgops_permit_wait_seconds",
		"Time that a request waited for a permit of the tenant's rate.", waitBuckets, "tenant")
	m.clientLimit = gauge("orgops_clients_per_request_limit",
		"Maximum number of clients in one removal: the setting, or less if the API accepts fewer.", "tenant")
	m.events = counter("orgops_events_total",
		"Events written to the log and sent to the endpoints that subscribe to them.", "tenant", "type")
	m.deliveries = counter("orgops_webhook_deliveries_total",
		"Attempts to deliver an event: delivered, again or given_up; and events that are not sent because too many waited for the endpoint, dropped, or because another tool deleted their deliveries from asynq's queue, deleted. Endpoint unknown: this worker has no endpoint of that name.", "tenant", "endpoint", "outcome")
	m.sweepTicks = counter("orgops_sweep_ticks_total",
		"Scheduled sweeps by result: started or skipped.", "tenant", "result")
	m.verdicts = counter("orgops_verdicts_total", "Results of DNS checks and proofs of a domain's token.",
		"tenant", "state", "reason")
	m.refused = with.NewGauge(prometheus.GaugeOpts{Name: "orgops_settings_refused",
		Help: "1 while a changed file of tenants is refused and the former settings are in force."})
	m.network = gauge("orgops_network_problem",
		"1 for the problem that the last probe of the way to domains' own name servers found. "+
			"closed, redirected, no_tcp, no_udp: port 53. ipv6_silent: there is an IPv6 route, and nothing answers.", "problem")
	m.build = gauge("orgops_build_info", "Always 1; the labels describe the running build.",
		"version", "commit", "go_version")
	m.ofTenants = append(m.ofTenants, m.tasks, m.taskTime, m.requests, m.requestTime, m.permitWait, m.clientLimit,
		m.events, m.deliveries, m.sweepTicks, m.verdicts)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics in the formats that Prometheus requests.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError, // a metric that cannot be read is left out
		MaxRequestsInFlight: 4,                        // one for each of a few Prometheus servers
	})
}

// WatchTenant adds the state of a tenant's token; it fetches none. The function that it returns
// removes that and all other series of the tenant.
func (m *Metrics) WatchTenant(tenant string, api *apiclient.Client) (forget func()) {
	of := prometheus.Labels{"tenant": tenant}
	token := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orgops_token_ok", Help: "0 if this worker needs a token and has none that the API accepts, otherwise 1.",
			ConstLabels: of,
		}, func() float64 { return oneIf(api.TokenHealth().Err == nil) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orgops_token_failures_total", Help: "Failed token requests, and new tokens that the API refused.",
			ConstLabels: of,
		}, func() float64 { return float64(api.TokenHealth().Failures) }),
	}
	m.registry.MustRegister(token...)
	return func() {
		for _, c := range token {
			m.registry.Unregister(c)
		}
		for _, v := range m.ofTenants {
			v.DeletePartialMatch(of)
		}
	}
}

// Task counts one execution of a task by its outcome, and its duration.
func (m *Metrics) Task(tenant, typ, outcome string, took time.Duration) {
	m.tasks.WithLabelValues(labels(tenant, typ, outcome)...).Inc()
	m.taskTime.WithLabelValues(labels(tenant, typ)...).Observe(took.Seconds())
}

// APIRequest counts one request to the Management API; status 0: there was no answer.
func (m *Metrics) APIRequest(tenant, operation string, status int, took time.Duration) {
	code := "none"
	if status != 0 {
		code = strconv.Itoa(status)
	}
	m.requests.WithLabelValues(labels(tenant, operation, code)...).Inc()
	m.requestTime.WithLabelValues(labels(tenant, operation)...).Observe(took.Seconds())
}

// DNSQuery counts one query of a resolver over a transport; an empty rcode: there was no
// answer.
func (m *Metrics) DNSQuery(resolver, transport, rcode, state, reason string, took time.Duration) {
	m.queries.WithLabelValues(labels(resolver, transport, rcodeLabel(rcode), state, reason)...).Inc()
	m.queryTime.WithLabelValues(labels(resolver, transport)...).Observe(took.Seconds())
}

// rcodeLabel bounds the labels to the codes that matter: name servers may send any of 4,096.
func rcodeLabel(rcode string) string {
	switch rcode {
	case "":
		return "none"
	case "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "NOTAUTH", "BADVERS", "BADCOOKIE":
		return rcode
	}
	return "other"
}

// Verdict counts the result of a check or a proof.
func (m *Metrics) Verdict(tenant, state, reason string) {
	m.verdicts.WithLabelValues(labels(tenant, state, reason)...).Inc()
}

// BuildInfo sets the running version, and the commit that it was built from; empty: unknown.
func (m *Metrics) BuildInfo(version, commit string) {
	m.build.WithLabelValues(labels(version, cmp.Or(commit, "unknown"), runtime.Version())...).Set(1)
}

// SettingsRefused sets whether the changed file of tenants is refused.
func (m *Metrics) SettingsRefused(refused bool) { m.refused.Set(oneIf(refused)) }

// Network sets what the last probe of the way to name servers found.
func (m *Metrics) Network(port53, ipv6 string) {
	for _, problem := range []string{"closed", "redirected", "no_tcp", "no_udp", "ipv6_silent"} {
		m.network.WithLabelValues(problem).Set(oneIf(problem == port53 || problem == "ipv6_"+ipv6))
	}
}

// PermitWait measures how long a request waited for its permit, granted or not.
func (m *Metrics) PermitWait(tenant string, took time.Duration) {
	m.permitWait.WithLabelValues(labels(tenant)...).Observe(took.Seconds())
}

// ClientsPerRequest sets the most clients that one removal names at present.
func (m *Metrics) ClientsPerRequest(tenant string, limit int) {
	m.clientLimit.WithLabelValues(labels(tenant)...).Set(float64(limit))
}

// Event counts one event.
func (m *Metrics) Event(tenant, typ string) {
	m.events.WithLabelValues(labels(tenant, typ)...).Inc()
}

// Delivery counts one attempt to deliver an event.
func (m *Metrics) Delivery(tenant, endpoint, outcome string) {
	m.deliveries.WithLabelValues(labels(tenant, endpoint, outcome)...).Inc()
}

// SweepTick counts a tick of the tenant's schedule by its result.
func (m *Metrics) SweepTick(tenant, result string) {
	m.sweepTicks.WithLabelValues(labels(tenant, result)...).Inc()
}
