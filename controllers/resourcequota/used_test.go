package resourcequota

import (
	"iter"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A status has no use of what no kind of the server uses.
func TestUsedOfNoKind(t *testing.T) {
	five := apiresource.MustParse("5")
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for _, name := range []corev1.ResourceName{"pods", "limits.memory", "count/deployments.apps", "configmaps",
		"requests.storage", "gold.storageclass.storage.k8s.io/requests.storage", "requests.nvidia.com/gpu",
		"count/nope.example.com", "services.nodeports"} {
		q.Spec.Hard[name] = five
	}
	all := []resource.Kind{kinds.Pods, kinds.Deployments, kinds.ConfigMaps, kinds.PersistentVolumeClaims, kinds.Services}
	got := used(nothing{}, all, q, time.Unix(1, 0))
	for name := range q.Spec.Hard {
		if _, counted := got[name]; counted != (name != "count/nope.example.com") {
			t.Errorf("%s: counted %v", name, counted)
		}
	}
}

// nothing is a state without objects.
type nothing struct{ resource.Reader }

func (nothing) Each(resource.Kind, string) iter.Seq[resource.Object] {
	return func(func(resource.Object) bool) {}
}
