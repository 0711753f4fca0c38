package causes

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/corefile"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// names are the ways in which names are not what people wrote.
func names() []converge.Situation {
	return []converge.Situation{{Name: "CoreDNSCustomIgnored", Of: []resource.Kind{kinds.ConfigMaps},
		See: func(l *converge.Look) *converge.Finding {
			m, ok := l.Obj.(*corev1.ConfigMap)
			if !ok || m.Name != corefile.Name {
				return nil
			}
			_, faults := corefile.Parse(m.Data)
			return &converge.Finding{Says: l.Judged.Says + ": " + corefile.Summary(faults), Owner: converge.Person, State: converge.Blocked,
				Waits: l.Field("data"), Next: converge.PersonDoes("corrects it; nodes follow at once"),
				Advice: []string{"see the part on coredns-custom in docs/network.md: hosts, forward and rewrite name are known",
					"for all that CoreDNS can do bring CoreDNS itself: kloop's Service kube-dns gives way to its manifest"}}
		}}}
}
