//go:build linux

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const qemu = "qemu-system-x86_64"

// A Kernel has been fetched by scripts/vm. It starts a program.
type Kernel struct {
	Image   string // an ELF file: one that must unpack itself takes half a minute, interpreted
	Modules string // the directory of this kernel's modules
	Root    string // a directory with the distribution's packages, for guests with systemd
	Init    string // the compiled program of ./guest; "": it is compiled
}

// A Task tells the guest's first process its work. It stands in the guest at TaskPath.
type Task struct {
	Modules []string // files, in the order in which they load
	Command []string
	Env     []string
	Systemd bool // it becomes the first process, and the command a service of it
}

// Paths in the guest.
const (
	TaskPath = "/task.json"
	Init     = "/init" // the program of ./guest
)

// Boot runs a command in a guest and returns its exit code. The console, the command's output and what the kernel says, goes to
// the writer. An error says that the guest could not be started, or that it ended without the command's end, as by a panic or
// with ctx.
func Boot(ctx context.Context, k Kernel, c Config, console io.Writer, command ...string) (int, error) {
	dir, err := os.MkdirTemp("", "kloop-vm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	disk, result := filepath.Join(dir, "initramfs"), filepath.Join(dir, "result")
	if err := pack(ctx, disk, k, c, command); err != nil {
		return 0, fmt.Errorf("pack the guest's files: %w", err)
	}
	memory := c.Memory
	if memory == 0 {
		memory = 1024
	}
	cmd := exec.CommandContext(ctx, qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", strconv.Itoa(memory), "-nic", "none",
		"-serial", "stdio", "-serial", "file:"+result, "-kernel", k.Image, "-initrd", disk,
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr clocksource=hpet notsc no_timer_check cgroup_no_v1=all swapaccount=1")
	cmd.Stdout, cmd.Stderr = console, console
	// A test that is killed leaves no machine behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return 0, errors.Join(ctx.Err(), fmt.Errorf("%s: %w", qemu, err))
	}
	data, err := os.ReadFile(result)
	if err != nil {
		return 0, err
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, errors.New("the guest ended before its command did")
	}
	return code, nil
}

// pack writes the archive that the guest's kernel makes its root file system of.
func pack(ctx context.Context, path string, k Kernel, c Config, command []string) (err error) {
	own := k.Init
	if own == "" {
		if own, err = guest(ctx, filepath.Dir(path)); err != nil {
			return err
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := newArchive(f)
	if c.Systemd {
		system(a, k)
	}
	task := Task{Command: command, Systemd: c.Systemd,
		Env: append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp"}, c.Env...)}
	modules, err := closure(k.Modules, c.Modules)
	if err != nil {
		return err
	}
	for i, m := range modules {
		to := fmt.Sprintf("/modules/%03d-%s.ko", i, m.name)
		task.Modules = append(task.Modules, to)
		a.file(to, 0o644, bytes.NewReader(m.data), int64(len(m.data)))
	}
	for _, name := range c.Later {
		modules, err := closure(k.Modules, []string{name})
		if err != nil {
			return err
		}
		for i, m := range modules {
			a.file(fmt.Sprintf("%s/%s/%03d-%s.ko", laterDir, name, i, m.name), 0o644, bytes.NewReader(m.data), int64(len(m.data)))
		}
	}
	for _, p := range c.Programs {
		files, err := linked(p)
		if err != nil {
			return err
		}
		for _, name := range files {
			a.copy(name, name)
		}
	}
	for to, from := range c.Files {
		a.copy(to, from)
	}
	text, err := json.Marshal(task)
	if err != nil {
		return err
	}
	a.copy(Init, own)
	a.text(TaskPath, string(text))
	usual(a)
	return a.close()
}

// usual has what programs take for granted, runtimes of containers above all.
func usual(a *archive) {
	a.text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	a.text("/etc/group", "root:x:0:\n")
	a.text("/etc/hosts", "127.0.0.1 localhost\n")
	a.text("/etc/resolv.conf", "")
	for _, d := range []string{"/dev", "/proc", "/sys", "/run", "/tmp", "/root", "/mnt", "/var/lib", "/var/log"} {
		a.dir(d)
	}
}

// guest compiles the guest's first process.
func guest(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "init")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-w", "-o", path, "github.com/kloop-dev/kloop/test/vm/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the guest's first process: %w: %s", err, out)
	}
	return path, nil
}
