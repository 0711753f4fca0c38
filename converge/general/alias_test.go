package general

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAliasOf: a name of another cluster's service says nothing of this one's.
func TestAliasOf(t *testing.T) {
	for name, own := range map[string]bool{"db.prod.svc.cluster.local": true, "db.prod.svc.cluster.local.": true, "db.prod.svc": true,
		"db.prod.svc.clusterset.local": false, "db.prod.svc.east.example.com": false, "x.db.prod.svc.cluster.local": false,
		"db.svc": false, "example.com": false} {
		t.Run(name, func(t *testing.T) {
			r, ok := AliasOf(&corev1.Service{Spec: corev1.ServiceSpec{ExternalName: name}})
			if ok != own || ok && (r.NS != "prod" || r.Name != "db") {
				t.Errorf("%s is %s/%s of this cluster: %t", name, r.NS, r.Name, ok)
			}
		})
	}
}
