//go:build !unix

package main

import "time"

// ownCPU returns 0: it is not known on this system.
func ownCPU() time.Duration { return 0 }
