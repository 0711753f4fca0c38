//go:build linux

// Command guest is the first process (init) of the virtual machines of package vm: it mounts what programs take for granted, loads
// modules, runs one command, writes the command's exit code to the second serial port, and powers the machine off. With systemd it
// becomes that when the modules are there, and is called by it to do the rest.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/test/vm"
)

// broken is the exit code of a guest that could not run its command, as env(1) has it.
const broken = 125

func main() {
	code, err := run()
	if err != nil {
		fmt.Println("guest:", err)
	}
	if err := report(code); err != nil {
		fmt.Println("guest:", err)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("guest:", err)
	}
}

// keepTime takes another clock when the present one runs at a wrong speed. The kernel measures the processor's counter at boot against a
// timer that is emulated: on a busy machine it is sometimes wrong by a factor, and every timeout in the guest is short by that. The clock
// that stands beside it is the host's. Without one nothing is known.
func keepTime() error {
	text, err := os.ReadFile("/sys/class/rtc/rtc0/since_epoch")
	if err != nil {
		return nil
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	const near = 3 * time.Second // it counts whole seconds
	right := time.Unix(seconds, 0)
	off := time.Since(right)
	if off.Abs() < near {
		return nil
	}
	fmt.Println("guest: the processor's counter was measured wrongly, the clock is off by", off, "since boot: hpet takes its place")
	if err := os.WriteFile("/sys/devices/system/clocksource/clocksource0/current_clocksource", []byte("hpet"), 0o644); err != nil {
		return fmt.Errorf("take another clock: %w", err)
	}
	now := unix.NsecToTimeval(right.UnixNano())
	return unix.Settimeofday(&now)
}

// prepare mounts. The root is bound over itself first: the kernel's first root can't be exchanged (pivot_root), which runtimes of
// containers do.
func prepare() error {
	if err := unix.Mount("/", "/mnt", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the root: %w", err)
	}
	if err := errors.Join(os.Chdir("/mnt"), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), os.Chdir("/")); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	for _, m := range []struct{ kind, at, data string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"tmpfs", "/run", "mode=755"},
		{"cgroup2", "/sys/fs/cgroup", "memory_recursiveprot"}, {"devpts", "/dev/pts", "ptmxmode=666"}, {"tmpfs", "/dev/shm", ""},
		{"mqueue", "/dev/mqueue", ""},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	if err := os.Chmod("/tmp", 0o1777); err != nil {
		return err
	}
	if err := keepTime(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("guest")); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// run is the whole life of a guest, or of this program as a service of systemd.
func run() (code int, err error) {
	var task vm.Task
	data, err := os.ReadFile(vm.TaskPath)
	if err == nil {
		err = json.Unmarshal(data, &task)
	}
	if err != nil {
		return broken, err
	}
	if os.Getpid() != 1 {
		return work(task)
	}
	if err := prepare(); err != nil {
		return broken, err
	}
	for _, m := range task.Modules {
		if err := vm.Insert(m); err != nil {
			return broken, err
		}
	}
	if !task.Systemd {
		return work(task)
	}
	const systemd = "/lib/systemd/systemd"
	return broken, fmt.Errorf("become %s: %w", systemd, unix.Exec(systemd, []string{systemd, "--log-level=warning"}, task.Env))
}

func work(task vm.Task) (code int, err error) {
	cmd := exec.Command(task.Command[0], task.Command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdout, os.Stderr, task.Env
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil // a signal has no code
	}
	if err != nil {
		return broken, err
	}
	return 0, nil
}

// report tells the host. It reads what the second serial port was given.
func report(code int) error {
	f, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, code)
	return errors.Join(err, f.Close())
}
