//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience is the time for which a test waits for the cluster to get somewhere.
const patience = 4 * time.Minute

// eventually polls until ok says yes. Its text tells what was missing at the end.
func eventually(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		done, text := ok()
		if done {
			return
		}
		last = text
	}
	out, _ := it.try("get", "pods,events", "-A", "-o", "wide")
	t.Fatalf("%s: not within %s: %s\n%s", what, patience, last, out)
}

// kubectl runs kubectl and fails the test when it does.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := it.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// space makes a namespace for a test, and removes it at the end.
func space(t *testing.T) string {
	t.Helper()
	name := "e2e-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	kubectl(t, "create", "namespace", name)
	t.Cleanup(func() {
		if _, err := it.try("delete", "namespace", name, "--timeout=240s"); err != nil {
			t.Errorf("the namespace does not go: %v", err)
		}
	})
	return name
}

// apply writes a manifest with the namespace's objects.
func apply(t *testing.T, ns, manifest string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-n", ns, "-f", path)
}

// web is a Deployment of nginx and its Service; probes is YAML for the container.
func web(name string, replicas int, more string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 2
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
      containers:
      - name: web
        image: nginx:1
        ports: [{name: http, containerPort: 80}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1}
%[3]s
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  selector: {app: %[1]s}
  ports: [{port: 80, targetPort: http}]
`, name, replicas, more)
}

func deployment(t *testing.T, ns, name string) *appsv1.Deployment {
	t.Helper()
	d, err := it.client.AppsV1().Deployments(ns).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// rolledOut waits until a Deployment is complete.
func rolledOut(t *testing.T, ns, name string) {
	t.Helper()
	eventually(t, "deployment "+name+" is complete", func() (bool, string) {
		d, err := it.client.AppsV1().Deployments(ns).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		s, want := d.Status, *d.Spec.Replicas
		return s.ObservedGeneration >= d.Generation && s.Replicas == want && s.UpdatedReplicas == want && s.AvailableReplicas == want,
			fmt.Sprintf("%+v", s)
	})
}

// pods returns the live pods of an app.
func pods(t *testing.T, ns, app string) []corev1.Pod {
	t.Helper()
	list, err := it.client.CoreV1().Pods(ns).List(context.Background(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	var live []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			live = append(live, p)
		}
	}
	return live
}

// ready counts the ready endpoints of a service.
func ready(t *testing.T, ns, service string) (n int) {
	t.Helper()
	list, err := it.client.DiscoveryV1().EndpointSlices(ns).List(context.Background(),
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				n++
			}
		}
	}
	return n
}

// fetch asks a service for a page from inside a pod.
func fetch(ns, pod, service string) (string, error) {
	return it.try("exec", "-n", ns, pod, "--", "wget", "-q", "-O", "-", "http://"+host(clusterIP(ns, service))+"/hostname")
}

// host is an address as URLs have it.
func host(ip string) string {
	if strings.Contains(ip, ":") {
		return "[" + ip + "]"
	}
	return ip
}

func clusterIP(ns, service string) string {
	s, err := it.client.CoreV1().Services(ns).Get(context.Background(), service, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return s.Spec.ClusterIP
}

// client is a pod that runs the same image and does nothing but wait for exec.
const clientPod = `
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: client, image: "nginx:1", command: [sh, -c, "sleep 3600"]}
`

// startClient runs the client pod.
func startClient(t *testing.T, ns string) {
	t.Helper()
	apply(t, ns, clientPod)
	kubectl(t, "wait", "-n", ns, "pod/client", "--for=condition=Ready", "--timeout=240s")
}
