// Package sandbox is a tenant for trials and tests: the Management API of the
// specification, a DNS server for the verification hosts and, optionally, a Redis, all in
// this process and on loopback. Its state is in memory.
//
// It is a second opinion on the specification. Its rules are written from the
// specification and share no code with the client that they test: it refuses all that the
// specification refuses, with the service's messages and codes, and where the
// specification is silent it does as the service was observed to do.
//
//	s, err := sandbox.Start(sandbox.Options{Rate: 50, Burst: 50})
//	...
//	defer s.Close()
//	org := s.AddOrganization("", "northwind")
//	d := s.AddDomain(org, sandbox.Domain{Domain: "northwind.example"})
//	s.SetTXTAt(d.Host, 3*time.Second, d.TXT)
//
// [Sandbox.Requests] and [Sandbox.Queries] return the last requests, and [Sandbox.Counts]
// counts all. [Sandbox.AddFault] and [Sandbox.SetRCode] make it misbehave. Other processes
// use the paths below /_sandbox/ of the API's listener, which serve only loopback:
//
//	GET    /_sandbox/requests            the request log, JSON lines; ?since=SEQ, ?operation=NAME
//	GET    /_sandbox/counts              the number of requests of each kind, JSON: Counts
//	GET    /_sandbox/state               domains, clients and templates, JSON
//	GET    /_sandbox/rows/domains.csv    adds ?n= records and returns their input file;
//	                                     unpublished.csv without TXT records;
//	                                     clients.csv, updates.csv and templates.jsonl likewise
//	POST   /_sandbox/faults              adds a fault, a [FaultRequest] in JSON
//	DELETE /_sandbox/faults              removes the faults that were posted
//
// CONFORMANCE.md lists each constraint of the specification with its tests here and in the
// client.
//
// # Files
//
// Each file uses those below it:
//
//	control.go                                 the paths below /_sandbox/
//	seed.go, sample.go                         data to try with
//	faults.go, list.go, auth.go, api.go        the Management API and its token endpoint, and how they misbehave
//	assertion.go                               the assertions of its clients
//	dnsserver.go, zone.go                      the DNS server
//	tenant.go, ordered.go                      the tenant's state
//	sandbox.go                                 start, stop, addresses
//	rules.go, body.go, form.go                 the specification's rules of bodies
//	bucket.go                                  its rate limit
//	requests.go, counts.go, tail.go, names.go  logs and counters; identifiers
package sandbox
