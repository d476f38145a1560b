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
// What it is asked stands in [Sandbox.Requests] and [Sandbox.Queries]. It can
// be told to misbehave with [Sandbox.AddFault] and [Sandbox.SetRCode]. Other
// processes reach the same through the paths under /_sandbox/ of the API's
// listener, which answer to loopback alone:
//
//	GET    /_sandbox/requests            the request log, JSON lines; ?since=SEQ, ?operation=NAME
//	GET    /_sandbox/state               domains, clients and templates, JSON
//	GET    /_sandbox/rows/domains.csv    seeds ?n= records and answers their input file;
//	                                     clients.csv, updates.csv and templates.jsonl likewise
//	POST   /_sandbox/faults              adds a fault, JSON
//	DELETE /_sandbox/faults              removes the faults that were posted
//
// Where things are: api.go the operations, rules.go what a body may say,
// body.go and form.go how it is read, auth.go tokens and scopes, bucket.go the
// rate limit, tenant.go the state, zone.go and dnsserver.go the names,
// faults.go the misbehaviour, requests.go the log, control.go the paths above,
// sample.go and rows.go the data to try with; shelf.go and tail.go keep things
// in order, names.go names them.
package sandbox
