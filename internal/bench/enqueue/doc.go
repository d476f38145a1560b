// Command enqueue measures how fast rows are taken in, on this machine:
//
//	go run ./internal/bench/enqueue [-rows N] [-rounds N]
//
// Each round makes a file of domains verify rows (the two ids) and a
// redis-server of its own that writes nothing to disk. A producer in a process
// of its own then validates the rows, stores and enqueues them, as the enqueue
// command does; beside it a plain loop of 64 goroutines over asynq.Client.Enqueue
// enqueues as many tasks of the same size, and stores nothing. Told are rows a
// second and each producer's peak resident memory.
package main
