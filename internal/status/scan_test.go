package status_test

import (
	"testing"
	"time"

	"orgops/internal/ledger"
	"orgops/internal/status"
)

func TestScanState(t *testing.T) {
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, test := range []struct {
		name string
		run  ledger.Run
		told string
		want string
		out  string // what is left out
	}{
		{name: "goes on", told: `{"organizations_read":7}`, want: "organizations read: 7; continues"},
		{name: "through", told: `{"organizations_read":7,"ended":true}`, want: "organizations read: 7"},
		{name: "gone", told: `{"organizations_read":7,"organizations_gone":2,"ended":true}`,
			want: "organizations read: 7; gone since they were listed: 2"},
		{name: "cancelled", run: ledger.Run{CancelledAt: at}, told: `{"organizations_read":7}`,
			want: "organizations read: 7; stopped by the cancel"},
		{
			name: "waits", run: ledger.Run{Scan: &ledger.Scan{Note: []byte("blocked\x00403\x00"), NextAt: at}},
			told: `{"organizations_read":7}`,
			want: "organizations read: 7; waits: blocked: 403 (next try 2031-02-03T04:05:06Z)",
		},
		{
			name: "given back", run: ledger.Run{Scan: &ledger.Scan{Note: []byte("a newer worker is needed"), NextAt: at}},
			told: `{"organizations_read":7}`,
			want: "organizations read: 7; waits: a newer worker is needed (next try 2031-02-03T04:05:06Z)",
		},
		{
			name: "died", run: ledger.Run{Scan: &ledger.Scan{Note: []byte("given up\x1b")}, CommittedAt: at},
			told: `{"organizations_read":7}`, want: `organizations read: 7; ended early: given up\x1b`,
			out: `ended early: given up\x1b`,
		},
		{
			name: "missed",
			told: `{"organizations_read":7,"organizations_missed":2,"why":"organization o: 500\u001b","ended":true}`,
			want: `organizations read: 7; organizations not read: 2 (organization o: 500\x1b)`,
			out:  `organizations not read: 2 (organization o: 500\x1b)`,
		},
		{
			name: "early", told: `{"organizations_read":7,"organizations_missed":1,"why":"o","ended_early":"503","ended":true}`,
			want: "organizations read: 7; ended early: 503; organizations not read: 1 (o)",
			out:  "ended early: 503; organizations not read: 1 (o)",
		},
		{
			name: "a list", told: `{"client_id":"c","organizations_with_client":3,"organizations_entitled":1,` +
				`"organizations_protected":2,"organizations_read":7,"ended":true}`,
			want: "list of the organizations with client c, which removes nothing; with the client: 3; with an active app " +
				"entitlement: 1; protected, left out: 2; organizations read: 7",
		},
		{
			name: "a removal", told: `{"client_id":"c","list":"l","counted":4,"organizations_with_client":3,"organizations_read":7}`,
			want: "removal of client c from the 4 organizations that run l lists: 3 still have it; organizations read: 7; continues",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.run.Scan == nil {
				test.run.Scan = &ledger.Scan{}
			}
			test.run.Scan.Progress = []byte(test.told)
			test.run.Growing = test.run.CommittedAt.IsZero()
			scan := status.RunOf(test.run).Scan
			if got := scan.String(); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if got := scan.LeftOut(); got != test.out {
				t.Errorf("left out: %q, want %q", got, test.out)
			}
		})
	}
	if got := status.RunOf(ledger.Run{}).Scan.String(); got != "" {
		t.Errorf("of a run that is submitted: %q", got)
	}
}
