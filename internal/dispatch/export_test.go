package dispatch

import "time"

// Earlier moves the dispatcher's recorded times back.
func Earlier(d *Dispatcher, by time.Duration) {
	d.activeAt, d.leaseAt, d.busyAt = d.activeAt.Add(-by), d.leaseAt.Add(-by), d.busyAt.Add(-by)
}
