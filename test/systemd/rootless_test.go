//go:build linux

package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

// kit is how a user without rights starts a node: as docs/operations.md has it, but for the user's own systemd, whose part is taken by a
// service of the machine's that runs as the user and hands its cgroup on just the same.
var kit = strings.Fields(`systemd-run --unit rootless -p User=1000 -p Delegate=yes -p KillMode=mixed -p RuntimeDirectory=u
	-E HOME=/home/u -E XDG_RUNTIME_DIR=/run/u -E PATH=/usr/sbin:/usr/bin
	rootlesskit --net=slirp4netns --disable-host-loopback --port-driver=builtin --publish=127.0.0.1:6443:6443/tcp
	--copy-up=/etc --copy-up=/run --copy-up=/var/lib --copy-up=/var/log --pidns --utsns --ipcns --cgroupns
	--evacuate-cgroup2=rootlesskit --state-dir=/run/u/rootlesskit
	` + fresh + ` up --node real --data-dir /home/u/kloop --root-dir /home/u/kloop/kubelet`)

// TestRootless has a node with real containers as a user who is root of nothing: what pods ask a Service, what they say and what is done
// in them, their limits, and nothing left of them.
func TestRootless(t *testing.T) {
	if !inGuest(t, "tun") {
		return
	}
	someUser(t)
	run(t, kit[0], kit[1:]...)
	n := rootlessNode(t)
	archive := pack(t, echoImage, "echo")
	until(t, "the runtime has the image", func(ctx context.Context) (bool, any) {
		_, err := try(ctx, fresh, "image", "load", "--data-dir", "/home/u/kloop", archive)
		return err == nil, err
	})
	n.make(t, "guest", "echo", map[string]string{"app": "echo"})
	n.service(t)
	n.make(t, "guest", "asks", nil, "http://echo.default:80/", "echo")
	pods := n.CoreV1().Pods("default")
	var echo *corev1.Pod
	until(t, "a pod had an answer of the Service", func(ctx context.Context) (bool, any) {
		p, err := pods.Get(ctx, "asks", metav1.GetOptions{})
		if err == nil && p.Status.Phase == corev1.PodFailed {
			said, _ := pods.GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx) // for the message
			t.Fatalf("%s", said)
		}
		echo, _ = pods.Get(ctx, "echo", metav1.GetOptions{}) // for the message
		return err == nil && p.Status.Phase == corev1.PodSucceeded, fmt.Errorf("%v %v: %w", p.Status, echo.Status, err)
	})
	said, err := pods.GetLogs("asks", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(said), "echo for") {
		t.Errorf("its log is %s, %v", said, err)
	}
	group := "/sys/fs/cgroup/system.slice/rootless.service/kubepods/besteffort/pod" + string(echo.UID)
	if procs, err := os.ReadDir(group); err != nil || len(procs) == 0 {
		t.Errorf("the pod has no cgroup: %v", err)
	}
	n.exec(t, "echo", "/echo", "http://127.0.0.1:8080/", "echo")
	now := int64(0)
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is left of the pods", func(ctx context.Context) (bool, any) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		_, gone := os.Stat(group)
		left, _ := filepath.Glob("/home/u/kloop/kubelet/pods/*")
		return err == nil && len(list.Items)+len(left) == 0 && errors.Is(gone, os.ErrNotExist), errors.Join(err, gone)
	})
	run(t, "systemctl", "stop", "rootless")
	if _, err := os.Stat(filepath.Dir(filepath.Dir(filepath.Dir(group)))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its cgroup is left: %v", err)
	}
}

// someUser makes a user with ids for containers, and a way out for slirp4netns, which looks for one.
func someUser(t *testing.T) {
	t.Helper()
	for file, line := range map[string]string{"/etc/passwd": "u:x:1000:1000::/home/u:/bin/sh\n", "/etc/group": "u:x:1000:\n",
		"/etc/subuid": "u:100000:65536\n", "/etc/subgid": "u:100000:65536\n"} {
		text, err := os.ReadFile(file)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			err = os.WriteFile(file, append(text, line...), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// No udev is here, which gives everybody the device; and the program is to be had by everybody, too.
	err := errors.Join(os.Chmod("/dev/net/tun", 0o666), os.Chmod("/root", 0o755), os.MkdirAll("/home/u", 0o755),
		os.Chown("/home/u", 1000, 1000))
	if err != nil {
		t.Fatal(err)
	}
}

// rootlessNode waits for the node.
func rootlessNode(t *testing.T) node {
	t.Helper()
	var n node
	until(t, "the server answers", func(ctx context.Context) (bool, any) {
		cfg, err := clientcmd.BuildConfigFromFlags("", "/home/u/kloop/admin.kubeconfig")
		if err == nil {
			n.Clientset, err = kubernetes.NewForConfig(cfg)
		}
		if err == nil {
			_, err = n.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		}
		return err == nil, err
	})
	until(t, "the node is ready, and says that it is in a user namespace", func(ctx context.Context) (bool, any) {
		one, err := n.CoreV1().Nodes().Get(ctx, "guest", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		in := one.Status.NodeInfo.RunningInUserNamespace
		for _, c := range one.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && in != nil && *in {
				return true, nil
			}
		}
		return false, one.Status
	})
	return n
}

// exec runs a command in a pod, which must not fail.
func (n node) exec(t *testing.T, pod string, command ...string) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", "/home/u/kloop/admin.kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	request := n.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	e, err := remotecommand.NewWebSocketExecutor(cfg, "GET", request.URL().String())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &out}); err != nil {
		t.Errorf("%v in %s: %v, %s", command, pod, err, out.String())
	}
}
