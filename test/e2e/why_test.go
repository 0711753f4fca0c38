//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stuck says that a command ended as kloop why does when something is not as it should be.
func stuck(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == 3
}

// explains waits until `kloop why` says all that is wanted of an object.
func explains(t *testing.T, ns, object string, want ...string) {
	t.Helper()
	eventually(t, "kloop explains "+object, func() (bool, string) {
		out, err := exec.Command(filepath.Join(it.bin, "kloop"), "why", "--kubeconfig", it.kubeconfig, "-n", ns, object).CombinedOutput()
		if !stuck(err) {
			return false, fmt.Sprintf("%s%v", out, err)
		}
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				return false, "no " + w + " in:\n" + string(out)
			}
		}
		return true, ""
	})
}

// What stops real containers is told in the words of the runtime and of the application itself.
func TestWhy(t *testing.T) {
	ns := space(t)
	apply(t, ns, onePod("crash", "echo no such account; exit 3", "", ""))
	apply(t, ns, onePod("probed", "sleep 1000", "", "readinessProbe: {exec: {command: [cat, /ready]}, periodSeconds: 1, timeoutSeconds: 60}"))
	apply(t, ns, strings.Replace(onePod("absent", "true", "", ""), "image: nginx:1", "image: 127.0.0.1:1/none:1", 1))
	explains(t, ns, "pod/crash", "pod/crash runs and is not ready because it crashes: container c exits with code 3", "CrashLoop",
		"starts container c again, in ", "log      no such account")
	eventually(t, "kubectl explains by its plugin", func() (bool, string) { // while the container runs there is nothing to explain
		cmd := exec.Command(filepath.Join(it.bin, "kubectl"), "why", "--kubeconfig", it.kubeconfig, "-n", ns, "pod/crash")
		cmd.Env = append(os.Environ(), "PATH="+it.bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return stuck(err) && strings.Contains(string(out), "CrashLoop"), fmt.Sprintf("%v\n%s", err, out)
	})
	explains(t, ns, "pod/probed", "ReadinessProbeFails", "command cat /ready", "No such file")
	explains(t, ns, "pod/absent", `can't pull the image "127.0.0.1:1/none:1"`, "ImagePull", "tries to pull it again")
}
