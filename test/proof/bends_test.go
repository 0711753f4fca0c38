package proof

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
)

// TestProofCanFail breaks the cluster in ways that loops have been broken in, and asks the proof to notice each.
func TestProofCanFail(t *testing.T) {
	const most = 60 // seeds until it must have been noticed
	for _, x := range []struct {
		name    string
		bent    *bends
		notices string
	}{
		{"no fence", &bends{onCreated: forgetRevision, lag: 60}, "pods where"},
		{"the last writer wins", &bends{onUpdate: anyRevision("volume-binder")}, "both have volume"},
		{"binds without looking", &bends{onCall: bindFirst}, "CPU"},
		{"kills by force", &bends{onRemove: byForce("daemonset")}, "may still run"},
		{"unready endpoints", &bends{onCreate: allReady, onUpdate: allReady}, "is called ready"},
		{"rolls too fast", &bends{onUpdate: moreReplicas}, "with its surge"},
		{"rolls without a floor", &bends{onUpdate: noneOfTheOld}, "may not have fewer"},
		{"counts twice", &bends{onUpdate: oneMore}, "counts"},
		{"two sets for a template", &bends{onCreate: anyName, onCreated: forgetRevision, onUpdate: unreported}, "two sets for one template"},
		{"collects nothing", &bends{onRemove: onlyTrying("garbage-collector")}, "outlived"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(most) {
				for _, err := range runSeed(t, seed, true, x.bent, nil).errs {
					if strings.Contains(err.Error(), x.notices) {
						t.Logf("seed %d: %v", seed, err)
						return
					}
				}
			}
			t.Errorf("%d seeds, and nobody noticed", most)
		})
	}
}

// forgetRevision hides from the engine when a write will be seen.
func forgetRevision(obj resource.Object) resource.Object {
	out := resource.Clone(obj)
	out.SetResourceVersion("0")
	return out
}

// unreported keeps a deployment from telling that it made a set: it would wait until that is seen.
func unreported(h *hand, _ resource.Kind, obj resource.Object) resource.Object {
	d, ok := obj.(*appsv1.Deployment)
	if !ok || h.who != "deployment" || !slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Reason == "NewReplicaSetCreated" }) {
		return obj
	}
	out := d.DeepCopy()
	out.ResourceVersion = "1"
	return out
}

// anyRevision has a loop overwrite what others wrote.
func anyRevision(who string) func(h *hand, k resource.Kind, obj resource.Object) resource.Object {
	return func(h *hand, _ resource.Kind, obj resource.Object) resource.Object {
		if h.who != who {
			return obj
		}
		out := resource.Clone(obj)
		out.SetResourceVersion("")
		return out
	}
}

func bindFirst(_ *hand, in resource.Object) resource.Object {
	if b, ok := in.(*corev1.Binding); ok {
		out := b.DeepCopy()
		out.Target.Name = "node-1"
		return out
	}
	return in
}

func byForce(who string) func(h *hand, k resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
	return func(h *hand, _ resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
		if h.who != who {
			return opts
		}
		return &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	}
}

func onlyTrying(who string) func(h *hand, k resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
	return func(h *hand, _ resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
		if h.who != who {
			return opts
		}
		return &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	}
}

func allReady(h *hand, _ resource.Kind, obj resource.Object) resource.Object {
	es, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj
	}
	out := es.DeepCopy()
	for i := range out.Endpoints {
		out.Endpoints[i].Conditions.Ready = new(true)
	}
	return out
}

func moreReplicas(h *hand, _ resource.Kind, obj resource.Object) resource.Object {
	if rs, ok := obj.(*appsv1.ReplicaSet); ok && h.who == "deployment" && *rs.Spec.Replicas > 0 {
		out := rs.DeepCopy()
		*out.Spec.Replicas += 3
		return out
	}
	return obj
}

// noneOfTheOld scales every set that shrinks to nothing.
func noneOfTheOld(h *hand, k resource.Kind, obj resource.Object) resource.Object {
	rs, ok := obj.(*appsv1.ReplicaSet)
	if !ok || h.who != "deployment" {
		return obj
	}
	cur := h.w.view.Snapshot().Lookup(k, rs.Namespace, rs.Name)
	if cur == nil || *cur.(*appsv1.ReplicaSet).Spec.Replicas <= *rs.Spec.Replicas {
		return obj
	}
	out := rs.DeepCopy()
	out.Spec.Replicas = new(int32)
	return out
}

func oneMore(h *hand, _ resource.Kind, obj resource.Object) resource.Object {
	if j, ok := obj.(*batchv1.Job); ok && h.who == "job" && j.Status.Succeeded > 0 {
		out := j.DeepCopy()
		out.Status.Succeeded++
		return out
	}
	return obj
}

func anyName(h *hand, _ resource.Kind, obj resource.Object) resource.Object {
	if rs, ok := obj.(*appsv1.ReplicaSet); ok && h.who == "deployment" {
		out := rs.DeepCopy()
		out.Name = fmt.Sprintf("%s-%d", rs.Name, h.w.turns.steps)
		return out
	}
	return obj
}
