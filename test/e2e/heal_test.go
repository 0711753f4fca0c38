//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
)

func TestDeletedPodIsReplaced(t *testing.T) {
	t.Parallel()
	ns := space(t)
	apply(t, ns, web("web", 2, ""))
	rolledOut(t, ns, "web")
	victim := pods(t, ns, "web")[0]
	kubectl(t, "delete", "pod", "-n", ns, victim.Name)
	rolledOut(t, ns, "web")
	for _, p := range pods(t, ns, "web") {
		if p.UID == victim.UID {
			t.Error("the deleted pod is still there")
		}
	}
}

func TestKilledProcessIsRestarted(t *testing.T) {
	t.Parallel()
	ns := space(t)
	apply(t, ns, web("web", 1, ""))
	rolledOut(t, ns, "web")
	p := pods(t, ns, "web")[0]
	_, _ = it.try("exec", "-n", ns, p.Name, "--", "kill", "-QUIT", "1") // it may be stopped before it says that it is done
	eventually(t, "the container runs again", func() (bool, string) {
		s := pods(t, ns, "web")[0].Status.ContainerStatuses[0]
		return s.RestartCount == 1 && s.State.Running != nil && s.Ready, fmt.Sprintf("%+v", s)
	})
	if now := pods(t, ns, "web")[0]; now.UID != p.UID {
		t.Error("the pod was replaced; only its container should have been")
	}
}

func TestUnreadyPodGetsNoTraffic(t *testing.T) {
	t.Parallel()
	ns := space(t)
	startClient(t, ns)
	apply(t, ns, web("web", 1, ""))
	rolledOut(t, ns, "web")
	eventually(t, "the service answers", func() (bool, string) {
		out, err := fetch(ns, "client", "web")
		return err == nil && strings.HasPrefix(out, "web-"), fmt.Sprint(out, err)
	})
	pod := pods(t, ns, "web")[0].Name
	kubectl(t, "exec", "-n", ns, pod, "--", "sh", "-c", "cp /usr/share/nginx/html/index.html /tmp && rm /usr/share/nginx/html/index.html")
	eventually(t, "the endpoint is taken out", func() (bool, string) { return ready(t, ns, "web") == 0, "still ready" })
	eventually(t, "traffic stops", func() (bool, string) {
		out, err := fetch(ns, "client", "web")
		return err != nil, out
	})
	kubectl(t, "exec", "-n", ns, pod, "--", "sh", "-c",
		"cp /tmp/index.html /usr/share/nginx/html/index.html 2>/dev/null || cat /tmp/index.html > /usr/share/nginx/html/index.html")
	eventually(t, "traffic returns", func() (bool, string) {
		out, err := fetch(ns, "client", "web")
		return err == nil, fmt.Sprint(out, err)
	})
	if n := pods(t, ns, "web")[0].Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("readiness restarted the container %d times", n)
	}
}

func TestFailingLivenessRestarts(t *testing.T) {
	t.Parallel()
	ns := space(t)
	apply(t, ns, web("web", 1,
		"        livenessProbe: {exec: {command: [test, ! , -e, /tmp/sick]}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 2}\n"))
	rolledOut(t, ns, "web")
	_, _ = it.try("exec", "-n", ns, pods(t, ns, "web")[0].Name, "--", "touch", "/tmp/sick") // it may be stopped before it says that it is done
	eventually(t, "the container is restarted", func() (bool, string) {
		s := pods(t, ns, "web")[0].Status.ContainerStatuses[0]
		return s.RestartCount >= 1 && s.Ready, fmt.Sprintf("%+v", s)
	})
}

// TestRollout changes the image under the eyes of a watcher that sees how many pods are ready, undoes and scales.
func TestRollout(t *testing.T) {
	t.Parallel()
	ns := space(t)
	apply(t, ns, web("web", 3, ""))
	rolledOut(t, ns, "web")
	floor := watchFloor(t, ns, "web", 3)
	kubectl(t, "set", "image", "-n", ns, "deployment/web", "web=nginx:2")
	rolledOut(t, ns, "web")
	if least := floor(); least < 3 {
		t.Errorf("only %d pods were ready during the rollout; the floor is 3", least)
	}
	for _, p := range pods(t, ns, "web") {
		if p.Spec.Containers[0].Image != "nginx:2" {
			t.Errorf("pod %s runs %s", p.Name, p.Spec.Containers[0].Image)
		}
	}
	kubectl(t, "rollout", "undo", "-n", ns, "deployment/web")
	kubectl(t, "rollout", "status", "-n", ns, "deployment/web", "--timeout=240s")
	if got := deployment(t, ns, "web").Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
		t.Errorf("undo left %s", got)
	}
	kubectl(t, "scale", "-n", ns, "deployment/web", "--replicas=1")
	rolledOut(t, ns, "web")
	eventually(t, "one pod is left", func() (bool, string) { n := len(pods(t, ns, "web")); return n == 1, fmt.Sprint(n) })
}

// watchFloor follows the pods and returns a function that ends it and tells the least that were ready.
func watchFloor(t *testing.T, ns, app string, start int) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := it.client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	least, done := start, make(chan struct{})
	go func() {
		defer close(done)
		isReady := map[string]bool{}
		seen := 0
		for ev := range w.ResultChan() {
			p, ok := ev.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			isReady[p.Name] = false
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && ev.Type != "DELETED" && p.DeletionTimestamp == nil {
					isReady[p.Name] = true
				}
			}
			n := 0
			for _, r := range isReady {
				if r {
					n++
				}
			}
			if seen = max(seen, n); seen >= start {
				least = min(least, n)
			}
		}
	}()
	return func() int { cancel(); <-done; return least }
}

func TestDriftIsCorrected(t *testing.T) {
	t.Parallel()
	ns := space(t)
	apply(t, ns, web("web", 2, ""))
	rolledOut(t, ns, "web")
	rs := kubectl(t, "get", "rs", "-n", ns, "-o", "jsonpath={.items[0].metadata.name}")
	kubectl(t, "scale", "-n", ns, "rs/"+rs, "--replicas=0")
	kubectl(t, "delete", "endpointslices", "-n", ns, "--all")
	eventually(t, "two pods and their endpoints are back", func() (bool, string) {
		n, e := len(pods(t, ns, "web")), ready(t, ns, "web")
		return n == 2 && e == 2, fmt.Sprintf("%d pods, %d endpoints", n, e)
	})
}

func TestNamespaceLeavesNothing(t *testing.T) {
	t.Parallel()
	ns := "e2e-goes"
	kubectl(t, "create", "namespace", ns)
	apply(t, ns, web("web", 2, ""))
	rolledOut(t, ns, "web")
	kubectl(t, "delete", "namespace", ns, "--timeout=240s")
	out := kubectl(t, "get", "all,endpointslices,configmaps,serviceaccounts,events", "-n", ns, "-o", "name")
	if out != "" {
		t.Errorf("left behind: %s", out)
	}
	containers, err := it.try("get", "--raw", "/api/v1/nodes/"+nodes[0].name+"/proxy/pods")
	if err == nil && strings.Contains(containers, ns) {
		t.Error("the node still runs pods of the namespace")
	}
}

// TestConflictStorm has 20 writers increment one number 10 times each.
func TestConflictStorm(t *testing.T) {
	t.Parallel()
	ns := space(t)
	kubectl(t, "create", "configmap", "-n", ns, "counter", "--from-literal=n=0")
	maps := it.client.CoreV1().ConfigMaps(ns)
	const writers, times = 20, 10
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			for range times {
				errs[w] = errors.Join(errs[w], retry.OnError(patient, apierrors.IsConflict, func() error { return increment(maps) }))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got := kubectl(t, "get", "configmap", "-n", ns, "counter", "-o", "jsonpath={.data.n}"); got != fmt.Sprint(writers*times) {
		t.Errorf("the counter says %s, want %d", got, writers*times)
	}
}

// patient retries about as often as 20 writers can lose against each other.
var patient = wait.Backoff{Steps: 1000, Duration: 5 * time.Millisecond, Factor: 1, Jitter: 4}

func increment(maps typedcorev1.ConfigMapInterface) error {
	cm, err := maps.Get(context.Background(), "counter", metav1.GetOptions{})
	if err != nil {
		return err
	}
	var n int
	if _, err := fmt.Sscan(cm.Data["n"], &n); err != nil {
		return err
	}
	cm.Data["n"] = fmt.Sprint(n + 1)
	_, err = maps.Update(context.Background(), cm, metav1.UpdateOptions{})
	return err
}

// TestHopelessPodHindersNobody runs pods that can never start beside a rollout.
func TestHopelessPodHindersNobody(t *testing.T) {
	t.Parallel()
	ns := space(t)
	apply(t, ns, strings.ReplaceAll(web("hopeless", 5, ""), "nginx:1", "127.0.0.1:9/none:1"))
	apply(t, ns, web("web", 2, ""))
	began := time.Now()
	rolledOut(t, ns, "web")
	t.Logf("two pods were ready after %v beside five that never will be", time.Since(began).Round(time.Millisecond))
	eventually(t, "the hopeless pods say why", func() (bool, string) {
		list := pods(t, ns, "hopeless")
		for _, p := range list {
			if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
				return false, "no status"
			}
			if why := p.Status.ContainerStatuses[0].State.Waiting.Reason; why != "ErrImagePull" && why != "ImagePullBackOff" {
				return false, why
			}
		}
		return len(list) == 5, fmt.Sprint(len(list))
	})
}

// TestKillDuringRollout kills kloop in the middle of a rollout and under writes, and starts it again.
func TestKillDuringRollout(t *testing.T) {
	ns := space(t)
	apply(t, ns, web("still", 1, ""))
	apply(t, ns, web("web", 3, ""))
	rolledOut(t, ns, "still")
	rolledOut(t, ns, "web")
	still := pods(t, ns, "still")[0]
	kubectl(t, "set", "image", "-n", ns, "deployment/web", "web=nginx:2")
	acked := write(ns, 200, func(i int) {
		if i == 100 {
			if err := it.server.Process.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	_ = it.server.Wait()
	if err := it.startServer(); err != nil {
		t.Fatal(err)
	}
	rolledOut(t, ns, "web")
	lost := 0
	for _, name := range acked {
		if _, err := it.client.CoreV1().ConfigMaps(ns).Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			lost++
		}
	}
	if lost > 0 || len(acked) < 50 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(acked))
	}
	now := pods(t, ns, "still")[0]
	if now.UID != still.UID || now.Status.ContainerStatuses[0].ContainerID != still.Status.ContainerStatuses[0].ContainerID ||
		now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("a container that had no part in it was touched: %+v", now.Status.ContainerStatuses[0])
	}
}

// write creates config maps one after the other and returns those that were acknowledged.
func write(ns string, n int, at func(i int)) (acked []string) {
	for i := range n {
		at(i)
		name := fmt.Sprintf("acked-%d", i)
		_, err := it.client.CoreV1().ConfigMaps(ns).Create(context.Background(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			if i > 100 {
				return acked
			}
			continue
		}
		acked = append(acked, name)
	}
	return acked
}
