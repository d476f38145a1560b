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
//	POST   /_sandbox/faults              adds a fault, JSON, as below
//	DELETE /_sandbox/faults              removes the faults that were posted
//
// A posted fault is an object of these members, all optional. Which requests:
//
//	operation             get_discovery_domain, update_discovery_domain, list_discovery_domains, list_organizations,
//	                      remove_organization_clients, list_organization_clients, create_template, list_templates, token
//	skip, count           so many that fit are let through first; then it is applied so often, 0: until it is removed
//
// What becomes of them:
//
//	latency_ms            before the request is looked at; it is carried out though the caller has gone
//	answer_latency_ms     after it was carried out
//	status, body, header  an answer in place of the operation's; status alone has the service's error body
//	html, redirect        a proxy's page; an answer with that Location
//	handled               the request is carried out before it is answered so
//	wrong_record          discovery domains in the answer are another's
//	drop_before, drop_after   the connection is reset, before the request is looked at or after it was carried out
//	truncate, drip_ms, endless, not_http   the body ends half-way, comes byte by byte, never ends; the answer is no HTTP
//
// CONFORMANCE.md has each constraint of the specification, and its tests here and
// in the client.
//
// Where things are: api.go the operations, rules.go what a body may say,
// body.go and form.go how it is read, auth.go tokens and scopes, bucket.go the
// rate limit, tenant.go the state, zone.go and dnsserver.go the names,
// faults.go the misbehaviour, requests.go the log, counts.go the counts, control.go
// the paths above, sample.go, rows.go and crowd.go the data to try with; shelf.go and tail.go keep things
// in order, names.go names them.
package sandbox
