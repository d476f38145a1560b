package tasks_test

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

// calendar is the queue of a simulation: what queue is for a handful of tasks, for
// hundreds of thousands. A finished task's id is taken for as long as it is retained.
type calendar struct {
	clock *clock

	mu       sync.Mutex
	waiting  byTime
	ids      map[string]*entry
	enqueued int
}

// entry is a task in the calendar.
type entry struct {
	queued
	number    int           // tasks due at the same time come in the order in which they were enqueued
	retention time.Duration // how long a completed one's id stays taken
	until     time.Time     // when that ends
}

func newCalendar(c *clock) *calendar { return &calendar{clock: c, ids: map[string]*entry{}} }

// EnqueueContext implements tasks.Enqueuer.
func (c *calendar) EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := c.clock.now()
	n := &entry{queued: queued{typ: task.Type(), payload: task.Payload(), at: now}}
	for _, o := range opts {
		switch o.Type() {
		case asynq.TaskIDOpt:
			n.id, _ = o.Value().(string)
		case asynq.QueueOpt:
			n.queue, _ = o.Value().(string)
		case asynq.RetentionOpt:
			n.retention, _ = o.Value().(time.Duration)
		case asynq.ProcessInOpt:
			n.after, _ = o.Value().(time.Duration)
			n.at = now.Add(n.after)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if there := c.ids[n.id]; there != nil && !there.forgotten(now) {
		return nil, fmt.Errorf("enqueue: %w", asynq.ErrTaskIDConflict)
	}
	c.ids[n.id] = n
	c.push(n)
	return &asynq.TaskInfo{ID: n.id}, nil
}

func (e *entry) forgotten(now time.Time) bool {
	return e.state == "revoked" || e.state == "completed" && !now.Before(e.until)
}

func (c *calendar) push(n *entry) {
	c.enqueued++
	n.number = c.enqueued
	heap.Push(&c.waiting, n)
}

// next is when the next task is due.
func (c *calendar) next() (at time.Time, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return time.Time{}, false
	}
	return c.waiting[0].at, true
}

// take takes the task that is due next.
func (c *calendar) take() *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return heap.Pop(&c.waiting).(*entry)
}

// give gives a task back after its execution.
func (c *calendar) give(n *entry, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n.state {
	case "":
		c.push(n)
	case "completed":
		n.until = now.Add(n.retention)
	}
}

// forget lets go of the tasks that asynq would not have any more.
func (c *calendar) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	for id, n := range c.ids {
		if n.forgotten(now) {
			delete(c.ids, id)
		}
	}
}

// byTime implements heap.Interface.
type byTime []*entry

func (h byTime) Len() int { return len(h) }
func (h byTime) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].number < h[j].number
}
func (h byTime) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *byTime) Push(x any)   { *h = append(*h, x.(*entry)) }
func (h *byTime) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
