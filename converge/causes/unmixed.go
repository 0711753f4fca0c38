package causes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
)

// unmixed advises to have the ports of each protocol in a service of their own, where who gives addresses takes but one.
func unmixed(f *converge.Finding, s *corev1.Service, why string) {
	at := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Protocol != s.Spec.Ports[0].Protocol })
	if !strings.Contains(strings.ToLower(why), "mixed protocol") || at < 0 {
		return
	}
	p := &s.Spec.Ports[at]
	word := strings.ToLower(string(p.Protocol))
	f.State = converge.Blocked
	f.Advice = []string{fmt.Sprintf("leave port %d/%s out here: kubectl patch service %s -n %s --type=json -p "+
		`'[{"op":"remove","path":"/spec/ports/%d"}]'`, p.Port, p.Protocol, s.Name, s.Namespace, at),
		fmt.Sprintf("and have a service of its own for it: kubectl expose service %s -n %s --name=%s-%s --port=%d --target-port=%s "+
			"--protocol=%s --type=LoadBalancer", s.Name, s.Namespace, s.Name, word, p.Port, p.TargetPort.String(), p.Protocol)}
}
