//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// feed runs kubectl with the text on its standard input.
func feed(in string, args ...string) (string, error) { return feedIn(nil, in, args...) }

// feedIn is feed with more in the environment.
func feedIn(env []string, in string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(it.bin, "kubectl"), args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+it.kubeconfig), env...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestLogsExecAttach(t *testing.T) {
	ns := space(t)
	// It answers until it was heard: what comes in may reach it before containerd has the caller listen.
	apply(t, ns,
		onePod("p",
			"for i in 1 2 3; do echo line $i; done; read x; until [ -e /tmp/heard ]; do echo got $x; sleep 0.2; done; echo last; sleep 3600", "",
			"stdin: true"))
	kubectl(t, "wait", "-n", ns, "pod/p", "--for=condition=Ready", "--timeout=240s")
	logged(t, ns, "p", "line 3")
	if out := kubectl(t, "logs", "-n", ns, "p", "--tail=1"); out != "line 3" {
		t.Errorf("--tail=1: %q", out)
	}
	out := kubectl(t, "logs", "-n", ns, "p", "--timestamps", "--tail=1")
	if at, _, _ := strings.Cut(out, " "); len(at) < 20 {
		t.Errorf("--timestamps: %q", out)
	} else if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
		t.Error(err)
	}
	follow := exec.Command(filepath.Join(it.bin, "kubectl"), "logs", "-f", "-n", ns, "p", "--pod-running-timeout=5s")
	follow.Env = append(os.Environ(), "KUBECONFIG="+it.kubeconfig)
	var followed bytes.Buffer
	follow.Stdout = &followed
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := attached(ns, "p", "hello", "got hello"); err != nil {
		t.Errorf("attach: %q, %v", said, err)
	}
	kubectl(t, "exec", "-n", ns, "p", "--", "touch", "/tmp/heard")
	logged(t, ns, "p", "last")
	if out, err := feed("to stdin", "exec", "-i", "-n", ns, "p", "--", "cat"); err != nil || out != "to stdin" {
		t.Errorf("exec -i: %q, %v", out, err)
	}
	var exit *exec.ExitError
	if _, err := feed("", "exec", "-n", ns, "p", "--", "sh", "-c", "exit 7"); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("exec's exit code: %v", err)
	}
	if out, err := feed("", "exec", "-n", ns, "p", "--", "no-such-command"); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("exec of nothing: %q, %v", out, err)
	}
	tty, err := exec.Command("script", "-qec",
		fmt.Sprintf("KUBECONFIG=%s %s/kubectl exec -it -n %s p -- sh -c 'test -t 0 && echo is a tty'", it.kubeconfig, it.bin,
			ns), "/dev/null").CombinedOutput()
	if err != nil || !strings.Contains(string(tty), "is a tty") {
		t.Errorf("exec -it: %q, %v", tty, err)
	}
	kubectl(t, "delete", "pod", "-n", ns, "p")
	_ = follow.Wait() // it ends with the pod, one way or another
	text := strings.ReplaceAll(followed.String(), "got hello\n", "")
	if said := followed.String(); text != "line 1\nline 2\nline 3\nlast\n" || !strings.Contains(said, "line 3\ngot hello\n") ||
		!strings.Contains(said, "got hello\nlast\n") {
		t.Errorf("logs -f: %q", said)
	}
}

// attached says a line to a pod's container and reads what it says, until the answer. The session ends with its input.
func attached(ns, pod, line, answer string) (said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(it.bin, "kubectl"), "attach", "-i", "-n", ns, pod, "-c", "c")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+it.kubeconfig)
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(in, line); err != nil {
		return "", err
	}
	for s := bufio.NewScanner(out); s.Scan() && !strings.Contains(said, answer); {
		said += s.Text() + "\n"
	}
	_ = in.Close()
	if err := cmd.Wait(); !strings.Contains(said, answer) {
		return said, fmt.Errorf("no answer: %w", err)
	}
	return said, nil
}

const nginxPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: 1
%[2]s
  containers:
  - name: web
    image: nginx:1
%[3]s
`

func get(url string) (string, error) {
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	return res.Status, nil
}

// TestWaysIn: node port, host port, the host's network, port-forward; UDP through a service; probes of all kinds.
func TestWaysIn(t *testing.T) {
	ns := space(t)
	startClient(t, ns)
	heard, at := answerUDP(t, "10.200.0.1:0")
	here := "nodeName: " + nodes[0].name // its ports are asked for
	apply(t, ns, fmt.Sprintf(nginxPod, "web", indent(2, here), indent(4, `
ports: [{containerPort: 80, hostPort: 8088}]
startupProbe: {tcpSocket: {port: 80}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 300}
livenessProbe: {exec: {command: [test, -e, /etc/passwd]}, periodSeconds: 1, timeoutSeconds: 60}
readinessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 1, timeoutSeconds: 60}`))+
		onePod("hostnet", "hostname; ip addr | grep -c 10.200.0.2; sleep 3600", "hostNetwork: true\n"+here, "")+fmt.Sprintf(`
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, nodePort: 30088}]}
---
apiVersion: v1
kind: Service
metadata: {name: udp}
spec: {type: NodePort, ports: [{port: 53, nodePort: 30053, targetPort: %[1]d, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: udp, labels: {kubernetes.io/service-name: udp}}
addressType: IPv4
ports: [{port: %[1]d, protocol: UDP}]
endpoints: [{addresses: [10.200.0.1]}]
`, at))
	kubectl(t, "wait", "-n", ns, "pod/web", "pod/hostnet", "--for=condition=Ready", "--timeout=240s")
	node := nodes[0].addr
	for what, url := range map[string]string{"node port": "http://" + node + ":30088/", "host port": "http://" + node + ":8088/"} {
		eventually(t, what+" answers", func() (bool, string) {
			out, err := get(url)
			return err == nil && out == "200 OK", fmt.Sprint(out, err)
		})
	}
	if p := getPod(t, ns, "hostnet"); p.Status.PodIP != node || p.Status.HostIP != node {
		t.Errorf("the pod on the host's network has %s", p.Status.PodIP)
	}
	logged(t, ns, "hostnet", "\n1")
	eventually(t, "UDP comes back from the node port", func() (bool, string) {
		out, err := echoUDP(node + ":30053")
		return out == "ping", fmt.Sprint(out, err)
	})
	eventually(t, "UDP arrives through the cluster's address", func() (bool, string) {
		_, err := it.try("exec", "-n", ns, "client", "--", "timeout", "3", "nslookup", "-type=a", "over.udp",
			clusterIP(ns, "udp")) // its answer is no DNS
		return strings.Contains(heard(), "over"), fmt.Sprint(err)
	})
	forwarded(t, ns)
}

// answerUDP sends back whatever comes to the address, and tells its port and what came.
func answerUDP(t *testing.T, at string) (heard func() string, port int) {
	t.Helper()
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var mu sync.Mutex
	var all []byte
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, buf[:n]...)
			mu.Unlock()
			if _, err := c.WriteTo(buf[:n], from); err != nil {
				return
			}
		}
	}()
	return func() string { mu.Lock(); defer mu.Unlock(); return string(all) }, c.LocalAddr().(*net.UDPAddr).Port
}

func echoUDP(to string) (string, error) {
	c, err := net.Dial("udp", to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte("ping")); err != nil {
		return "", err
	}
	buf := make([]byte, 64)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

func forwarded(t *testing.T, ns string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(it.bin, "kubectl"), "port-forward", "-n", ns, "pod/web", "--address=127.0.0.1", ":80")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+it.kubeconfig)
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	defer func() { _ = cmd.Process.Kill(); <-ended }()
	port := 0
	_, err = fmt.Fscanf(said, "Forwarding from 127.0.0.1:%d", &port)
	go func() { ended <- cmd.Wait() }()
	if err != nil {
		t.Fatalf("the forwarded port is not told: %v", err)
	}
	eventually(t, "the forwarded port answers", func() (bool, string) {
		out, err := get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		return err == nil && out == "200 OK", fmt.Sprint(out, err)
	})
	kubectl(t, "delete", "pod", "-n", ns, "web")
	eventually(t, "forwarding ends with the pod", func() (bool, string) {
		_, err := get(fmt.Sprintf("http://127.0.0.1:%d/", port)) // it takes a connection to notice
		select {
		case err := <-ended:
			ended <- err
			return err != nil, fmt.Sprint(err)
		default:
			return false, fmt.Sprint(err)
		}
	})
}

func TestDebugContainer(t *testing.T) {
	ns := space(t)
	startClient(t, ns)
	kubectl(t, "debug", "-n", ns, "client", "--image=nginx:1", "-c", "dbg", "--target=client", "--image-pull-policy=IfNotPresent",
		"--", "sh", "-c", "ps; echo looked; sleep 3600")
	out := logged(t, ns, "client", "looked", "-c", "dbg")
	if !strings.Contains(out, "sleep 3600") {
		t.Errorf("the debugger does not see the target's processes:\n%s", out)
	}
	eventually(t, "its status says that it runs", func() (bool, string) {
		s := getPod(t, ns, "client").Status.EphemeralContainerStatuses
		return len(s) == 1 && s[0].State.Running != nil, fmt.Sprintf("%+v", s)
	})
	p := getPod(t, ns, "client")
	if p.Status.ContainerStatuses[0].RestartCount != 0 || p.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod: %+v", p.Status)
	}
}

// TestStaticPod: a manifest runs with a mirror in the API, which can't be got rid of, and follows the file.
func TestStaticPod(t *testing.T) {
	path := filepath.Join(it.dir, "manifests", "static.yaml")
	name := "static-" + nodes[0].name
	if err := os.WriteFile(path, []byte(fmt.Sprintf(nginxPod, "static", "", "")), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	eventually(t, "the mirror runs", func() (bool, string) {
		out, err := it.try("get", "pod", name, "-o", "jsonpath={.status.phase}")
		return out == "Running", fmt.Sprint(out, err)
	})
	p := getPod(t, "default", name)
	if p.Annotations["kubernetes.io/config.mirror"] == "" || len(p.OwnerReferences) != 1 || p.OwnerReferences[0].Kind != "Node" {
		t.Errorf("the mirror's metadata: %+v", p.ObjectMeta)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mirror goes with the file", func() (bool, string) {
		out, err := it.try("get", "pod", name, "--ignore-not-found")
		return err == nil && out == "", fmt.Sprint(out, err)
	})
}
