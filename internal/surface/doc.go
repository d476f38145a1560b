// Package surface shows what users see: a fixed world in virtual time, what commands, pages and
// HTTP APIs say about it, as text, and the comparison of that with testdata/surface. A test of each
// room, such as TestSurface of cmd/enqueue, has the examples.
//
// The world is a month of some tenants, told in world.go: real code submits, executes, sweeps and
// delivers, with an API and a DNS that answer as they are told. It is made once in a test; each
// example gets a copy of its Redis at noon of the 20th of November 2026.
//
// Time is that of a bubble of testing/synctest, and random numbers of crypto/rand follow from the
// names of the tests. The random spread of waiting times is avoided: an absence may be cached for
// longer than the wait, and a failing server says when to come again.
//
// Files, each uses those below it:
//
//	exchange.go  requests to a handler, and the answers, as text
//	page.go      a page as text
//	compare.go   the comparison with testdata/surface
//	access.go    the users of pages and APIs
//	show.go      the world, and what is shown of it
//	world.go     its story
//	webhooks.go  a tenant's webhooks, and their deliveries
//	tenant.go    a tenant with a worker that executes rows when it is told to
//	platform.go  the API and the DNS of a tenant
//	moment.go    the world at a time, in a bubble
//	copy.go      copies of a database
package surface

//go:generate go test -p 1 -run ^TestSurface$ orgops/cmd/enqueue orgops/cmd/worker orgops/internal/console orgops/internal/httpapi orgops/internal/customer -update
