package intake

import "time"

// A Cluster may lose the writes of its last second: without this, each of the hundreds of
// sweeps that tests begin there would take two seconds.
func init() { defaultVerifyAfter = 10 * time.Millisecond }
