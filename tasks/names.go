package tasks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Lane says which of a group's two queues a task goes to.
type Lane bool

// The lanes. The fast one is for the rows of small runs and of those that are
// submitted with high priority, so that ten rows submitted behind a million do not
// wait for them.
const (
	Normal Lane = false
	Fast   Lane = true
)

// FastRows is the most rows that a run has which goes to the fast lane by itself.
const FastRows = 500

const fastSuffix = ".fast"

// DNSQueue is the queue of the tasks that only look in DNS.
func DNSQueue(tenant string, lane Lane) string { return queue(tenant, "dns", lane) }

// APIQueue is the queue of the tasks that spend the tenant's budget.
func APIQueue(tenant string, lane Lane) string { return queue(tenant, "api", lane) }

// SweepQueue is the queue of the tasks that walk through a tenant, and of what is
// decided at the end of a sweep.
func SweepQueue(tenant string) string { return tenant + ".sweep" }

// RecheckQueue is the queue of a sweep's looks: they hold up neither what people
// have submitted, nor the walk that finds them.
func RecheckQueue(tenant string) string { return tenant + ".recheck" }

// Queues returns all queues of a tenant.
func Queues(tenant string) []string {
	return []string{
		DNSQueue(tenant, Normal), DNSQueue(tenant, Fast), APIQueue(tenant, Normal), APIQueue(tenant, Fast),
		SweepQueue(tenant), RecheckQueue(tenant),
	}
}

func queue(tenant, group string, lane Lane) string {
	name := tenant + "." + group
	if lane == Fast {
		name += fastSuffix
	}
	return name
}

func laneOf(queue string) Lane { return Lane(strings.HasSuffix(queue, fastSuffix)) }

// rowTaskID names the task of one row: <run>-<item>-<generation>.
func rowTaskID(run string, item int64, generation int) string {
	return fmt.Sprintf("%s-%d-%d", run, item, generation)
}

// batchTaskID names the task of several rows by a hash of them, so that a
// producer that is run again names the same batch the same.
func batchTaskID(run string, items []int64, generation int) string {
	h := sha256.New()
	for _, i := range items {
		h.Write(strconv.AppendInt(nil, i, 10))
		h.Write([]byte{','})
	}
	return fmt.Sprintf("%s-%s-%d", run, hex.EncodeToString(h.Sum(nil)[:8]), generation)
}

// walkTaskID names the task of a walk's step: <run>-walk-<step>-<generation>.
func walkTaskID(run string, step int64, generation int) string {
	return fmt.Sprintf("%s-walk-%d-%d", run, step, generation)
}

// judgeTaskID names the task that judges a sweep: <run>-judge-<generation>.
func judgeTaskID(run string, generation int) string {
	return fmt.Sprintf("%s-judge-%d", run, generation)
}

// scheduledTaskID names what is done once a tick: <type>-<tenant>-<key>-<tick>.
func scheduledTaskID(typ, tenant, key string, tick int64) string {
	return fmt.Sprintf("%s-%s-%s-%d", typ, tenant, key, tick)
}

// confirmTaskID names the confirm that a look asks for: the look's id and c.
// Asked for twice, it is one task.
func confirmTaskID(look string) string { return look + "c" }

// nextLookTaskID names the look that follows a confirm which no longer saw
// the token. The former look is still retained under its id, so the id of
// the next one counts the rounds behind a dot, which no run's id has.
func nextLookTaskID(confirm string) string {
	look := strings.TrimSuffix(confirm, "c")
	base, round, found := strings.Cut(look, ".")
	if !found {
		return base + ".1"
	}
	n, err := strconv.Atoi(round)
	if err != nil {
		return look + ".1"
	}
	return fmt.Sprintf("%s.%d", base, n+1)
}
