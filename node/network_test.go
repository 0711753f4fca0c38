package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func (r *rig) readiness() (status corev1.ConditionStatus, message string) {
	n := resource.Get(r.Read(), kinds.Nodes, "", "n")
	if n == nil {
		return "", ""
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status, c.Message
		}
	}
	return "", ""
}

// TestNoNetworkYet: a node without a CNI configuration is not ready and says why; pods on the host's network run all the same, for the
// network's own pods are such, and the others start within seconds of its coming.
func TestNoNetworkYet(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		r.rt.mu.Lock()
		r.rt.noCNI = true
		r.rt.mu.Unlock()
		r.start()
		r.pod("plugin", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "a")
		r.pod("p", nil, "a")
		r.reaches("plugin", corev1.PodRunning)
		r.rests(30 * time.Second)
		want := "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: " +
			"cni plugin not initialized"
		if status, message := r.readiness(); status != corev1.ConditionFalse || message != want {
			t.Errorf("Ready is %s: %q", status, message)
		}
		if p := r.get("p"); p.Status.Phase == corev1.PodRunning || !strings.Contains(r.events("p"), "NetworkNotReady") {
			t.Errorf("the pod is %s, events %s", p.Status.Phase, r.events("p"))
		}
		r.rt.mu.Lock()
		r.rt.noCNI = false
		r.rt.mu.Unlock()
		began := time.Now()
		r.reaches("p", corev1.PodRunning)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the pod ran %v after there was a network", took)
		}
		if status, message := r.readiness(); status != corev1.ConditionTrue {
			t.Errorf("Ready is %s: %q", status, message)
		}
	})
}

// TestAnotherRange: when the node comes back with another range, its pods get new sandboxes with addresses of it.
func TestAnotherRange(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		r.cfg.OwnNetwork = true
		r.start()
		give := func(pods string) {
			r.t.Helper()
			if _, err := r.Patch(r.t.Context(), kinds.Nodes, "", "n", client.Patch{Type: types.MergePatchType,
				Data: []byte(`{"spec":{"podCIDR":"` + pods + `","podCIDRs":["` + pods + `"]}}`)}); err != nil {
				r.t.Fatal(err)
			}
		}
		registered := func() bool { status, _ := r.readiness(); return status == corev1.ConditionTrue }
		r.until("the node is there", registered)
		give("10.1.0.0/24")
		r.pod("p", nil, "a")
		if p := r.reaches("p", corev1.PodRunning); p.Status.PodIP != "10.1.0.9" {
			r.t.Errorf("the pod is at %s", p.Status.PodIP)
		}
		r.stop()
		if err := r.Delete(r.t.Context(), kinds.Nodes, "", "n", nil); err != nil {
			r.t.Fatal(err)
		}
		r.rt.mu.Lock()
		r.rt.ip = "10.2.0.9"
		r.rt.mu.Unlock()
		r.start()
		r.until("the node is there again", registered)
		r.rests(3 * time.Second)
		if _, boxes := r.rt.count(); boxes != 1 {
			r.t.Errorf("%d sandboxes before the node has its range", boxes)
		}
		give("10.2.0.0/24")
		r.until("the pod has an address of the new range", func() bool {
			p := r.get("p")
			return p.Status.PodIP == "10.2.0.9" && p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].State.Running != nil
		})
	})
}

// TestSandboxesThatCantServe: a pod that has two sandboxes at once, of a call whose answer was lost, and one whose sandbox has lost its
// address get a new one each, and say why as long as there is none; a pod in the node's network has no address there, and needs none.
func TestSandboxesThatCantServe(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", nil, "a")
		r.pod("host", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "b")
		r.reaches("p", corev1.PodRunning)
		r.reaches("host", corev1.PodRunning)
		ready := func(name string) (ids []string) {
			r.rt.mu.Lock()
			defer r.rt.mu.Unlock()
			for _, b := range r.rt.boxes {
				if b.State == cri.PodSandboxState_SANDBOX_READY && b.Labels[labelPod] == name {
					ids = append(ids, b.Id)
				}
			}
			return ids
		}
		host := ready("host")
		network := func(there bool) {
			r.rt.mu.Lock()
			defer r.rt.mu.Unlock()
			r.rt.noCNI = !there
		}
		anew := func(why string) {
			t.Helper()
			old := ready("p")
			r.start()
			r.until("says "+why, func() bool {
				return slices.ContainsFunc(r.get("p").Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse && c.Message == why
				})
			})
			network(true)
			r.until("there is another for "+why, func() bool {
				now, p := ready("p"), r.get("p")
				return len(now) == 1 && !slices.Contains(old, now[0]) && p.Status.PodIP == "10.1.0.9" &&
					p.Status.ContainerStatuses[0].State.Running != nil
			})
		}
		r.stop()
		box := ready("p")[0]
		r.rt.mu.Lock()
		was := r.rt.boxReqs[box].Config
		r.rt.mu.Unlock()
		late := &cri.PodSandboxConfig{Labels: was.Labels, Linux: was.Linux,
			Metadata: &cri.PodSandboxMetadata{Name: "p", Namespace: "d", Uid: was.Metadata.Uid, Attempt: 7}}
		if _, err := r.rt.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: late}); err != nil {
			t.Fatal(err)
		}
		network(false)
		anew("multiple pod sandboxes are ready and need to be reconciled")
		r.stop()
		box = ready("p")[0]
		r.rt.mu.Lock()
		r.rt.ips[box], r.rt.ips[host[0]] = "", ""
		r.rt.mu.Unlock()
		network(false)
		anew("pod sandbox has no IP address")
		r.rests(time.Minute)
		if now := ready("host"); !slices.Equal(now, host) {
			t.Errorf("the pod in the node's network has %v after %v", now, host)
		}
		r.stop()
		box = ready("p")[0]
		r.rt.mu.Lock()
		r.rt.ips[box], r.rt.noIPs = "", true
		before := len(r.rt.boxReqs)
		r.rt.mu.Unlock()
		r.start()
		r.rests(2 * time.Minute)
		r.rt.mu.Lock()
		made := len(r.rt.boxReqs) - before
		r.rt.mu.Unlock()
		if made < 3 || made > 40 {
			t.Errorf("%d sandboxes in two minutes without addresses", made)
		}
	})
}
