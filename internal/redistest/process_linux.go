package redistest

import (
	"os/exec"
	"syscall"
)

// endWithTest has the process end with this one, however that ends.
func endWithTest(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
