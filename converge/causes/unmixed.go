package causes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
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

// noSuchAddress finds words by which nobody may give the address that a service asks for.
var noSuchAddress = pattern.New(`(?i)not allowed in config|not (?:in|part of) (?:any|the|a) .*(?:pool|range)|is not available|` +
	`already (?:in use|allocated)`)

// anyAddress advises to leave out the address that a service asks for, where that can't be had.
func anyAddress(f *converge.Finding, s *corev1.Service, why string) {
	if !noSuchAddress.MatchString(why) {
		return
	}
	f.State = converge.Blocked
	if s.Spec.LoadBalancerIP != "" {
		f.Says += "; spec.loadBalancerIP is " + s.Spec.LoadBalancerIP
		f.Advice = []string{"let it have any address: kubectl patch service " + s.Name + " -n " + s.Namespace +
			` --type=json -p '[{"op":"remove","path":"/spec/loadBalancerIP"}]'`}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		if strings.Contains(strings.ToLower(key), "loadbalancerip") {
			f.Says += "; the annotation " + key + " is " + words.OneLine(s.Annotations[key])
			f.Advice = []string{"let it have any address: kubectl annotate service " + s.Name + " -n " + s.Namespace + " " + key + "-"}
			return
		}
	}
}
