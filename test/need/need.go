// Package need says what becomes of a test on a machine that lacks something: it is skipped, or fails where KLOOP_MUST names
// what is missing. CI names all of it, so that no test is skipped there without anybody noticing.
package need

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Needs that KLOOP_MUST may name, separated by commas.
const (
	Root       = "root"       // mounts, owners of files, network namespaces
	Containerd = "containerd" // containerd, runc and the CNI plugins
	Etcd       = "etcd"       // an upstream etcd on the path
	Kubectl    = "kubectl"    // bin/kubectl, or one on the path
	Proc       = "proc"       // a complete /proc
	Browser    = "browser"    // chromium on the path, and axe-core: scripts/browser
	Qemu       = "qemu"       // qemu and a kernel to run in it: scripts/vm fetch
	Systemd    = "systemd"    // systemd's tools, which read units; it need not run
	Registry   = "registry"   // docker-registry, Debian's build of Docker's
	Resize     = "resize"     // CAP_SYS_RESOURCE, which the growth of a mounted file system takes
)

// Have skips the test if problem is not nil, with the problem as its reason; it fails if KLOOP_MUST names what is needed.
func Have(t testing.TB, what string, problem error) {
	t.Helper()
	switch {
	case problem == nil:
	case demanded(os.Getenv("KLOOP_MUST"), what):
		t.Fatalf("KLOOP_MUST names %s: %v", what, problem)
	default:
		t.Skipf("no %s: %v", what, problem)
	}
}

// BeRoot is Have for the right to everything.
func BeRoot(t testing.TB) {
	t.Helper()
	if id := os.Getuid(); id != 0 {
		Have(t, Root, fmt.Errorf("the test runs as user %d", id))
	}
}

// Exit is the exit code of a TestMain that can't run its tests without what is named.
func Exit(what string) int {
	if demanded(os.Getenv("KLOOP_MUST"), what) {
		return 1
	}
	return 0
}

func demanded(list, what string) bool {
	return slices.Contains(strings.Split(list, ","), what)
}
