package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/trail"
)

const explained = "/apis/convergence.kloop.dev/v1alpha1"

// told asks a server for something that it explains.
func told(ctx context.Context, cs *kubernetes.Clientset, path string, into any) error {
	data, err := cs.RESTClient().Get().AbsPath(explained + path).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// loopNamed is a loop as the server tells it.
func loopNamed(ctx context.Context, cs *kubernetes.Clientset, name string) (*convergence.Loop, error) {
	l := &convergence.Loop{}
	return l, told(ctx, cs, "/loops/"+name, l)
}

// Loops that run elsewhere, over HTTP, are explained as exactly as those in the server's process: who leads them, which
// error a key backs off from and until when, and what a write was made for.
func TestElsewhereExplained(t *testing.T) {
	c := start(t, cluster.Config{NoLoops: true, SimNodes: 2})
	cfg := config(t, c)
	cs := clientset(t, cfg)
	ctx, ns := t.Context(), "elsewhere" // whose service account nobody makes yet
	if _, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1")}}}
	if _, err := cs.CoreV1().ResourceQuotas(ns).Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.AppsV1().Deployments(ns).Create(ctx, deployment("web", 0), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gap := func(want func(g *convergence.Gap) bool) {
		t.Helper()
		g := &convergence.Gap{}
		eventually(t, "the explanation", func(ctx context.Context) (bool, error) {
			if err := told(ctx, cs, "/namespaces/"+ns+"/gaps/deployments.apps:web", g); err != nil {
				return false, nil //nolint:nilerr // it comes
			}
			return want(g), nil
		})
	}
	gap(func(g *convergence.Gap) bool { return g.Cause == "LoopNotRunning" && g.State == "Missing" })

	for _, id := range []string{"one", "two"} {
		runLoops(t, cfg, id)
	}
	eventually(t, "the quota is in force", func(ctx context.Context) (bool, error) {
		q, err := cs.CoreV1().ResourceQuotas(ns).Get(ctx, "few", metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) > 0, err
	})
	if _, err := cs.AppsV1().Deployments(ns).Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	gap(func(g *convergence.Gap) bool {
		return g.Cause == "QuotaExceeded" && g.Owner == "replicaset" && g.Next.At != nil && g.Error != nil && g.Error.Count > 1
	})
	eventually(t, "both replicas are known", func(ctx context.Context) (bool, error) {
		lease, err := cs.CoordinationV1().Leases("kube-system").Get(ctx, "kube-controller-manager", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		l, err := loopNamed(ctx, cs, "replicaset")
		return err == nil && l.Replicas == 2 && l.Leader == *lease.Spec.HolderIdentity && l.Done > 0 && l.Failing == 1, nil
	})
	parent, ok := causeOf(t, cs, ns)
	if !ok || parent.By() != "deployment" {
		t.Errorf("the pod was made because of a write by %q, %v", parent.By(), ok)
	}
}

// runLoops runs a replica of the loops until the test ends.
func runLoops(t *testing.T, cfg *rest.Config, id string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- cluster.RunLoops(ctx, cluster.Loops{Rest: cfg, Log: quiet,
			Config: cluster.Config{Kit: whole.Kit(), NodeMonitorGrace: time.Minute}, Election: client.Election{
				Namespace: "kube-system", Name: "kube-controller-manager", Identity: id, Duration: time.Minute, Renew: time.Second}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", id, err)
		}
	})
}

// causeOf is the write that led to a pod of the namespace.
func causeOf(t *testing.T, cs *kubernetes.Clientset, ns string) (trail.Write, bool) {
	t.Helper()
	pods, err := cs.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	q := url.Values{"resource": {"pods"}, "namespace": {ns}, "name": {pods.Items[0].Name}}
	data, err := cs.RESTClient().Get().RequestURI(trail.Page + "?" + q.Encode()).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []trail.Write
	for lines := bufio.NewScanner(strings.NewReader(string(data))); lines.Scan(); {
		var w trail.Write
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			t.Fatal(err)
		}
		list = append(list, w)
	}
	g := trail.NewGraph(list)
	for _, w := range g.Of(trail.Ref{Resource: "pods", Namespace: ns, Name: pods.Items[0].Name}) {
		if above := g.Because(w); w.Verb == trail.Created && len(above) > 0 {
			return above[0], true
		}
	}
	return trail.Write{}, false
}

// A node's agent elsewhere tells why it can't run a pod of its own, and of no other.
func TestAgentsReport(t *testing.T) {
	c := start(t, cluster.Config{NoLoops: true})
	cs, cfg := clientset(t, config(t, c)), config(t, c)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:node:n1", Groups: []string{"system:nodes"}}
	node, ctx := clientset(t, cfg), t.Context()
	ns := "agents"
	if _, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	report := `{"apiVersion":"convergence.kloop.dev/v1alpha1","kind":"Report","process":"n1","loops":[{"metadata":{"name":"node"},` +
		`"done":7},{"metadata":{"name":"replicaset"}}],"records":[`
	for _, name := range []string{"n1", "n2"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "x"}},
				AutomountServiceAccountToken: new(bool)}}
		if _, err := cs.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		if _, err := cs.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		report += `{"loop":"node","resource":"pods","namespace":"` + ns + `","name":"` + name +
			`","state":"waiting","since":null,"fails":3,"error":"no disk"},`
	}
	report = strings.TrimSuffix(report, ",") + "]}"
	if err := node.RESTClient().Post().AbsPath(explained + "/reports").Body([]byte(report)).Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"n1": true, "n2": false} {
		t.Run(name, func(t *testing.T) {
			g := &convergence.Gap{}
			if err := told(ctx, cs, "/namespaces/"+ns+"/gaps/pods:"+name, g); err != nil || (g.Cause == "AgentRefuses") != want {
				t.Errorf("pod %s: %s, %v; explained by the agent: want %v", name, g.Cause, err, want)
			}
		})
	}
	if l, err := loopNamed(ctx, cs, "node.n1"); err != nil || l.Leader != "n1" || l.Done != 7 {
		t.Errorf("the agent's loop is %+v, %v", l, err)
	}
	if l, err := loopNamed(ctx, cs, "replicaset"); err == nil {
		t.Errorf("a node tells of a loop that is not its own: %+v", l)
	}
}

// Nobody without the right may report loops, or tell what its writes were made for.
func TestReportsGuarded(t *testing.T) {
	c := start(t, cluster.Config{NoLoops: true})
	admin, stranger := clientset(t, config(t, c)), config(t, c)
	stranger.Impersonate.UserName = "eve"
	eve := clientset(t, stranger)
	ctx := t.Context()
	report := []byte(
		`{"apiVersion":"convergence.kloop.dev/v1alpha1","kind":"Report","process":"x","loops":[{"metadata":{"name":"replicaset"}}]}`)
	post := func(cs *kubernetes.Clientset) error {
		return cs.RESTClient().Post().AbsPath(explained + "/reports").Body(report).Do(ctx).Error()
	}
	if err := post(eve); !apierrors.IsForbidden(err) {
		t.Errorf("a stranger reports: %v", err)
	}
	if err := post(admin); err != nil {
		t.Errorf("an administrator reports: %v", err)
	}
	if l, err := loopNamed(ctx, admin, "replicaset"); err != nil || l.Leader != "x" {
		t.Errorf("the loop is %+v, %v", l, err)
	}
}
