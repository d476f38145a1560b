package main

import (
	"os"
	"syscall"
)

// peakMB is the most memory that the process had resident, in MB.
func peakMB(p *os.ProcessState) float64 {
	usage, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return float64(usage.Maxrss) * 1024 / 1e6 // Linux counts in KiB
}
