package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/clusters"
	nodeimage "github.com/kloop-dev/kloop/node/image"
	noderuntime "github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/test/need"
)

// remains lists what a network namespace and the machine know of, as far as kloop may have made it.
func remains(t *testing.T, dir string, pods []string) (list []string) {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		list = append(list, "link "+l.Attrs().Name)
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := c.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if table.Name != "nat" && table.Name != "filter" { // iptables makes these when it is asked
			list = append(list, "table "+table.Name)
		}
	}
	rules, err := exec.Command("iptables", "-w", "5", "-t", "nat", "-S").CombinedOutput()
	if err != nil {
		t.Fatal(err, string(rules))
	}
	list = append(list, strings.Split(strings.TrimSpace(string(rules)), "\n")...)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			list = append(list, line)
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if text, err := os.ReadFile(p); err == nil && bytes.Contains(text, []byte(dir+"/")) {
			list = append(list, string(text))
		}
	}
	for _, uid := range pods {
		for _, pattern := range []string{"/sys/fs/cgroup/*/kubepods/*/pod", "/sys/fs/cgroup/*/kubepods/pod", "/sys/fs/cgroup/kubepods/*/pod",
			"/sys/fs/cgroup/kubepods/pod", "/var/log/pods/*_"} {
			found, _ := filepath.Glob(pattern + uid)
			list = append(list, found...)
		}
	}
	slices.Sort(list)
	return list
}

// What kloop up makes is gone after kloop reset: processes, mounts, links, tables, chains of host ports, cgroups, logs, data. The network
// is one of the test's own, so that everything in it counts.
func TestResetLeavesNothing(t *testing.T) {
	need.BeRoot(t)
	need.Have(t, need.Containerd, noderuntime.Available(noderuntime.Config{}))
	runtime.LockOSThread() // and never unlocks: the thread ends with its namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	script := "ip link set lo up && ip link add outside type bridge && ip addr add 10.99.0.2/24 dev outside && ip link set outside up && " +
		"ip route add default dev outside"
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	short, err := os.MkdirTemp("/var/tmp", "kl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	dir, manifests := filepath.Join(short, "data"), t.TempDir()
	pod := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"},"spec":{"containers":[
		{"name":"c","image":%q,"imagePullPolicy":"Never","ports":[{"containerPort":80,"hostPort":8088}]}]}}`, nodeimage.PauseRef)
	if err := os.WriteFile(filepath.Join(manifests, "web.json"), []byte(pod), 0o644); err != nil {
		t.Fatal(err)
	}
	before := remains(t, dir, nil)

	t.Setenv(asKloop, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	up := exec.Command(self, "up", "--data-dir", dir, "--node", "real", "--manifests", manifests, "--root-dir",
		filepath.Join(short, "kubelet"))
	up.Stdout, up.Stderr = &said, &said
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	defer func() { _ = up.Process.Kill() }() // it has ended, unless the test failed
	chain := func() bool {
		out, err := exec.Command("iptables", "-w", "5", "-t", "nat", "-S").CombinedOutput()
		return err == nil && strings.Contains(string(out), "8088") && clusters.RunningPods(dir) == 1
	}
	for end := time.Now().Add(time.Minute); !chain(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the pod with a host port does not run")
		}
	}
	uids, err := filepath.Glob(filepath.Join(dir, "node/pods/*"))
	if err != nil || len(uids) == 0 {
		t.Fatal("no pods", err)
	}
	for i := range uids {
		uids[i] = filepath.Base(uids[i])
	}
	if now := remains(t, dir, uids); len(now) < len(before)+8 {
		t.Errorf("the test sees too little of what kloop makes: %q", now)
	}

	var out bytes.Buffer
	code := Run(t.Context(), strings.NewReader("n\n"), &out, &out, []string{"kloop", "reset", "--data-dir", dir})
	if code != 1 || !strings.Contains(out.String(), "nothing was done") || clusters.Claimed(dir) != up.Process.Pid {
		t.Errorf("without consent: code %d, %s", code, &out)
	}
	out.Reset()
	if code := Run(t.Context(), strings.NewReader("y\n"), &out, &out, []string{"kloop", "reset", "--data-dir", dir}); code != 0 {
		t.Fatalf("code %d: %s", code, &out)
	}
	if err := <-ended; err != nil {
		t.Errorf("kloop up was not stopped in good order: %v", err)
	}
	if !strings.Contains(said.String(), "pods that go on running: 1;") || !strings.Contains(said.String(), "kloop reset --data-dir "+dir) {
		t.Errorf("kloop up does not say what it leaves: %s", &said)
	}
	if after := remains(t, dir, uids); !slices.Equal(before, after) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(short, "kubelet")); !os.IsNotExist(err) {
		t.Errorf("the agent's directory is left: %v", err)
	}
}

// Reset never removes what is not kloop's.
func TestResetRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "none")} {
		if _, errs, code := typed(t, "reset --yes --data-dir "+d); code != 1 || errs == "" {
			t.Errorf("%s: code %d, %q", d, code, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "thesis.tex")); err != nil {
		t.Error(err)
	}
}
