//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// waysToExec runs a command in a pod of the Deployment "many": by names of resources, through a proxy, and through kubectl proxy.
func waysToExec(t *testing.T, ns, pod string) {
	t.Helper()
	says := func(what string, env []string, args ...string) {
		t.Helper()
		args = append(args, "--", "echo", "in", "container")
		if out, err := feedIn(env, "", append([]string{"exec", "-n", ns}, args...)...); err != nil || out != "in container\n" {
			t.Errorf("exec by %s: %q, %v", what, out, err)
		}
	}
	says("the pod's kind", nil, "pod/"+pod)
	says("its Deployment", nil, "deployment/many")
	var asked sync.Map
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method+" "+r.Host, true)
		passOn(w, r)
	}))
	defer proxy.Close()
	for _, name := range []string{"https_proxy", "HTTPS_PROXY"} {
		asked.Clear()
		says(name, []string{name + "=" + proxy.URL}, pod)
		if _, ok := asked.Load("CONNECT " + apiAddress()); !ok {
			t.Errorf("by %s nobody asked the proxy", name)
		}
	}
	cmd := exec.Command(filepath.Join(it.bin, "kubectl"), "proxy", "--port=0", "--disable-filter")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+it.kubeconfig)
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var at string
	if _, err := fmt.Fscanf(said, "Starting to serve on %s", &at); err != nil {
		t.Fatalf("kubectl proxy does not say where it is: %v", err)
	}
	says("kubectl proxy", nil, pod, "--server=http://"+at)
}

// passOn answers CONNECT, as a proxy does.
func passOn(w http.ResponseWriter, r *http.Request) {
	to, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	w.WriteHeader(http.StatusOK)
	from, rest, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	go func() { _, _ = io.Copy(to, rest); to.Close() }()
	_, _ = io.Copy(from, to)
}

// TestRunAndAttach: kubectl run starts a pod and speaks to it at once, by both protocols. Its input ends with the caller's, unless it is
// left open; who does not ask for it has none.
func TestRunAndAttach(t *testing.T) {
	ns := space(t)
	var all sync.WaitGroup
	defer kubectl(t, "delete", "pod", "-n", ns, "open", "--grace-period=1")
	defer all.Wait()
	all.Go(func() { // one that fails tells its caller
		_, err := feedIn(nil, "abc", "run", "fails", "-n", ns, "--image=nginx:1", "--restart=Never", "--pod-running-timeout=4m", "-i", "--rm",
			"--command", "--", "sh", "-c", "cat && exit 42")
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 42 {
			t.Errorf("run's exit code: %v", err)
		}
	})
	for _, tt := range []struct{ name, websockets, args, says, not string }{
		{"both", "true", "--stdin", "read:value\nabcd1234closed", "Error"},
		{"spdy", "false", "--stdin", "read:value\nabcd1234closed", "Error"},
		{"deaf", "true", "--leave-stdin-open", "read:closed", "abcd"},
		{"open", "true", "--stdin --leave-stdin-open", "read:value", "closed"},
	} {
		all.Go(func() {
			args := append([]string{"run", tt.name, "-n", ns, "--image=nginx:1", "--restart=OnFailure", "--pod-running-timeout=4m",
				"--attach"}, strings.Fields(tt.args)...)
			args = append(args, "--command", "--", "sh", "-c", "printf read: && cat && echo closed")
			env := []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=" + tt.websockets}
			if out, err := feedIn(env, "value\nabcd1234", args...); err != nil {
				t.Errorf("run %s: %v: %s", tt.name, err, out)
				return
			}
			if out := logged(t, ns, tt.name, tt.says); strings.Contains(out, tt.not) {
				t.Errorf("run %s: %q", tt.name, out)
			}
			if p := getPod(t, ns, tt.name); tt.name == "open" && p.Status.Phase != "Running" {
				t.Errorf("%s: the pod whose input is open is %s", tt.name, p.Status.Phase)
			}
		})
	}
}
