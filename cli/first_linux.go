package cli

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// first does the work of a container's first process, where that is kloop: it runs itself once more, passes signals on, and takes leave
// of every process that ends. Those of pods, whose parents ended, are its children and nobody else's. Only commands that may run pods
// need it: the others would take the memory of two processes.
func first(args []string) (code int, ok bool) {
	if os.Getpid() != 1 || !slices.Contains(args, "up") && !slices.Contains(args, "node") {
		return 0, false
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	self, err := os.Executable()
	if err != nil {
		self = "/proc/self/exe"
	}
	p, err := os.StartProcess(self, args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		_, _ = os.Stderr.WriteString("kloop: start as the first process: " + err.Error() + "\n") // there is nobody else to tell
		return 1, true
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGCHLD && s != syscall.SIGURG { // its own
				_ = syscall.Kill(p.Pid, s.(syscall.Signal)) // it may have ended
			}
		}
	}()
	for {
		var s syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &s, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, true
		case pid == p.Pid && s.Signaled():
			return 128 + int(s.Signal()), true
		case pid == p.Pid && s.Exited():
			return s.ExitStatus(), true
		}
	}
}
