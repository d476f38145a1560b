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
//	                                     names.csv with names instead of ids;
//	                                     clients.csv, updates.csv and templates.jsonl likewise
//	PUT    /_sandbox/domains             adds or replaces an organization and its domain, a
//	                                     [DomainRequest] in JSON, and returns them
//	PUT    /_sandbox/clients             associates a client with an organization, a
//	                                     [ClientRequest] in JSON
//	PUT    /_sandbox/txt                 sets a host's TXT records, a [TXTRequest] in JSON
//	DELETE /_sandbox/txt?host=HOST       removes the host
//	PUT    /_sandbox/ns                  sets a zone's NS records, an [NSRequest] in JSON
//	PUT    /_sandbox/scopes              takes scopes away, a [ScopesRequest] in JSON; {} gives
//	                                     them back
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
//	control.go     serves the paths below /_sandbox/
//	seed.go        adds as many records as wanted, and makes their input files
//	sample.go      adds a run of each kind, with the expected results
//	api.go         reads, checks and answers a request to the API
//	auth.go        the token endpoint, and the tokens of requests
//	operations.go  the operations of the API
//	list.go        pages of a list, by checkpoints or offsets
//	send.go        sends an answer, as a fault changes it
//	answer.go      an answer, and the service's errors
//	sandbox.go     start, stop, addresses
//	token.go       access tokens
//	certificate.go the certificate of an API over TLS
//	faults.go      which fault a request has
//	dnsserver.go   the DNS server
//	zone.go        the names that it serves, and its log
//	options.go     the settings of a sandbox
//	rules.go       the specification's rules of bodies
//	tenant.go      the tenant's domains, clients and templates
//	ordered.go     a map in the order of insertion
//	form.go        reads a form into a tree
//	body.go        reads JSON into a tree
//	bucket.go      the tenant's rate limit
//	requests.go    the log of requests
//	counts.go      counts requests and queries
//	tail.go        the last values of a sequence
//	names.go       makes identifiers
package sandbox
