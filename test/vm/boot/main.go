//go:build linux

// Command boot runs a program in a virtual machine and ends with its exit code. scripts/vm calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kloop-dev/kloop/test/vm"
)

const broken = 125 // no machine, or none that ran the program

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
	}
	os.Exit(code)
}

func run() (int, error) {
	c := vm.Config{Files: map[string]string{}}
	timeout := flag.Duration("timeout", 2*time.Minute, "from power on to the end, at most 18 minutes")
	flag.IntVar(&c.Memory, "memory", 0, "MiB (default 1024)")
	list := func(to *[]string) func(string) error {
		return func(s string) error { *to = append(*to, strings.Split(s, ",")...); return nil }
	}
	flag.Func("module", "names of kernel modules, separated by commas", list(&c.Modules))
	flag.Func("program", "programs to have, with their libraries", list(&c.Programs))
	flag.Func("file", "HOST:GUEST, a file or directory to have", func(s string) error {
		from, to, ok := strings.Cut(s, ":")
		if !ok {
			return errors.New("want HOST:GUEST")
		}
		c.Files[to] = from
		return nil
	})
	flag.Parse()
	if flag.NArg() == 0 {
		return broken, errors.New("no program to run")
	}
	kernel, err := vm.Installed()
	if err != nil {
		return broken, err
	}
	self, err := os.Executable()
	if err != nil {
		return broken, err
	}
	kernel.Init = filepath.Join(filepath.Dir(self), "guest")
	program, err := exec.LookPath(flag.Arg(0))
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return broken, err
	}
	c.Programs = append(c.Programs, program)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, min(*timeout, 10*time.Minute))
	defer cancel()
	code, err := vm.Boot(ctx, kernel, c, os.Stdout, append([]string{program}, flag.Args()[1:]...)...)
	if err != nil {
		return broken, err
	}
	return code, nil
}
