package cluster

import (
	"context"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// within lets everybody get what is in a namespace, and nothing else.
type within string

func (ns within) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if a.Namespace == string(ns) {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

// Somebody who may see a namespace hears of the node that its pods are on, though the Lease of that node, of the same name, lies elsewhere.
// Of what lies elsewhere they hear no name, and which object is stuck all the same.
func TestSightKeepsWhatTheReaderSees(t *testing.T) {
	object := func(kind, resource, ns, name string) convergence.Object {
		return convergence.Object{Kind: kind, Resource: resource, Namespace: ns, Name: name}
	}
	web, pod := object("Deployment", "deployments.apps", "shop", "web"), object("Pod", "pods", "shop", "web-1")
	node, lease := object("Node", "nodes", "", "sim-0"), object("Lease", "leases.coordination.k8s.io", "kube-node-lease", "sim-0")
	hush := object("Service", "services", "hush", "backend")
	for _, tt := range []struct {
		below         convergence.Object
		waits         convergence.Object
		because, want string
	}{
		{node, lease, "node/sim-0 has not been heard of", "deployment/web has 1 of 3 replicas because node/sim-0 has not been heard of"},
		{hush, hush, "service/backend does not exist", "deployment/web has 1 of 3 replicas because of something that you may not see"},
	} {
		g := &convergence.Gap{Object: web, Says: "has 1 of 3 replicas", Because: tt.because,
			Verdict: "deployment/web has 1 of 3 replicas because " + tt.because,
			Waits:   &convergence.Wait{Type: "Object", On: &tt.waits}, Chain: []convergence.Link{{Depth: 1, Object: pod, Says: "is not ready"},
				{Depth: 2, Object: tt.below, Says: "is the cause"}}}
		s := &sight{authorize: within("shop"), user: &auth.User{Name: "viewer"}, known: map[convergence.Object]bool{}}
		got := s.masked(t.Context(), g)
		if got == nil || got.Verdict != tt.want || got.Waits.On != nil {
			t.Errorf("told %+v, want %q", got, tt.want)
		}
		if got != nil && strings.Contains(got.Verdict+got.Because+got.Chain[1].Object.Name, "backend") {
			t.Errorf("told %+v", got)
		}
	}
}

// What is like the object that is missing, or like a key of it, is for those who may read all objects of that kind.
func TestSightHidesWhatNobodyNamed(t *testing.T) {
	waits := convergence.Object{Kind: "Secret", Resource: "secrets", Namespace: "shop", Name: "db"}
	for _, tt := range []struct {
		advice string
		may    within
		want   bool
	}{
		{converge.Near + "secret/db-prod: name it, if that is meant", "shop", true},
		{converge.Near + "secret/db-prod: name it, if that is meant", "else", false},
		{converge.Near + "configmap/db: name it, if that is meant", "shop", false},
		{"create secret/db in namespace shop", "else", true},
	} {
		g := &convergence.Gap{Waits: &convergence.Wait{Type: "Object", On: &waits}, Advice: []string{tt.advice}}
		s := &sight{authorize: tt.may, user: &auth.User{Name: "viewer"}, known: map[convergence.Object]bool{}}
		if less := s.unhinted(t.Context(), g); (less == nil) != tt.want {
			t.Errorf("%q for who may read %s: %+v", tt.advice, tt.may, less)
		}
	}
}
