package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// TestBusyStart: others write the Node whenever the runtime is asked. The agent starts all the same.
func TestBusyStart(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		n := 0
		r.rt.asked = func() {
			n++
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"written":"%d"}}}`, n)
			if _, err := r.Patch(r.t.Context(), kinds.Nodes, "", "n", client.Patch{Type: types.MergePatchType, Data: patch}); err != nil {
				t.Error(err)
			}
		}
		r.start()
		r.rests(time.Minute)
		if status, message := r.readiness(); status != corev1.ConditionTrue || n == 0 {
			t.Errorf("Ready is %s: %q; the runtime was asked %d times", status, message, n)
		}
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
	})
}

// crowded is a client before whom others write the Node, so many times.
type crowded struct {
	client.Client
	others atomic.Int32
}

func (c *crowded) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	if k == resource.Kind(kinds.Nodes) && sub == "status" && c.others.Add(-1) >= 0 {
		return nil, apierrors.NewConflict(k.Info().GR(), obj.GetName(), errors.New("somebody else was before you"))
	}
	return c.Client.Update(ctx, k, obj, sub)
}

// TestCrowdedStart: half a dozen parts write a Node when it is new. On a busy machine that is more than a few conflicts, and no reason
// for a node not to start.
func TestCrowdedStart(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		c := &crowded{Client: r.cfg.Client}
		c.others.Store(8)
		r.cfg.Client = c
		r.start()
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		r.until("all conflicts were met", func() bool { return c.others.Load() <= 0 })
	})
}

// A node whose runtime hangs says so, keeps what it knew of it, and renews its lease.
func TestRuntimeHangs(t *testing.T) {
	simulate(t, func(r *rig) {
		node := func() *corev1.Node { return resource.Get(r.Read(), kinds.Nodes, "", "n") }
		r.until("the node is ready", func() bool { return node() != nil && r.condition(corev1.NodeReady).Status == corev1.ConditionTrue })
		knew := node().Status
		r.rt.mu.Lock()
		r.rt.frozen = true
		r.rt.mu.Unlock()
		r.rests(5 * time.Minute)
		if c := r.condition(corev1.NodeReady); c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "container runtime is down") {
			t.Errorf("the node says %s: %s", c.Status, c.Message)
		}
		l := resource.Get(r.Read(), kinds.Leases, corev1.NamespaceNodeLease, "n")
		if l == nil || time.Since(l.Spec.RenewTime.Time) > 2*leaseEvery {
			t.Errorf("its lease: %+v", l)
		}
		now := node().Status
		if now.NodeInfo.ContainerRuntimeVersion != knew.NodeInfo.ContainerRuntimeVersion || len(now.Images) != len(knew.Images) {
			t.Errorf("of its runtime it tells %q and %d images", now.NodeInfo.ContainerRuntimeVersion, len(now.Images))
		}
		r.rt.mu.Lock()
		r.rt.frozen = false
		r.rt.mu.Unlock()
		r.until("the node is ready again", func() bool { return r.condition(corev1.NodeReady).Status == corev1.ConditionTrue })
	})
}

// A machine whose firmware tells no UUID has that of its installation.
func TestSystemUUID(t *testing.T) {
	simulate(t, func(r *rig) {
		var n *corev1.Node
		r.until("the node is there", func() bool {
			n = resource.Get(r.Read(), kinds.Nodes, "", "n")
			return n != nil && n.Status.NodeInfo.KernelVersion != ""
		})
		if i := n.Status.NodeInfo; i.SystemUUID == "" && i.MachineID != "" {
			t.Errorf("its UUID is not told; the installation's is %s", i.MachineID)
		}
	})
}

// Events tell when the node becomes ready, when it is not any more, and that the machine was started anew.
func TestEventsOfTheNode(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		create(r, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}})
		if err := r.Delete(r.t.Context(), kinds.Nodes, "", "n", nil); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		r.start()
		told := func() (list []string) {
			for _, e := range resource.List(r.Read(), kinds.Events, "") {
				if e.InvolvedObject.Kind == "Node" && e.Reason != "NodeAllocatableEnforced" && !strings.HasPrefix(e.Reason, "NodeHas") {
					text, _, _ := strings.Cut(e.Message, ", boot id: ")
					if uid := resource.Get(r.Read(), kinds.Nodes, "", "n").UID; e.InvolvedObject.UID != uid {
						text += fmt.Sprintf(", of %s, not %s", e.InvolvedObject.UID, uid)
					}
					list = append(list, fmt.Sprintf("%s x%d: %s", e.Reason, e.Count, text))
				}
			}
			slices.Sort(list)
			return list
		}
		expect := func(want ...string) {
			t.Helper()
			r.until(fmt.Sprint("events say ", want), func() bool { return slices.Equal(told(), want) })
		}
		expect("NodeReady x1: Node n status is now: NodeReady")
		r.rt.mu.Lock()
		r.rt.noCNI = true
		r.rt.mu.Unlock()
		expect("NodeNotReady x1: Node n status is now: NodeNotReady", "NodeReady x1: Node n status is now: NodeReady")
		r.stop()
		n := resource.Clone(resource.Get(r.Read(), kinds.Nodes, "", "n"))
		n.Status.NodeInfo.BootID = "former"
		if _, err := r.Update(r.t.Context(), kinds.Nodes, n, "status"); err != nil {
			t.Fatal(err)
		}
		r.rt.mu.Lock()
		r.rt.noCNI = false
		r.rt.mu.Unlock()
		r.start()
		expect("NodeNotReady x1: Node n status is now: NodeNotReady", "NodeReady x2: Node n status is now: NodeReady",
			"Rebooted x1: Node n has been rebooted")
	})
}

func TestPlainVersion(t *testing.T) {
	for text, want := range map[string]string{"1.6.20~ds1": "1.6.20", "v2.1.4": "2.1.4", "2.2.0-beta.1": "2.2.0-beta.1", "1": "1",
		"unknown": "unknown"} {
		t.Run(text, func(t *testing.T) {
			if got := plainVersion(text); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// The format of the disk's size is the kubelet's: what compares texts finds no difference.
func TestFormatOfDisk(t *testing.T) {
	a := testAgent(t)
	if q := a.capacity()[corev1.ResourceEphemeralStorage]; q.Format != apiresource.DecimalSI || q.IsZero() {
		t.Errorf("it is %v, as %s", q, q.Format)
	}
}
