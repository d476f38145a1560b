package capacity

import "time"

// Sizes in Redis' memory, in bytes, with two random ids of 20 to 26 characters a row.
const (
	// SubmittedRow, WaitingRow and VerifiedRow are a row of domains verify before its first
	// check, after a check that did not find the token, and with its proof
	// (TestSizesOfRows of internal/engine/kinds: 40, 382 and 308).
	SubmittedRow = 45
	WaitingRow   = 400
	VerifiedRow  = 330
	// ReservedRow is the memory that the intake reserves for an open row before it accepts a
	// submission: the mean of a waiting row, and a margin.
	ReservedRow = 500
	// DomainState and SweptRow are the state of a domain between sweeps, and its row of one
	// sweep (TestSizesOfSweeps of cmd/worker).
	DomainState = 500
	SweptRow    = 180
	// tenantBytes are the lists, pace and settings of a tenant, and 90 days of asynq's
	// counters for its two queues; busyBytes are 400 tasks in asynq's queue, of 700 bytes.
	tenantBytes = 20 << 10
	busyBytes   = 400 * 700
	// redisBytes are an empty Redis, scripts, and the buffers of append-only file and
	// replication; connectionBytes are a client's buffers (CLIENT LIST: tot-mem).
	redisBytes      = 8 << 20
	connectionBytes = 24 << 10
	// margin covers fragmentation, webhooks and single rows.
	margin = 1.25
	// maxmemoryStep is that to which maxmemory is rounded up.
	maxmemoryStep = 64 << 20
)

// Requests to the API.
const (
	// fewestRequests and mostRequests are those of a verified row: a read and a PATCH, and
	// another read if its token was not there at the first check.
	fewestRequests = 2
	mostRequests   = 3
	// sweptRequests are those of a domain of a sweep, if each is the only one of its
	// organization: its listing, and a hundredth of the listing of organizations.
	sweptRequests = 1.01
)

// Commands to Redis.
const (
	// rowCommands are those of a row that is verified at the tenant's rate, and
	// checkCommands those of a check that does not find the token: MONITOR next to a worker at
	// 4 and 64 requests/s, and 5.7 scripts in 7,000 checks. Of the former 10 are scripts
	// (go run -C bench . verify --paced).
	rowCommands   = 13
	checkCommands = 6
	// sweptCommands are those of a domain of a sweep (28,800 scripts and 14,100 GETs of
	// 3,999 domains).
	sweptCommands = 10.7
	// dispatchCommands are those of the dispatcher of a tenant with work, a second (11 to 22
	// rounds of three scripts), and pollsOfOne the tasks that a worker's asynq server of such a
	// tenant asks for; of more than quickServers tenants the nth asks every n ms.
	dispatchCommands = 30
	pollsOfOne       = 250
	quickServers     = 4
	// firstIdle and secondIdle are those of a tenant without work, a second, from the first
	// two workers; others do not care for it (go run -C bench . idle).
	firstIdle  = 2.2
	secondIdle = 1
	// workerCommands are those of a worker, a second: its session, and one poll for all queues.
	workerCommands = 2
)

// Processor time of Redis for a command, in seconds. A Redis that has little to do needs up to
// twice as much.
const (
	// workCommandCPU is that of the commands for rows (go run -C bench . verify: 1.11 s
	// for 3,000 rows of 6.1 scripts), otherCommandCPU that of polls and of tenants without work
	// (go run -C bench . idle --tenants 100 --workers 2: 2.1 % of a core for 481 a second).
	workCommandCPU  = 60e-6
	otherCommandCPU = 45e-6
)

// Workers.
const (
	// Cores is how many cores a worker is taken to have.
	Cores = 2
	// rowCPU, checkCPU and sweptCPU are the processor time of a worker for a row that is
	// verified at the tenant's rate, a check that does not find the token, and a domain of a
	// sweep, and tenantCPU that for a tenant without work each second, in seconds (2.8 ms
	// with 10 tenants of 16/s; 1.2 to 1.8 ms of 7,000 checks; 1.1 ms of 3,999 domains; 2.5 %
	// of a core for 100 tenants).
	rowCPU    = 2.8e-3
	checkCPU  = 1.5e-3
	sweptCPU  = 1.1e-3
	tenantCPU = 0.25e-3
	// fullCPU is the share of its cores that a worker is planned to use.
	fullCPU = 0.7
	// mostRows is how many rows a second a worker verifies without a rate limit
	// (go run -C bench . verify: 877 on two cores, sandbox and Redis among them).
	mostRows = 877
	// fewestWorkers survive the loss of a machine.
	fewestWorkers = 2

	// workerBytes is the memory of a worker with one tenant, workBytes the additional memory to
	// execute rows, idleTenantBytes that of each tenant, and busyTenantBytes that of each tenant
	// with work (36 MB with one tenant, 53 with 100, 176 with 1,000, all idle; 70 with 10 busy
	// ones, 75 with 40).
	workerBytes     = 36 << 20
	workBytes       = 30 << 20
	idleTenantBytes = 140 << 10
	busyTenantBytes = 300 << 10

	// A worker's connections to Redis: those without work (5 with one tenant, 23 with
	// 1,000), or ten a core for rows and as many for permits and dispatchers, ten for
	// pages, one for notifications, and one for each tenant that it executes rows of (22 to
	// 86 were counted with 1 to 40 tenants at work).
	idleConnections   = 5
	idleConnectionsOf = 55 // tenants that add one
	poolOfCore        = 10
	pools             = 2
	pageConnections   = 10
	wakeConnections   = 1
)

// Limits.
const (
	// recheckEvery is how often a waiting row is checked once it is older than half an
	// hour, checkTakes how long a check of name servers that answer takes, and checkPlaces
	// how many a worker makes at a time for a tenant.
	recheckEvery = time.Hour
	checkTakes   = 100 * time.Millisecond
	checkPlaces  = 250
	// maxClients is Redis' default limit of connections.
	maxClients = 10_000
	// workerLimit is the memory limit of the Kubernetes manifests.
	workerLimit = 512 << 20
	// sweepsKept is how long the rows of a sweep are stored after its end.
	sweepsKept = 7 * 24 * time.Hour
	// longest bounds all times.
	longest = 100 * 365 * 24 * time.Hour
)
