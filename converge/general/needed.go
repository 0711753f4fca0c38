package general

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// hosts finds what can be the name or address of a service.
var hosts = pattern.New(`[a-z0-9][a-z0-9.-]*[a-z0-9]`)

// Needed are the services that a text names and that lead nowhere: those of the pod itself are none. Names of one word are of its
// namespace; without a pod they mean nothing. Of one behind which nothing runs, on purpose, the finding tells.
func Needed(l *converge.Look, f *converge.Finding, p *corev1.Pod, text string) (bad []converge.Ref) {
	for _, host := range hosts.FindAllString(text, 200) {
		name, ns, far := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(host, ".cluster.local"), ".svc"), ".")
		if !far && p != nil {
			ns = p.Namespace
		}
		s := resource.Get(l.Read, core.Services, ns, name)
		if strings.Trim(host, "0123456789.") == "" && far {
			s = byAddress(l, host)
		}
		if s == nil || len(s.Spec.Selector) == 0 || p != nil && ns == p.Namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(
			labels.Set(p.Labels)) {
			continue
		}
		if l.Health(core.Services, s).Converged() {
			if says, advice := Asleep(l.World, s); says != "" && p != nil && !strings.Contains(f.Says, says) {
				f.Says, f.Advice = f.Says+"; it "+says, append([]string{advice}, f.Advice...)
			}
			continue
		}
		if r := converge.RefTo(core.Services, s); !slices.Contains(bad, r) {
			bad = append(bad, r)
		}
	}
	return bad
}

// byAddress is the service of an address.
func byAddress(l *converge.Look, address string) *corev1.Service {
	for _, s := range resource.List(l.Read, core.Services, "") {
		if s.Spec.ClusterIP == address {
			return s
		}
	}
	return nil
}
