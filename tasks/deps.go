package tasks

import (
	"context"
	"iter"
	"time"

	"github.com/hibiken/asynq"

	"orgops/apiclient"
	"orgops/dnscheck"
)

// API is what the handlers need of the Management API's client.
type API interface {
	DiscoveryDomain(ctx context.Context, organization, domain string) (apiclient.DiscoveryDomain, error)
	UpdateDiscoveryDomain(ctx context.Context, organization, domain string, u apiclient.DiscoveryDomainUpdate) (apiclient.DiscoveryDomain, error)
	RemoveOrganizationClients(ctx context.Context, organization string, clients []string) error
	CreateTemplate(ctx context.Context, r apiclient.TemplateRequest) (apiclient.Template, error)
	OrganizationsPage(ctx context.Context, from string) (page []apiclient.Listed[apiclient.Organization], next string, err error)
	DiscoveryDomainsPage(ctx context.Context, organization, from string) (page []apiclient.Listed[apiclient.DiscoveryDomain], next string, err error)
	Templates(ctx context.Context) iter.Seq2[apiclient.Template, error]
}

// DNS is what the handlers need of the DNS check: a look, which is quick,
// a proof, which a resolver alone cannot give, and a proof of the contrary, for
// which every vantage point is asked.
type DNS interface {
	Look(ctx context.Context, host, token string) (dnscheck.Verdict, error)
	Prove(ctx context.Context, host, token string) (dnscheck.Verdict, error)
	Disprove(ctx context.Context, host, token string) (dnscheck.Verdict, error)
	// Operator says who runs the name servers of a host, empty where nobody can say.
	Operator(ctx context.Context, host string) (string, error)
}

// Ledger is what the handlers need of a run's ledger. An error for a run
// that is not there has a method NotFound() bool.
type Ledger interface {
	Walks
	// Standing says of each item whether it is settled and, of a single one,
	// what Looked and Begin keep of it, by name. A run of another kind, or without such a
	// row, is an error like that of no run; an empty kind asks for neither. For a
	// task of an earlier run of the same id, by its generation, there is no run.
	// drop says why a task of that generation is to be dropped although rows
	// are open: "cancelled", "paused", "superseded", or nothing.
	Standing(ctx context.Context, run, kind string, generation int, items []int64) (settled []bool, kept map[string][]byte, drop string, err error)
	// Settle settles those of the items that are open; each counts once.
	Settle(ctx context.Context, run, kind string, generation int, items []int64, outcome, detail string) error
	// SettleRow settles one item for an execution that knows of its mark, as Begin has set
	// it, of that name and value; of none where the value is empty. Where the item has
	// another one nothing is settled, and against is "begun"; one that is there no more
	// is in nobody's way. Evidence, nil for none, is kept with the outcome.
	SettleRow(ctx context.Context, run, kind string, generation int, item int64, name string, mark []byte, outcome, detail string, evidence []byte) (against string, err error)
	// Note keeps why rows are still open and when they are looked at next.
	Note(ctx context.Context, run string, generation int, items []int64, reason string, next time.Time) error
	// Looked notes one row likewise after a look, and keeps in the same step what was
	// found, for people to read, and values by name across crashes. Settling the row
	// drops them; what was found of one that expired stays.
	Looked(ctx context.Context, run string, item int64, generation int, reason string, next time.Time, evidence []byte, kept map[string][]byte) error
	// Begin keeps a value likewise, and that the row has begun: a cancel leaves
	// it open. An empty value says that it has not after all. against says what
	// stands against it, as drop does, or "settled": a row that had not begun
	// then has not. It is "begun", and nothing is written, where the value that is
	// there is not former: another execution has begun the row meanwhile.
	Begin(ctx context.Context, run string, item int64, generation int, name string, value, former []byte) (against string, err error)
	// Amend is Begin for a row that has begun: "begun" also where former is there no more.
	Amend(ctx context.Context, run string, item int64, generation int, name string, value, former []byte) (against string, err error)
}

// Pace is told when the API does not let us do an operation at all.
type Pace interface {
	// Block holds back the operation ("*": every one) for the whole fleet,
	// but for a probe now and then.
	Block(ctx context.Context, operation, reason string) error
}

// ClientLimit remembers for the whole fleet how many clients the tenant was found
// to take in one request, where that is fewer than the setting. It forgets after a
// while, so that the setting is tried again; another setting is tried at once.
type ClientLimit interface {
	// InUse is how many clients a request may name now, at most setting.
	InUse(ctx context.Context, setting int) (int, error)
	// Lower lowers that, and says whether it was higher before.
	Lower(ctx context.Context, setting, to int) (lowered bool, err error)
}

// Enqueuer is the part of *asynq.Client that enqueues.
type Enqueuer interface {
	EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error)
}

// Meter counts finished executions; a nil Meter counts nothing.
type Meter interface {
	Task(tenant, typ, outcome string, took time.Duration)
	// ClientsPerRequest is told of the limit in use by whoever keeps to it.
	ClientsPerRequest(tenant string, limit int)
}

// Restoration is a run of one row that verifies a domain again which a sweep had set to
// pending: by a full proof alone.
type Restoration struct {
	Run, Tenant                       string
	OrganizationID, DiscoveryDomainID string
	// Flag is use_for_organization_discovery for a record that omits it; nil: unknown.
	Flag *bool
	// GiveUp is how long the row may wait for a proof.
	GiveUp time.Duration
}

// Memories is what sweeps need of what is remembered of one tenant's discovery
// domains. A domain goes by its id.
type Memories interface {
	// Memory is what is kept of a domain, nil if nothing is.
	Memory(ctx context.Context, domain string) ([]byte, error)
	// Remember replaces former by value, both nil for nothing, and puts the domain
	// among the attended ones, or takes it from there. In the same step it counts each
	// word for the tick. ok is false, and nothing is written, where what is kept is
	// not former any more.
	Remember(ctx context.Context, domain string, former, value []byte, attend bool, tick int64, counted ...string) (ok bool, err error)
	// Attended are the ids of the attended domains, in no order.
	Attended(ctx context.Context) iter.Seq2[string, error]
	// Tally is how often each word was counted for the tick.
	Tally(ctx context.Context, tick int64) (map[string]int64, error)
	// State is what is kept for the whole tenant under a name, nil if nothing is.
	State(ctx context.Context, name string) ([]byte, error)
	// SetState replaces it as Remember does.
	SetState(ctx context.Context, name string, former, value []byte) (ok bool, err error)
}

// Notices tells others of what has happened.
type Notices interface {
	// Tell sees to it that the notice reaches whoever wants it. Told again under
	// the same id it is told once.
	Tell(ctx context.Context, n Notice) error
}
