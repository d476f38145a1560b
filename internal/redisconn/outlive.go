package redisconn

import (
	"context"
	"time"
)

// ownTimeout bounds a command that its context cannot end: two attempts at a
// Redis that is silent for the 5 s after which go-redis gives up on a reply, and
// a third of what a task's lease has left.
const ownTimeout = 10 * time.Second

// outlive sends commands with a context that has the values of the one given, but
// neither its end nor its deadline.
func outlive(ctx context.Context, send func(context.Context) error) error {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownTimeout)
	defer cancel()
	return send(own)
}
