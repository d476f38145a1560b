package ops

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
)

// Metrics is what a worker counts and measures. Its methods may be called from
// any goroutine. Labels must come from small fixed sets, tenants and configured
// resolvers included: never a domain, an organization or a run.
type Metrics struct {
	registry *prometheus.Registry

	tasks        *prometheus.CounterVec
	taskTime     *prometheus.HistogramVec
	requests     *prometheus.CounterVec
	requestTime  *prometheus.HistogramVec
	queries      *prometheus.CounterVec
	queryTime    *prometheus.HistogramVec
	permitWait   *prometheus.HistogramVec
	clientLimit  *prometheus.GaugeVec
	sweepTicks   *prometheus.CounterVec
	lost         lostCollector
	registration []error
}

// The buckets, in seconds. Each goes from the best that was measured to past the
// longest that its timeouts allow.
var (
	taskBuckets    = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30}
	queryBuckets   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3, 6, 10}
	waitBuckets    = []float64{.001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30}
)

// NewMetrics registers the worker's metrics, and those of the Go runtime and the
// process. It is an error if the registry has any of them already.
func NewMetrics(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{registry: registry}
	m.tasks = m.counter("orgops_tasks_total", "Executions of tasks, by what became of them.", "tenant", "type", "outcome")
	m.taskTime = m.histogram("orgops_task_duration_seconds", "How long a task's execution took.", taskBuckets, "tenant", "type")
	m.requests = m.counter("orgops_api_requests_total", "Requests to the Management API; status none: no answer came.", "tenant", "operation", "status")
	m.requestTime = m.histogram("orgops_api_request_duration_seconds", "How long a request to the Management API took, without the wait for its permit.", requestBuckets, "tenant", "operation")
	m.queries = m.counter("orgops_dns_queries_total", "DNS look-ups, by what a resolver's answer meant.", "resolver", "transport", "state", "reason")
	m.queryTime = m.histogram("orgops_dns_query_duration_seconds", "How long a resolver took.", queryBuckets, "resolver", "transport")
	m.permitWait = m.histogram("orgops_permit_wait_seconds", "How long a request waited for its permit under the tenant's rate.", waitBuckets, "tenant")
	m.clientLimit = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "orgops_clients_per_request_limit", Help: "How many clients one removal names: the setting, or fewer where the API took no more.",
	}, []string{"tenant"})
	m.sweepTicks = m.counter("orgops_sweep_ticks_total", "Ticks of the schedule of sweeps, by what became of them: begun, or skipped.", "tenant", "what")
	m.register(&m.lost, m.clientLimit)
	m.register(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := errors.Join(m.registration...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// WatchQueues adds the sizes and latencies of all queues in this Redis, read
// each time that metrics are asked for. The logger is told when they cannot be
// read.
func (m *Metrics) WatchQueues(rdb redis.UniversalClient, logger *slog.Logger) error {
	if err := m.registry.Register(newQueueCollector(asynq.NewInspectorFromRedisClient(rdb), logger)); err != nil {
		return fmt.Errorf("register the queues' metrics: %w", err)
	}
	return nil
}

// Task counts one execution of a task: its outcome in one word, and the time it
// took.
func (m *Metrics) Task(tenant, typ, outcome string, took time.Duration) {
	m.tasks.WithLabelValues(labels(tenant, typ, outcome)...).Inc()
	m.taskTime.WithLabelValues(labels(tenant, typ)...).Observe(took.Seconds())
}

// APIRequest counts one request to the Management API; status 0 means that no
// answer came.
func (m *Metrics) APIRequest(tenant, operation string, status int, took time.Duration) {
	code := "none"
	if status != 0 {
		code = strconv.Itoa(status)
	}
	m.requests.WithLabelValues(labels(tenant, operation, code)...).Inc()
	m.requestTime.WithLabelValues(labels(tenant, operation)...).Observe(took.Seconds())
}

// DNSQuery counts what one resolver said, over which transport.
func (m *Metrics) DNSQuery(resolver, transport, state, reason string, took time.Duration) {
	m.queries.WithLabelValues(labels(resolver, transport, state, reason)...).Inc()
	m.queryTime.WithLabelValues(labels(resolver, transport)...).Observe(took.Seconds())
}

// PermitWait measures how long a request waited for its permit, got or not.
func (m *Metrics) PermitWait(tenant string, took time.Duration) {
	m.permitWait.WithLabelValues(labels(tenant)...).Observe(took.Seconds())
}

// ClientsPerRequest tells how many clients one removal names at present.
func (m *Metrics) ClientsPerRequest(tenant string, limit int) {
	m.clientLimit.WithLabelValues(labels(tenant)...).Set(float64(limit))
}

// SweepTick counts a tick of the tenant's schedule: what became of it, in one word.
func (m *Metrics) SweepTick(tenant, what string) {
	m.sweepTicks.WithLabelValues(labels(tenant, what)...).Inc()
}

// labels makes values fit to be labels: the library panics at octets that are
// not UTF-8, and task types come from whoever writes to Redis.
func labels(values ...string) []string {
	for i, value := range values {
		values[i] = strings.ToValidUTF8(value, "\ufffd")
	}
	return values
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.register(c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.register(h)
	return h
}

func (m *Metrics) register(all ...prometheus.Collector) {
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			m.registration = append(m.registration, err)
		}
	}
}
