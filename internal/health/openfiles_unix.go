//go:build unix

package health

import "syscall"

// openFiles returns how many files the process may have open. Go has raised the limit to the
// most that the machine allows.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // signed on FreeBSD
}
