package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

var quarter = apiresource.MustParse("250m")

// large is a fork of n real nodes with ten pods each, of Deployments of a hundred, as an API shows them.
func large(b *testing.B, n int) *Fork {
	b.Helper()
	one := grown(b, 1, web)
	var node *corev1.Node
	var pod *corev1.Pod
	f := &Fork{At: one.At, Version: one.Version, Server: one.Server}
	keep := map[resource.Kind]bool{kinds.Nodes: true, kinds.Pods: true, kinds.ReplicaSets: true, kinds.Deployments: true,
		kinds.PodDisruptionBudgets: true,
		kinds.Services:             true, kinds.EndpointSlices: true}
	var rs *appsv1.ReplicaSet
	var dep *appsv1.Deployment
	for _, it := range one.objects {
		switch o := it.obj.(type) {
		case *corev1.Node:
			node = o
		case *corev1.Pod:
			pod = o
		case *appsv1.ReplicaSet:
			rs = o
		case *appsv1.Deployment:
			dep = o
		}
		if !keep[it.kind] {
			f.objects = append(f.objects, it)
		}
	}
	const each = 100
	for i := range n {
		x := node.DeepCopy()
		x.Name, x.UID = fmt.Sprint("node-", i), types.UID(fmt.Sprint("node-", i))
		delete(x.Annotations, "kwok.x-k8s.io/node")
		x.Labels[corev1.LabelHostname] = x.Name
		f.objects = append(f.objects, item{kinds.Nodes, x})
	}
	for i := range n * 10 / each {
		app := fmt.Sprint("app-", i)
		d, r := dep.DeepCopy(), rs.DeepCopy()
		label := map[string]string{"app": app, "pod-template-hash": rs.Labels["pod-template-hash"]}
		d.Name, d.UID, d.Spec.Replicas = app, types.UID("d"+app), new(int32(each))
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
		d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.UpdatedReplicas = each, each, each, each
		r.Name, r.UID, r.Spec.Replicas, r.Labels = strings.Replace(rs.Name, "web", app, 1), types.UID("r"+app), new(int32(each)), label
		r.OwnerReferences[0].Name, r.OwnerReferences[0].UID = d.Name, d.UID
		r.Spec.Selector, r.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: label}, label
		r.Status.Replicas, r.Status.ReadyReplicas, r.Status.AvailableReplicas, r.Status.FullyLabeledReplicas = each, each, each, each
		f.objects = append(f.objects, item{kinds.Deployments, d}, item{kinds.ReplicaSets, r})
		for j := range each {
			p := pod.DeepCopy()
			p.Name, p.UID, p.Labels = fmt.Sprintf("%s-%d", r.Name, j), types.UID(fmt.Sprintf("%s-%d", r.Name, j)), label
			p.Spec.NodeName = fmt.Sprint("node-", (i*each+j)%n)
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = quarter
			p.Status.PodIP = fmt.Sprintf("10.200.%d.%d", (i*each+j)/250, (i*each+j)%250+1)
			p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = r.Name, r.UID
			p.Annotations = nil
			f.objects = append(f.objects, item{kinds.Pods, p})
		}
	}
	return f
}

// A drain in a cluster of 1,000 nodes and 10,000 pods, from what was read to the report.
func BenchmarkDrain(b *testing.B) {
	f := large(b, 1000)
	for b.Loop() {
		fresh := &Fork{At: f.At, Version: f.Version, Server: f.Server, objects: f.objects}
		begun := time.Now()
		r := run(b, fresh, Drain("node-7"))
		b.Logf("%s in %s: %d evictions, %d pods; anyway: %d", r.Verdict, time.Since(begun), len(r.Evictions), r.Cluster.Pods, len(r.Anyway))
		if len(r.Anyway) > 0 {
			for _, e := range append(r.Anyway[:2], r.Anyway[len(r.Anyway)-2:]...) {
				b.Log(e.Verb, effectText(e))
			}
		}
	}
}
