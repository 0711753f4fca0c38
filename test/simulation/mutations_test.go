package simulation

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// TestMutationsAreCaught breaks the cluster in ways that loops have been broken in; the checks must notice each.
func TestMutationsAreCaught(t *testing.T) {
	const most = 100 // seeds until it must have been noticed
	for _, x := range []struct {
		name    string
		mutate  *mutation
		notices string
		from    uint64 // the first seed to try
	}{
		{"no fence", &mutation{onCreated: forgetRevision, lag: 60}, "pods where", 0},
		{"the last writer wins", &mutation{onUpdate: anyRevision("volume-binder")}, "both have volume", 57},
		{"binds without looking", &mutation{onCall: bindFirst}, "CPU", 7},
		{"kills by force", &mutation{onRemove: byForce("daemonset")}, "may still run", 11},
		{"unready endpoints", &mutation{onCreate: allReady, onUpdate: allReady}, "is called ready", 0},
		{"rolls too fast", &mutation{onUpdate: moreReplicas}, "with its surge", 0},
		{"rolls without a floor", &mutation{onUpdate: noneOfTheOld}, "may not have fewer", 36},
		{"counts twice", &mutation{onUpdate: oneMore}, "counts", 0},
		{"two sets for a template", &mutation{onCreate: anyName, onCreated: forgetRevision, onUpdate: unreported},
			"two sets for one template", 21},
		{"collects nothing", &mutation{onRemove: onlyTrying("garbage-collector")}, "outlived", 0},
		{"collects what lives", &mutation{onVictim: aLivingOne, onRemove: byName("garbage-collector")}, "is collected, and its owner", 0},
		{"orphans nobody", &mutation{onPatch: keepOwners}, "which it had to see to", 0},
		{"an autoscaler without bounds", &mutation{onUpdate: threeTimes}, "the autoscaler gives", 7},
		{"one device for all", &mutation{onUpdate: sameDevice}, "both have device", 3},
		{"binds without reserving", &mutation{onUpdate: unreserved}, "without its devices", 3},
		{"nodes forget claims", &mutation{onUpdate: forgetClaims}, "loses its claim", 3},
		{"evictions ask nobody", &mutation{byForce: true}, "does not know", 28},
		{"generous budgets", &mutation{onUpdate: generous}, "go with", 0},
		{"the urgent make room", &mutation{onVictim: anUrgentOne, onRemove: byName("scheduler")}, "and none is more urgent", 5},
		{"attaches everywhere", &mutation{onCreate: attachTwice}, "is to be attached to", 3},
		{"a cron job's clock runs backwards", &mutation{onUpdate: hourEarlier}, "was last due", 2},
		{"an index runs again", &mutation{onCreate: firstIndex}, "again as", 10},
		{"webhooks change nothing", &mutation{onReview: unpatched}, "past the webhook", 9},
		{"webhooks forbid nothing", &mutation{onReview: allowed}, "which the webhook forbids", 0},
		{"a policy without bounds", &mutation{onCreate: boundless}, "which the policy forbids", 1},
		{"namespaces for ever", &mutation{onUpdate: unfinalized}, "is still going", 5},
		{"sees what is to come", &mutation{onUpdate: foresees}, "says it observed", 0},
		{"never succeeds", &mutation{onCreate: faceless}, "still fails", 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			for i := range uint64(most) {
				seed := (x.from + i) % most
				out := runSeed(t, seed, true, x.mutate, nil)
				for i, err := range out.errs {
					if i > 0 && out.early {
						break // it did not end as it would have
					}
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
func unreported(c *faultyClient, _ resource.Kind, obj resource.Object) resource.Object {
	d, ok := obj.(*appsv1.Deployment)
	if !ok || c.who != "deployment" || !slices.ContainsFunc(d.Status.Conditions,
		func(c appsv1.DeploymentCondition) bool { return c.Reason == "NewReplicaSetCreated" }) {
		return obj
	}
	out := d.DeepCopy()
	out.ResourceVersion = "1"
	return out
}

// anyRevision has a loop overwrite what others wrote.
func anyRevision(who string) func(c *faultyClient, k resource.Kind, obj resource.Object) resource.Object {
	return func(c *faultyClient, _ resource.Kind, obj resource.Object) resource.Object {
		if c.who != who {
			return obj
		}
		out := resource.Clone(obj)
		out.SetResourceVersion("")
		return out
	}
}

func bindFirst(_ *faultyClient, in resource.Object) resource.Object {
	if b, ok := in.(*corev1.Binding); ok {
		out := b.DeepCopy()
		out.Target.Name = "node-1"
		return out
	}
	return in
}

func byForce(who string) func(c *faultyClient, k resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
	return func(c *faultyClient, _ resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
		if c.who != who {
			return opts
		}
		return &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	}
}

func onlyTrying(who string) func(c *faultyClient, k resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
	return func(c *faultyClient, _ resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
		if c.who != who {
			return opts
		}
		return &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	}
}

func allReady(c *faultyClient, _ resource.Kind, obj resource.Object) resource.Object {
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

func moreReplicas(c *faultyClient, _ resource.Kind, obj resource.Object) resource.Object {
	if rs, ok := obj.(*appsv1.ReplicaSet); ok && c.who == "deployment" && *rs.Spec.Replicas > 0 {
		out := rs.DeepCopy()
		*out.Spec.Replicas += 3
		return out
	}
	return obj
}

// noneOfTheOld scales every set that shrinks to nothing.
func noneOfTheOld(c *faultyClient, k resource.Kind, obj resource.Object) resource.Object {
	rs, ok := obj.(*appsv1.ReplicaSet)
	if !ok || c.who != "deployment" {
		return obj
	}
	cur := c.w.view.Snapshot().Lookup(k, rs.Namespace, rs.Name)
	if cur == nil || *cur.(*appsv1.ReplicaSet).Spec.Replicas <= *rs.Spec.Replicas {
		return obj
	}
	out := rs.DeepCopy()
	out.Spec.Replicas = new(int32)
	return out
}

func oneMore(c *faultyClient, _ resource.Kind, obj resource.Object) resource.Object {
	if j, ok := obj.(*batchv1.Job); ok && c.who == "job" && j.Status.Succeeded > 0 {
		out := j.DeepCopy()
		out.Status.Succeeded++
		return out
	}
	return obj
}

func anyName(c *faultyClient, _ resource.Kind, obj resource.Object) resource.Object {
	if rs, ok := obj.(*appsv1.ReplicaSet); ok && c.who == "deployment" {
		out := rs.DeepCopy()
		out.Name = fmt.Sprintf("%s-%d", rs.Name, c.w.steps.taken)
		return out
	}
	return obj
}

// byName drops who was meant, for a deletion that means another.
func byName(who string) func(c *faultyClient, k resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
	return func(c *faultyClient, _ resource.Kind, opts *metav1.DeleteOptions) *metav1.DeleteOptions {
		if c.who != who {
			return opts
		}
		out := opts.DeepCopy()
		out.Preconditions = nil
		return out
	}
}

func aLivingOne(c *faultyClient, k resource.Kind, ns, name string) string {
	if c.who != "garbage-collector" {
		return name
	}
	snap := c.w.view.Snapshot()
	for obj := range snap.Each(k, ns) {
		for _, ref := range obj.GetOwnerReferences() {
			if owner := found(c.w.set, snap, ns, &ref); obj.GetDeletionTimestamp() == nil && owner != nil && owner.GetDeletionTimestamp() == nil {
				return obj.GetName()
			}
		}
	}
	return name
}

func anUrgentOne(c *faultyClient, k resource.Kind, ns, name string) string {
	if c.who != "scheduler" || k != resource.Kind(kinds.Pods) {
		return name
	}
	for _, p := range resource.List(c.w.view.Snapshot(), kinds.Pods, ns) {
		if p.Spec.PriorityClassName == urgent && p.DeletionTimestamp == nil {
			return p.Name
		}
	}
	return name
}

func keepOwners(c *faultyClient, _ resource.Kind, p client.Patch) client.Patch {
	if c.who == "garbage-collector" && bytes.Contains(p.Data, []byte(`"ownerReferences"`)) {
		p.Data = []byte("{}")
	}
	return p
}

// updatesOf makes a mutation of the updates of one loop to one kind.
func updatesOf[T resource.Object](who string, f func(w *world, out T)) func(c *faultyClient, k resource.Kind,
	obj resource.Object) resource.Object {
	return func(c *faultyClient, _ resource.Kind, obj resource.Object) resource.Object {
		if x, ok := obj.(T); ok && c.who == who {
			out := resource.Clone(x)
			f(c.w, out)
			return out
		}
		return obj
	}
}

var (
	threeTimes = updatesOf("horizontal-pod-autoscaler", func(_ *world, s *autoscalingv1.Scale) { s.Spec.Replicas *= 3 })
	sameDevice = updatesOf("scheduler", func(_ *world, c *resourcev1.ResourceClaim) {
		if a := c.Status.Allocation; a != nil {
			a.Devices.Results[0].Device = "a"
		}
	})
	unreserved = updatesOf("scheduler", func(_ *world, c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil })
	// the server keeps what a status does not say
	forgetClaims = updatesOf("sim-pod", func(_ *world, p *corev1.Pod) {
		p.Status.ResourceClaimStatuses = slices.Clone(p.Status.ResourceClaimStatuses)
		for i := range p.Status.ResourceClaimStatuses {
			p.Status.ResourceClaimStatuses[i].ResourceClaimName = nil
		}
	})
	generous = updatesOf("disruption", func(_ *world, b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptionsAllowed = b.Status.CurrentHealthy + 1
	})
	hourEarlier = updatesOf("cronjob", func(w *world, c *batchv1.CronJob) {
		if at := c.Status.LastScheduleTime; at != nil && w.steps.rng.IntN(2) == 0 {
			*at = metav1.NewTime(at.Add(-time.Hour))
		}
	})
	firstIndex = updatesOf("job", func(_ *world, p *corev1.Pod) {
		if p.Annotations[batchv1.JobCompletionIndexAnnotation] != "" {
			p.Annotations[batchv1.JobCompletionIndexAnnotation] = "0"
		}
	})
	// A parameter that forbids nothing.
	boundless = updatesOf("user", func(_ *world, c *corev1.ConfigMap) {
		if c.Data[mostKey] != "" {
			c.Data[mostKey] = "1000"
		}
	})
	unfinalized = updatesOf("namespace", func(_ *world, n *corev1.Namespace) { n.Spec.Finalizers = []corev1.FinalizerName{"kubernetes"} })
	foresees    = updatesOf("deployment", func(_ *world, d *appsv1.Deployment) { d.Status.ObservedGeneration++ })
	faceless    = updatesOf("endpointslice", func(_ *world, e *discoveryv1.EndpointSlice) { e.AddressType = "" })
)

// atOnce is for writes within another's step.
func atOnce(ctx context.Context) context.Context { return context.WithValue(ctx, callerKey{}, nil) }

// attachTwice has a volume attached to another node as well.
func attachTwice(c *faultyClient, k resource.Kind, obj resource.Object) resource.Object {
	va, ok := obj.(*storagev1.VolumeAttachment)
	if !ok {
		return obj
	}
	out := va.DeepCopy()
	out.Name, out.Spec.NodeName = va.Name+"-too", "elsewhere"
	_, _ = c.w.admin().Create(atOnce(c.w.ctx), k, out)
	return obj
}

func unpatched(a *admissionv1.AdmissionResponse) { a.Patch, a.PatchType = nil, nil }
func allowed(a *admissionv1.AdmissionResponse)   { a.Allowed = true }
