package tasks

// Plan counts the tasks and requests of rows.
type Plan struct {
	// Tasks is how many tasks there would be.
	Tasks int64
	// Calls is how many requests to the API they would make if none is repeated and each
	// token is in DNS.
	Calls int64

	perRow     int64 // requests; 0: rows are removals, which are batched
	maxClients int
	window     int64           // the number of the window of clients
	held       map[string]int  // clients of the window by organization
	seen       map[string]bool // identities of the window's rows
}

// MaxClients is the largest number of clients that one request names (specification 4.2).
const MaxClients = 100

// Summary is the result of a submission.
type Summary struct {
	Rows    int64 // all of the run
	Tasks   int64 // how many there are to be
	Settled int64 // rows that are settled already
}

// segmentRows is the number of rows within which removals are grouped by organization.
const segmentRows = 8192

// NewPlan returns the plan of rows of that kind for a tenant whose requests
// name at most maxClients clients (0: MaxClients).
func NewPlan(kind string, maxClients int) *Plan {
	if maxClients <= 0 {
		maxClients = MaxClients
	}
	p := &Plan{perRow: 1, maxClients: min(maxClients, MaxClients), held: map[string]int{}, seen: map[string]bool{}}
	switch kind {
	case TypeVerify:
		p.perRow = 2 // GET, to prove it, and PATCH
	case TypeRemove:
		p.perRow = 0
	}
	return p
}

// Add counts a row, by its number in the input. Rows are added in their order.
func (p *Plan) Add(item int64, row Row) {
	if p.perRow == 0 {
		p.addClient(item/segmentRows, row)
		return
	}
	p.Tasks++
	p.Calls += p.perRow
}

// Repeat subtracts a row that was added and is a duplicate. Duplicates within a window of
// removals were not counted.
func (p *Plan) Repeat() {
	if p.perRow > 0 {
		p.Tasks--
		p.Calls -= p.perRow
	}
}

// addClient counts batches as the producer forms them.
func (p *Plan) addClient(window int64, row Row) {
	if window != p.window {
		p.Close()
		p.window = window
	}
	identity := string(row.AppendIdentity(nil))
	if p.seen[identity] {
		return
	}
	p.seen[identity] = true
	p.held[row.organization]++
	if p.held[row.organization] == MaxClients {
		p.batch(MaxClients)
		delete(p.held, row.organization)
	}
}

func (p *Plan) batch(clients int) {
	p.Tasks++
	p.Calls += int64((clients + p.maxClients - 1) / p.maxClients) // DELETEs
}

// Close counts the clients that are held. It is called after the last row.
func (p *Plan) Close() {
	for _, clients := range p.held {
		p.batch(clients)
	}
	clear(p.held)
	clear(p.seen)
}
