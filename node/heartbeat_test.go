package node

import (
	"bytes"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// logged keeps what an agent logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Who deletes a Node leaves its agent running. It makes no Lease that nobody owns, says once what happened and what to do about it, and
// goes on where somebody makes the Node again: then a Lease without an owner gets one.
func TestDeletedNode(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		var said logged
		r.cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
		r.start()
		lease := func() *coordinationv1.Lease {
			return resource.Get(r.Read(), kinds.Leases, corev1.NamespaceNodeLease, "n")
		}
		r.until("the node is ready", func() bool { s, _ := r.readiness(); return s == corev1.ConditionTrue && lease() != nil })
		if err := r.Delete(r.t.Context(), kinds.Nodes, "", "n", &metav1.DeleteOptions{}); err != nil {
			r.t.Fatal(err)
		}
		if err := r.Delete(r.t.Context(), kinds.Leases, corev1.NamespaceNodeLease, "n", &metav1.DeleteOptions{}); err != nil {
			r.t.Fatal(err)
		}
		r.rests(20 * time.Minute)
		if l := lease(); l != nil {
			t.Errorf("a Lease was made for a Node that is not there: owners %v", l.GetOwnerReferences())
		}
		if text := said.String(); strings.Count(text, "the Node is gone") != 1 || strings.Count(text, "not found") > 0 {
			t.Errorf("in twenty minutes it said:\n%s", text)
		} else if !strings.Contains(text, "restart this agent") {
			t.Errorf("it does not say what to do:\n%s", text)
		}
		create(r, kinds.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n"}})
		r.rests(time.Minute)
		n := create(r, kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		r.until("the node is ready again", func() bool { s, _ := r.readiness(); return s == corev1.ConditionTrue })
		r.until("the Lease is the Node's", func() bool {
			o := lease().GetOwnerReferences()
			return len(o) == 1 && o[0].Kind == "Node" && o[0].Name == "n" && o[0].UID == n.UID
		})
	})
}

// How long the machine took to be a node of the cluster: told by the agent that registered it, once.
func TestStartupTimes(t *testing.T) {
	simulate(t, func(r *rig) {
		spans := func() (list [5]float64) {
			families, err := r.agent.meter.Gatherer().Gather()
			if err != nil {
				t.Fatal(err)
			}
			for i, part := range []string{"pre_kubelet_", "pre_registration_", "registration_", "post_registration_", ""} {
				at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool {
					return f.GetName() == "kubelet_node_startup_"+part+"duration_seconds"
				})
				if at < 0 {
					t.Fatalf("nothing tells of %q", part)
				}
				list[i] = families[at].Metric[0].Gauge.GetValue()
			}
			return list
		}
		r.until("the node is ready", func() bool { s, _ := r.readiness(); return s == corev1.ConditionTrue })
		r.stop()
		if err := r.Delete(r.t.Context(), kinds.Nodes, "", "n", &metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.rt.noCNI = true
		r.start()
		r.rests(40 * time.Second)
		if is := spans(); is[0] <= 0 || is[3] != 0 || is[4] != 0 {
			t.Errorf("before it is ready: %v", is)
		}
		r.rt.mu.Lock()
		r.rt.noCNI = false
		r.rt.mu.Unlock()
		r.until("the node is ready", func() bool { s, _ := r.readiness(); return s == corev1.ConditionTrue })
		is := spans()
		if sum := is[0] + is[1] + is[2] + is[3]; is[3] < 40 || is[3] > 60 || math.Abs(is[4]-sum) > 0.001 {
			t.Errorf("of a node that was ready after 40 s: %v", is)
		}
		r.rests(time.Minute)
		if spans() != is {
			t.Errorf("later: %v, were %v", spans(), is)
		}
		r.stop()
		r.start()
		r.rests(time.Minute)
		if is := spans(); is != [5]float64{} {
			t.Errorf("an agent that found the Node: %v", is)
		}
	})
}
