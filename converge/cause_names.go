package converge

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/corefile"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// configMapHealth finds a gap in the ConfigMap by which people add to the cluster DNS, when kloop serves that and does not understand it.
func configMapHealth(w *World, m *corev1.ConfigMap) Health {
	if m.Namespace != corefile.Namespace || m.Name != corefile.Name {
		return Health{}
	}
	s := resource.Get(w.Read, kinds.Services, corefile.Namespace, "kube-dns")
	if s == nil || s.Labels["app.kubernetes.io/managed-by"] != "kloop" || len(s.Spec.Selector) > 0 {
		return Health{} // somebody else's CoreDNS reads it
	}
	_, faults := corefile.Parse(m.Data)
	if len(faults) == 0 {
		return Health{}
	}
	return Health{Says: "has " + count(len(faults), "fault") + " that the cluster DNS leaves out", Want: "data that kloop's DNS knows",
		Have: corefile.Summary(faults)}
}

// names are the ways in which names are not what people wrote.
func names() []Situation {
	return []Situation{{"CoreDNSCustomIgnored", []resource.Kind{kinds.ConfigMaps}, func(l *look) *Finding {
		m, ok := l.obj.(*corev1.ConfigMap)
		if !ok || m.Name != corefile.Name {
			return nil
		}
		_, faults := corefile.Parse(m.Data)
		return &Finding{Says: l.health.Says + ": " + corefile.Summary(faults), Owner: person, State: Blocked,
			Waits: on("Field", refTo(l.kind, m), "data"), Next: does(person, "corrects it; nodes follow at once"),
			Advice: []string{"see the part on coredns-custom in docs/network.md: hosts, forward and rewrite name are known",
				"for all that CoreDNS can do bring CoreDNS itself: kloop's Service kube-dns gives way to its manifest"}}
	}}}
}
