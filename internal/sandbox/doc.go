// Package sandbox is a tenant to try and to test against: the Management API
// of the specification, a DNS server for the verification hosts and,
// where it is wanted, a Redis, all in this process and on loopback. It holds
// nothing but memory; Close ends it and everything in it.
//
// It is a second opinion on the specification. Its rules are written from the
// specification itself and share no code with the client that they judge: it
// refuses whatever the specification refuses, with the service's own words
// and codes, and where the specification is silent it does what the service
// was seen to do.
//
//	s, err := sandbox.Start(sandbox.Options{Rate: 50, Burst: 50})
//	...
//	defer s.Close()
//	org := s.AddOrganization("", "northwind")
//	d := s.AddDomain(org, sandbox.Domain{Domain: "northwind.example"})
//	s.SetTXTAt(d.Host, 3*time.Second, d.TXT)
//
// What it is asked stands in [Sandbox.Requests] and [Sandbox.Queries], the last of
// it, and is counted in [Sandbox.Counts]. It can
// be told to misbehave with [Sandbox.AddFault] and [Sandbox.SetRCode]. Other
// processes reach the same through the paths under /_sandbox/ of the API's
// listener, which answer to loopback alone:
//
//	GET    /_sandbox/requests            the request log, JSON lines; ?since=SEQ, ?operation=NAME
//	GET    /_sandbox/counts              how often it was asked for what, JSON: Counts
//	GET    /_sandbox/state               domains, clients and templates, JSON
//	GET    /_sandbox/rows/domains.csv    seeds ?n= records and answers their input file;
//	                                     unpublished.csv without TXT records;
//	                                     clients.csv, updates.csv and templates.jsonl likewise
//	POST   /_sandbox/faults              adds a fault, a [FaultRequest] in JSON
//	DELETE /_sandbox/faults              removes the faults that were posted
//
// CONFORMANCE.md has each constraint of the specification, and its tests here and
// in the client.
package sandbox
