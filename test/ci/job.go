package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A job is a step that runs. Steps run side by side: each says what it does and fails through its own job.
type job struct {
	*session
	out io.Writer
	dir string   // the module whose tests run
	env []string // besides that of this process
	low []string // the program and its arguments that give another the lowest priority; none: it runs as others do
	cpu *time.Duration
}

// in is the job in the folder of another module, with more environment.
func (j *job) in(dir string, env ...string) *job {
	return &job{j.session, j.out, dir, append(slices.Clip(j.env), env...), j.low, j.cpu}
}

// idle is the job whose programs take no processor that another program asks for, where the system can do that (see sched(7), SCHED_IDLE).
func (j *job) idle() *job {
	j = j.in(j.dir)
	if low := []string{"chrt", "--idle", "0"}; exec.Command(low[0], append(low[1:], "true")...).Run() == nil { // containers may forbid it
		j.low = low
	}
	return j
}

// script runs a program in the folder of this repository.
func (j *job) script(name string, args ...string) error {
	line := slices.Concat(j.low, []string{name}, args)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = j.out, j.out, append(os.Environ(), j.env...)
	err := cmd.Run()
	j.spent(cmd)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// spent adds the processor's time of a program that has ended, and of all that it waited for, to the step's.
func (j *job) spent(cmd *exec.Cmd) {
	if s := cmd.ProcessState; s != nil {
		*j.cpu += s.UserTime() + s.SystemTime()
	}
}

// asRoot is script for what needs root.
func (j *job) asRoot(name string, args ...string) error {
	if !isRoot() {
		return j.skip()
	}
	return j.script(name, args...)
}

func isRoot() bool { return os.Getuid() == 0 }

// skip says that the rest of a step needs root. That is an error in a run that must not skip it.
func (j *job) skip() error {
	fmt.Fprintln(j.out, "skipped: real containers need root")
	if slices.Contains(strings.Split(os.Getenv("KLOOP_MUST"), ","), "root") {
		return errors.New("KLOOP_MUST names root")
	}
	return nil
}
