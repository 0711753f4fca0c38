//go:build linux

package systemd

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestService installs kloop as a service and uses it: a Deployment's pod runs on, with the same process, through a restart, an upgrade,
// the way back, and an upgrade that fails; then all of it is taken away, and the machine is as it was.
func TestService(t *testing.T) {
	if !inGuest(t) {
		return
	}
	if err := os.MkdirAll("/usr/local/bin", 0o755); err != nil { // as on every machine
		t.Fatal(err)
	}
	before := machine(t)
	n := install(t)
	if out := run(t, "systemctl", "is-enabled", "kloop"); out != "enabled" {
		t.Errorf("the service is %s", out)
	}
	if out := run(t, kloop, "status"); !strings.Contains(out, "1 of 1 ready") {
		t.Errorf("kloop status says: %s", out)
	}
	was := n.deploy(t)

	// A program that differs takes the place of the first; what is left of it leads back.
	newer := another(t)
	run(t, newer, "install")
	n.untouched(t, was, "kloop", newer)
	run(t, kloop+".before", "install")
	n.untouched(t, was, "kloop", fresh)

	// One that can't listen does not become ready.
	if out, err := try(t.Context(), newer, "install", "--", "--listen", "10.99.0.99:6443"); err == nil ||
		!strings.Contains(out, "the program before runs again") {
		t.Errorf("an upgrade that can't start: %v: %s", err, out)
	}
	n.untouched(t, was, "kloop", fresh)
	if out := run(t, "journalctl", "--no-pager", "-u", "kloop"); strings.Contains(out, "reception only permitted for main PID") {
		t.Errorf("others than kloop tell systemd of its state: %s", out)
	}

	run(t, kloop, "uninstall")
	if out, err := try(t.Context(), "systemctl", "status", "kloop"); err == nil || len(processes(t, "/hog")) != 1 {
		t.Errorf("after uninstall: %s, processes: %v", out, processes(t, "/hog"))
	}
	run(t, fresh, "reset", "--yes")
	after := machine(t)
	for _, line := range after {
		if !slices.Contains(before, line) && line != "file /var/lib/kubelet" { // the empty directory may stay
			t.Errorf("kloop left: %s", line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("kloop took away: %s", line)
		}
	}
	t.Run("on the machine's own containerd", onContainerd)
}

// another makes a program that does the same and is another.
func another(t *testing.T) string {
	t.Helper()
	const path = "/root/newer"
	data, err := os.ReadFile(fresh)
	if err == nil {
		err = os.WriteFile(path, append(data, 0), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A trace of a pod must stay the same: its container, and the process in it.
type trace struct{ uid, container, process string }

// deploy makes a Deployment of one pod and waits for it.
func (n node) deploy(t *testing.T) trace {
	t.Helper()
	labels := map[string]string{"app": "hog"}
	until(t, "the Deployment was made", func(ctx context.Context) (bool, any) {
		_, err := n.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "hog"},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: hogImage, Args: []string{"8"}}}}}},
		}, metav1.CreateOptions{})
		return err == nil, err
	})
	return n.trace(t)
}

func (n node) trace(t *testing.T) trace {
	t.Helper()
	pod := n.pod(t, "hog", ready)
	list := processes(t, "/hog")
	if len(list) != 1 {
		t.Fatalf("processes of the container: %v", list)
	}
	return trace{string(pod.UID), pod.Status.ContainerStatuses[0].ContainerID, list[0]}
}

// untouched fails if the pod is not the one of before, or if a service runs another program than the one in a file.
func (n node) untouched(t *testing.T, was trace, service, program string) {
	t.Helper()
	pid := run(t, "systemctl", "show", "-P", "MainPID", service)
	runs, err := os.ReadFile("/proc/" + pid + "/exe")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile(program); err != nil || !bytes.Equal(runs, want) {
		t.Errorf("it is not %s that runs (%v)", program, err)
	}
	until(t, "the node is ready", func(ctx context.Context) (bool, any) {
		node, err := n.CoreV1().Nodes().Get(ctx, "guest", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		return i >= 0 && node.Status.Conditions[i].Status == corev1.ConditionTrue, node.Status.Conditions
	})
	if is := n.trace(t); is != was {
		t.Errorf("the pod was %v and is %v", was, is)
	}
}

// processes lists those whose program has a path, each with the time of its start.
func processes(t *testing.T, program string) (list []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		to, err := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if err != nil || to != program {
			continue
		}
		text, err := os.ReadFile(path)
		if f := strings.Fields(string(text)); err == nil && len(f) > 21 {
			list = append(list, f[0]+" since "+f[21])
		}
	}
	return list
}

// machine lists all that kloop may change on it.
func machine(t *testing.T) (list []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(mounts)); s.Scan(); {
		list = append(list, "mount "+strings.Fields(s.Text())[4])
	}
	for _, dir := range []string{"/etc", "/usr/local", "/var/lib", "/var/log/pods", "/var/log/containers", "/run", "/opt", "/sys/fs/cgroup"} {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what is not there is not in the list
			systemds := strings.HasPrefix(path, "/run/systemd/") || strings.Contains(path, "/system.slice/systemd-") // they come and go
			if err == nil && !systemds && (d.IsDir() || dir != "/sys/fs/cgroup") {
				list = append(list, "file "+path)
			}
			return nil
		})
	}
	for _, show := range [][]string{{"ip", "-o", "link"}, {"ip", "-4", "route"}, {"nft", "list", "tables"}, {"ip", "netns"}} {
		for line := range strings.Lines(run(t, show[0], show[1:]...)) {
			list = append(list, fmt.Sprint(show[0], " ", strings.TrimSpace(line)))
		}
	}
	slices.Sort(list)
	return list
}
