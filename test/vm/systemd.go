//go:build linux

package vm

// first is systemd's program, below a root.
const first = "/lib/systemd/systemd"

// service runs the command. It has nothing to do with the machine's shutdown, so that a test may see that through.
const service = `[Unit]
Description=the command of this guest
DefaultDependencies=no
After=basic.target dbus.socket
Wants=dbus.socket
[Service]
ExecStart=` + Init + ` work
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
KillMode=process
TasksMax=infinity
`

// accounts are those that the packages' scripts would have made, which no guest runs.
const (
	users = "root:x:0:0:root:/root:/bin/sh\nmessagebus:x:100:100::/nonexistent:/usr/sbin/nologin\n" +
		"nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
	groups = "root:x:0:\ntty:x:5:\nutmp:x:43:\nadm:x:4:\nsystemd-journal:x:101:\nmessagebus:x:100:\nnogroup:x:65534:\n"
)

// masked are units that cost seconds, interpreted, and tell a test nothing.
var masked = []string{"systemd-update-utmp.service", "systemd-random-seed.service", "systemd-journal-flush.service",
	"systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount", "getty.target", "systemd-hwdb-update.service", "ldconfig.service",
	"systemd-journal-catalog-update.service", "systemd-update-done.service", "systemd-pstore.service", "e2scrub_all.timer"}

// system puts systemd's root into the archive, and what has it run the command.
func system(a *archive, k Kernel) {
	const etc = "/etc/systemd/system/"
	a.copy("/", k.Root)
	a.text("/etc/passwd", users)
	a.text("/etc/group", groups)
	a.text("/etc/machine-id", "6b6c6f6f706b6c6f6f706b6c6f6f7030\n")
	a.text("/etc/fstab", "")
	a.text(etc+"guest.service", service)
	a.link(etc+"multi-user.target.wants/guest.service", "../guest.service")
	a.link(etc+"default.target", first[:len("/lib/systemd/")]+"system/multi-user.target")
	for _, m := range masked {
		a.link(etc+m, "/dev/null")
	}
}
