// Package producer submits single rows from a Go service, follows and cancels them: a domain to
// verify when a customer signs up, a client to remove when one leaves. For many rows use the
// command enqueue or its HTTP intake: a file is stored in less memory. Clients that are removed
// one by one wait for others of their organization, which one request removes: see
// [Row.BatchWait].
//
// A row is a run of its own. Its id, which the caller chooses, is the run's: the command
// enqueue, the HTTP intake and the pages show, pause, cancel, retry and delete it by that.
// Lists of runs leave it out, since there may be very many, and no event run.finished is
// sent for it.
//
// # Redis may lose its last second
//
// Submit returns when the row is committed: a worker executes it even if the caller is
// killed. A Redis that is killed, or replaced by a replica, may still lose the writes of
// its last second (with appendfsync everysec, which is usual). A caller that cannot do
// without the row submits the same row again under the same id two seconds later, or when
// it has no proof that the row was executed. If Redis has lost the row, this stores it
// again; otherwise it changes nothing.
package producer
