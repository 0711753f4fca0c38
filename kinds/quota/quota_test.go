package quota

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kloop "github.com/kloop-dev/kloop/resource"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func pod(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c",
		Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}}}
}

func TestUsage(t *testing.T) {
	fast, no := "fast", false
	gone := pod(amounts("cpu", "1"), nil)
	gone.Status.Phase = corev1.PodSucceeded
	grace := int64(30)
	late := metav1.NewTime(now.Add(-time.Minute))
	stuck := pod(nil, nil)
	stuck.DeletionTimestamp, stuck.DeletionGracePeriodSeconds = &late, &grace
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &fast,
		Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", "2.5Gi")}}}
	once := claim.DeepCopy() // it asked for more once, and may have got it
	once.Status.AllocatedResources = amounts("storage", "9Gi")
	lb := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
		Ports: []corev1.ServicePort{{Port: 1}, {Port: 2, NodePort: 30000}}}}
	lean := lb.DeepCopy()
	lean.Spec.AllocateLoadBalancerNodePorts = &no
	for _, c := range []struct {
		name, gr string
		obj      kloop.Object
		want     string
	}{
		{"pod", "pods", pod(amounts("cpu", "1", "example.com/gpu", "2", "hugepages-2Mi", "4Mi"), amounts("memory", "1Gi")),
			"count/pods=1,cpu=1,hugepages-2Mi=4Mi,limits.memory=1Gi,pods=1,requests.cpu=1,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi"},
		{"finished pod", "pods", gone, "count/pods=1"},
		{"stuck pod", "pods", stuck, "count/pods=1"},
		{"config map", "configmaps", &corev1.ConfigMap{}, "configmaps=1,count/configmaps=1"},
		{"limit range", "limitranges", &corev1.LimitRange{}, "count/limitranges=1"},
		{"cluster ip", "services", &corev1.Service{}, "count/services=1,services=1,services.nodeports=0"},
		{"load balancer", "services", lb, "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"},
		{"lean load balancer", "services", lean, "count/services=1,services=1,services.loadbalancers=1,services.nodeports=1"},
		{"claim", "persistentvolumeclaims", claim,
			"count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1," +
				"fast.storageclass.storage.k8s.io/requests.storage=2560Mi,persistentvolumeclaims=1,requests.storage=2560Mi"},
		{"claim whose growth is taken back", "persistentvolumeclaims", once, "count/persistentvolumeclaims=1," +
			"fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/requests.storage=9Gi," +
			"persistentvolumeclaims=1,requests.storage=9Gi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			gr := schema.ParseGroupResource(c.gr)
			use := Usage(gr, c.obj, now)
			if got := Text(use); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for name := range use {
				if !Counts(gr, name) {
					t.Errorf("%s is counted but not relevant", name)
				}
			}
		})
	}
}

func TestScopes(t *testing.T) {
	ten := int64(10)
	plain, sized, short, urgent, far := pod(nil, nil), pod(amounts("cpu", "1"), nil), pod(nil, nil), pod(nil, nil), pod(nil, nil)
	short.Spec.ActiveDeadlineSeconds, urgent.Spec.PriorityClassName = &ten, "high"
	far.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: []string{"x"}}}}}}
	for _, c := range []struct {
		scope corev1.ResourceQuotaScope
		yes   []*corev1.Pod
		non   []*corev1.Pod
	}{
		{corev1.ResourceQuotaScopeBestEffort, []*corev1.Pod{plain}, []*corev1.Pod{sized}},
		{corev1.ResourceQuotaScopeNotBestEffort, []*corev1.Pod{sized}, []*corev1.Pod{plain}},
		{corev1.ResourceQuotaScopeTerminating, []*corev1.Pod{short}, []*corev1.Pod{plain}},
		{corev1.ResourceQuotaScopeNotTerminating, []*corev1.Pod{plain}, []*corev1.Pod{short}},
		{corev1.ResourceQuotaScopePriorityClass, []*corev1.Pod{urgent}, []*corev1.Pod{plain}},
		{corev1.ResourceQuotaScopeCrossNamespacePodAffinity, []*corev1.Pod{far}, []*corev1.Pod{plain}},
	} {
		t.Run(string(c.scope), func(t *testing.T) {
			q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", "1"),
				Scopes: []corev1.ResourceQuotaScope{c.scope}}}
			gr := schema.GroupResource{Resource: "pods"}
			for i, p := range append(append([]*corev1.Pod{}, c.yes...), c.non...) {
				if got := Applies(q, q.Spec.Hard, gr, p); got != (i < len(c.yes)) {
					t.Errorf("%s, pod %d: %v", c.scope, i, got)
				}
			}
		})
	}
	in := corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass,
		Operator: corev1.ScopeSelectorOpIn, Values: []string{"low"}}
	if InScope(in, urgent) {
		t.Error("a class that is not in the list")
	}
	in.Operator = corev1.ScopeSelectorOpNotIn
	if !InScope(in, urgent) {
		t.Error("NotIn does not match")
	}
	if inScopes(&corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}}, &corev1.ConfigMap{}) {
		t.Error("a scope of pods limits config maps")
	}
}

func TestUndeclared(t *testing.T) {
	names := []corev1.ResourceName{"cpu", "limits.memory", "pods", "ephemeral-storage"}
	if err := Undeclared(pod(amounts("cpu", "1"), amounts("memory", "1")), names); err != nil {
		t.Error(err)
	}
	whole := pod(nil, nil)
	whole.Spec.Resources = &corev1.ResourceRequirements{Limits: amounts("cpu", "3")}
	if err := Undeclared(whole, names); err != nil {
		t.Errorf("what the pod says as a whole is enough: %v", err)
	}
	err := Undeclared(pod(nil, nil), names)
	if err == nil || !strings.Contains(err.Error(), "must specify cpu for: c; limits.memory for: c") {
		t.Error(err)
	}
}
