package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// replication makes a ReplicationController.
func (p *workload) replication(d *rand.Rand) {
	name, t := p.fresh("rc"), templateOf(d, "")
	t.Labels["app"] = name
	obj := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.ReplicationControllerSpec{
		Replicas: new(int32(1 + d.IntN(maxReplicas))), Selector: map[string]string{"app": name}, Template: &t}}
	p.model.controllers = append(p.model.controllers, name)
	p.add(d, "replication controller "+name, func(u *user) error { return u.make1(kinds.ReplicationControllers, obj) })
}

// resize changes the size of a ReplicationController, or the load on what is autoscaled.
func (p *workload) resize(d *rand.Rand) {
	n := int32(d.IntN(maxReplicas + 1))
	if app, ok := anyOf(d, p.model.scaled); ok && d.IntN(2) == 0 {
		p.add(d, fmt.Sprintf("load on %s: %d", app, n), func(u *user) error {
			return edit(u, kinds.HorizontalPodAutoscalers, ns, app,
				func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Annotations[loadKey] = fmt.Sprint(n) })
		})
		return
	}
	if name, ok := anyOf(d, p.model.controllers); ok {
		p.add(d, fmt.Sprintf("scale %s to %d", name, n), func(u *user) error {
			return edit(u, kinds.ReplicationControllers, ns, name, func(rc *corev1.ReplicationController) { rc.Spec.Replicas = &n })
		})
	}
}

// loadKey is the annotation of an autoscaler that says for how many pods its target has work. The pods share it.
const loadKey = "proof/load"

// workOfOne is the load of one pod, in thousandths of a CPU.
const workOfOne = 120

// autoscale lets the load decide on a deployment's size.
func (p *workload) autoscale(d *rand.Rand) {
	app, ok := anyOf(d, p.model.deployments)
	if !ok || slices.Contains(p.model.scaled, app) {
		return
	}
	p.model.scaled = append(p.model.scaled, app)
	obj := &autoscalingv2.HorizontalPodAutoscaler{}
	decode(obj, `{metadata: {name: %s, namespace: default, annotations: {%s: "%d"}}, spec: {minReplicas: %d, maxReplicas: %d,
		scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s},
		metrics: [{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: %dm}}}]}}`,
		app, loadKey, 1+d.IntN(maxReplicas), 1+d.IntN(2), 2+d.IntN(maxReplicas-1), app, workOfOne)
	p.add(d, "autoscale "+app, func(u *user) error { return u.make1(kinds.HorizontalPodAutoscalers, obj) })
}

// drain empties a node as far as budgets allow, and opens it again.
func (p *workload) drain(d *rand.Rand) {
	name, _ := anyOf(d, p.model.nodes)
	p.setCordon(d, name, true)
	tries := 0
	p.add(d, "drain "+name, func(u *user) error {
		left := 0
		for _, pod := range resource.Where(u.Read(), kinds.Pods, "spec.nodeName", name) {
			ref := metav1.GetControllerOfNoCopy(pod)
			if ref == nil || ref.Kind == "DaemonSet" || ref.Kind == "Job" || over(pod) {
				continue
			}
			left++
			if pod.DeletionTimestamp != nil {
				continue
			}
			if err := u.evict(pod.Namespace, pod.Name); err != nil && !apierrors.IsTooManyRequests(err) {
				return err
			}
		}
		if tries++; left > 0 && tries < patience/4 {
			return fmt.Errorf("%d pods are left", left)
		}
		return nil
	})
	p.setCordon(d, name, false)
}

// evict asks for a pod to go.
func (u *user) evict(namespace, name string) error {
	_, err := u.Call(u.ctx, kinds.Pods, namespace, name, "eviction",
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// crowd fills a node of its own with pods, of which some have to make room for more urgent ones.
func (p *workload) crowd(d *rand.Rand) {
	name := p.fresh("crowd")
	node := nodeOf(name, "z0")
	node.Spec.Taints = []corev1.Taint{{Key: "crowd", Value: name, Effect: corev1.TaintEffectNoSchedule}}
	node.Status.Capacity[corev1.ResourceCPU] = *milli(2000)
	node.Status.Allocatable = node.Status.Capacity
	of := func(app, class string, n int) *corev1.ReplicationController {
		rc := &corev1.ReplicationController{}
		decode(rc,
			`{metadata: {name: %s, namespace: default}, spec: {replicas: %d, selector: {app: %s}, template: {metadata: {labels: {app: %s}}, spec: {
			priorityClassName: "%s", nodeSelector: {kubernetes.io/hostname: %s},
			  tolerations: [{key: crowd, operator: Exists}], terminationGracePeriodSeconds: 2,
			containers: [{name: c, image: "image:0", resources: {requests: {cpu: 500m}}}]}}}}`, app, n, app, app, class, name)
		return rc
	}
	low, high := of(name+"-low", "", 4), of(name+"-high", urgent, 1+d.IntN(3))
	p.add(d, "add "+name, func(u *user) error { return u.make1(kinds.Nodes, node) })
	p.add(d, "fill "+name, func(u *user) error { return u.make1(kinds.ReplicationControllers, low) })
	p.add(d, "push into "+name, func(u *user) error { return u.make1(kinds.ReplicationControllers, high) })
}

// tight is a namespace in which racing creators ask for more pods than its quota has. At last they get what they ask for.
func (p *workload) tight(d *rand.Rand) {
	name := p.fresh("tight")
	quota := quotaOf(name)
	quota.Spec.Hard[corev1.ResourcePods] = *count(int64(3 + d.IntN(3)))
	quota.Spec.Hard[corev1.ResourceRequestsCPU] = *milli(int64(400 + d.IntN(2000)))
	dep, set, job := deploymentOf(d, name, "w"), statefulSetOf(d, name, "s"), jobOf(d, name, "j")
	set.Spec.VolumeClaimTemplates = nil
	p.add(d, "namespace "+name, func(u *user) error {
		return u.make1(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
	p.add(nil, "quota of "+name, func(u *user) error { return u.make1(kinds.ResourceQuotas, quota) })
	p.add(d, "fill "+name, func(u *user) error {
		return u.makeAll([]made{{kinds.Deployments, dep}, {kinds.StatefulSets, set}, {kinds.Jobs, job}})
	})
	p.model.quotas = append(p.model.quotas, name)
}

// enough raises the quotas of tight namespaces.
func (p *workload) enough() {
	for _, name := range p.model.quotas {
		p.steps = append(p.steps, action{"enough for " + name, 20 * time.Second, func(u *user) error {
			return edit(u, kinds.ResourceQuotas, name, "quota", func(q *corev1.ResourceQuota) { q.Spec.Hard = quotaOf(name).Spec.Hard })
		}})
	}
}

// devices makes two nodes with devices, and a workload that wants some.
func (p *workload) devices(d *rand.Rand) {
	if p.model.devices {
		return
	}
	p.model.devices = true
	class := decode(&resourcev1.DeviceClass{},
		`{metadata: {name: gpu}, spec: {extendedResourceName: proof.dev/gpu, selectors: [{cel: {expression: 'device.driver == "proof.dev"'}}]}}`)
	p.add(d, "devices", func(u *user) error { return u.make1(kinds.DeviceClasses, class) })
	for i := range 2 {
		name := p.fresh("gpu-")
		p.add(nil, "add "+name, func(u *user) error {
			slice := decode(&resourcev1.ResourceSlice{},
				`{metadata: {name: %s}, spec: {driver: proof.dev, nodeName: %s, pool: {name: %s, resourceSliceCount: 1},
				devices: [{name: a}, {name: b}, {name: c}, {name: d}]}}`, name, name, name)
			return u.makeAll([]made{{kinds.Nodes, nodeOf(name, fmt.Sprint("z", i))}, {kinds.ResourceSlices, slice}})
		})
	}
	template := decode(&resourcev1.ResourceClaimTemplate{},
		`{metadata: {name: gpu, namespace: default}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}}`)
	claim := []corev1.PodResourceClaim{{Name: "d", ResourceClaimTemplateName: new("gpu")}}
	p.add(nil, "claims", func(u *user) error { return u.make1(kinds.ResourceClaimTemplates, template) })
	name := p.fresh("web")
	dep := deploymentOf(d, ns, name)
	dep.Spec.Template.Spec.ResourceClaims = claim
	p.model.deployments = append(p.model.deployments, name)
	p.add(d, "deploy "+name+" with devices", func(u *user) error { return u.make1(kinds.Deployments, dep) })
	if d.IntN(2) == 0 {
		job := jobOf(d, ns, p.fresh("job"))
		job.Spec.Template.Spec.ResourceClaims = claim
		p.add(d, "job "+job.Name+" with devices", func(u *user) error { return u.make1(kinds.Jobs, job) })
	}
	rc := decode(&corev1.ReplicationController{},
		`{metadata: {name: plain, namespace: default}, spec: {replicas: 2, selector: {app: plain}, template: {metadata: {labels: {app: plain}},
		spec: {containers: [{name: c, image: "image:0", resources: {requests: {cpu: 100m}, limits: {proof.dev/gpu: 1}}}]}}}}`)
	p.add(nil, "devices as a resource", func(u *user) error { return u.make1(kinds.ReplicationControllers, rc) })
}
