package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/trail"
)

// TestTrail scales a Deployment and finds, in the trail, the pods that became ready because of it; then why one of them
// was deleted.
func TestTrail(t *testing.T) {
	c := start(t, cluster.Config{SimNodes: 2})
	cfg := config(t, c)
	cs := clientset(t, cfg)
	ns := namespace(t, cs)
	if _, err := cs.AppsV1().Deployments(ns).Create(t.Context(), deployment("web", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ready := func(n int32) {
		t.Helper()
		eventually(t, "ready pods", func(ctx context.Context) (bool, error) {
			d, err := cs.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{})
			return err == nil && d.Status.ReadyReplicas == n && d.Status.Replicas == n, err
		})
	}
	scale := func(n string) {
		t.Helper()
		if _, err := cs.AppsV1().Deployments(ns).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":`+n+`}}`),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ready(1)
	scale("3")
	ready(3)
	graph := func(resource, name string) *trail.Graph {
		t.Helper()
		q := url.Values{"resource": {resource}, "namespace": {ns}, "name": {name}}
		body, err := cs.RESTClient().Get().RequestURI(trail.Page + "?" + q.Encode()).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = body.Close() }()
		var list []trail.Write
		for lines := bufio.NewScanner(body); lines.Scan(); {
			var w trail.Write
			if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
				t.Fatal(err)
			}
			list = append(list, w)
		}
		return trail.NewGraph(list)
	}
	g := graph("deployments.apps", "web")
	begin, ok := g.Start(trail.Ref{Resource: "deployments.apps", Namespace: ns, Name: "web"})
	if !ok || begin.What != "replicas 1 → 3" || begin.User != "kubernetes-admin" {
		t.Fatalf("the newest request is %+v", begin)
	}
	steps := map[string]int{}
	var walk func(s *trail.Step)
	walk = func(s *trail.Step) {
		steps[s.By()+" "+s.Verb+" "+s.Resource] += s.Count
		for _, b := range s.Below {
			walk(b)
		}
	}
	walk(g.Cascade(begin))
	for _, want := range []string{"deployment change replicasets.apps", "replicaset create pods", "scheduler change pods",
		"sim-pod change pods"} {
		if n := steps[want]; n == 0 || want == "replicaset create pods" && n != 2 {
			t.Errorf("%d times: %s; all: %v", n, want, steps)
		}
	}
	before, err := cs.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale("0")
	ready(0)
	pod := trail.Ref{Resource: "pods", Namespace: ns, Name: before.Items[0].Name}
	g = graph("pods", pod.Name)
	for _, w := range g.Of(pod) {
		if w.Verb == trail.Marked || w.Verb == trail.Deleted {
			led := g.Because(w)
			if w.By() != "replicaset" && w.By() != "sim-pod" || len(led) == 0 || led[len(led)-1].What != "replicas 3 → 0" {
				t.Errorf("%s by %s because of %+v", w.Verb, w.By(), led)
			}
			return
		}
	}
	t.Errorf("nobody knows of the deletion of %s", pod.Name)
}

// TestTrailOfFewRights: who may get an object gets its trail, without users, and without names of what else they may not get.
func TestTrailOfFewRights(t *testing.T) {
	c := start(t, cluster.Config{SimNodes: 1})
	cfg := config(t, c)
	cs := clientset(t, cfg)
	ns := namespace(t, cs)
	rule := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"apps"}, Resources: []string{"deployments", "replicasets"}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Rules: []rbacv1.PolicyRule{rule}}
	if _, err := cs.RbacV1().Roles(ns).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "few"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "few"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "few"}}}
	if _, err := cs.RbacV1().RoleBindings(ns).Create(t.Context(), bound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.AppsV1().Deployments(ns).Create(t.Context(), deployment("web", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a ready pod", func(ctx context.Context) (bool, error) {
		d, err := cs.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 1, err
	})
	few := rest.CopyConfig(cfg)
	few.Impersonate = rest.ImpersonationConfig{UserName: "few"}
	ask := func(q url.Values) (text string, err error) {
		data, err := clientset(t, few).RESTClient().Get().RequestURI(trail.Page + "?" + q.Encode()).DoRaw(t.Context())
		return string(data), err
	}
	text, err := ask(url.Values{"resource": {"deployments.apps"}, "namespace": {ns}, "name": {"web"}})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := cs.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatal(err, len(pods.Items))
	}
	for _, hidden := range []string{pods.Items[0].Name + `"`, "kubernetes-admin", `"resource":"pods"`, "bound to"} {
		if strings.Contains(text, hidden) {
			t.Errorf("%s is told: %s", hidden, text)
		}
	}
	var list []trail.Write
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var w trail.Write
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			t.Fatal(err)
		}
		list = append(list, w)
	}
	g := trail.NewGraph(list)
	begin, ok := g.Start(trail.Ref{Resource: "deployments.apps", Namespace: ns, Name: "web"})
	if !ok || begin.Verb != trail.Created || begin.By() == "" {
		t.Fatalf("the newest request is %+v", begin)
	}
	seen, covered := false, false
	for steps := g.Cascade(begin).Below; len(steps) > 0; steps = append(steps[1:], steps[0].Below...) {
		seen = seen || steps[0].Resource == "replicasets.apps"
		covered = covered || steps[0].Name == "" && steps[0].By() == "replicaset"
	}
	if !seen || !covered {
		t.Errorf("a ReplicaSet is told of: %v; that its loop made something: %v; all: %s", seen, covered, text)
	}
	for name, q := range map[string]string{
		"an object that they may not get": "resource=pods&namespace=" + ns + "&name=" + pods.Items[0].Name,
		"everything":                      "all=true",
		"everything of an object":         "all=true&resource=deployments.apps&name=web&namespace=" + ns,
		"nothing":                         "",
		"another namespace":               "resource=deployments.apps&namespace=kube-system&name=web",
	} {
		t.Run(name, func(t *testing.T) {
			if text, err := ask(must[url.Values](t)(url.ParseQuery(q))); !apierrors.IsForbidden(err) {
				t.Errorf("%v %s", err, text)
			}
		})
	}
}
