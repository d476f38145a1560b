//go:build unix

package health

import "syscall"

// openFiles is how many files the process may have open; Go has raised it to what
// the machine allows at most.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // signed on FreeBSD
}
