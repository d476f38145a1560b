package redistest

import (
	"os/exec"
	"syscall"
)

// endWithTest makes Linux kill the process when this one ends, even if it is killed.
func endWithTest(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
