package followup

import "time"

// SetVerifyAfter sets how long after a commit the run is verified.
func (f *FollowUp) SetVerifyAfter(d time.Duration) { f.verifyAfter = d }
