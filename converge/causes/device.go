package causes

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// deviceTemplateMissing: the claim of a device is to be made from a template that is not there.
func deviceTemplateMissing(l *converge.Look, p *corev1.Pod, _ string) *converge.Finding {
	if !l.Sees(kinds.ResourceClaimTemplates, p.Namespace) {
		return nil
	}
	for _, c := range p.Spec.ResourceClaims {
		name := ptr.Deref(c.ResourceClaimTemplateName, "")
		if name == "" || resource.Get(l.Read, kinds.ResourceClaimTemplates, p.Namespace, name) != nil {
			continue
		}
		return &converge.Finding{Says: "names the resource claim template " + name + ", which does not exist", Owner: converge.Person,
			State:  converge.Blocked,
			Waits:  converge.On("Object", general.Namespaced(l, kinds.ResourceClaimTemplates, name), ""),
			Next:   converge.PersonDoes("creates resourceclaimtemplate/%s, or names another one", name),
			Advice: []string{"those that exist: kubectl get resourceclaimtemplates -n " + p.Namespace}}
	}
	return nil
}

// deviceClaimMissing: the claim of a device is not there. Upstream's scheduler does not try such a pod, and says nothing of it.
func deviceClaimMissing(l *converge.Look, p *corev1.Pod, _ string) *converge.Finding {
	for _, c := range p.Spec.ResourceClaims {
		name := ptr.Deref(c.ResourceClaimName, "")
		if name == "" || !l.Sees(kinds.ResourceClaims, p.Namespace) || resource.Get(l.Read, kinds.ResourceClaims, p.Namespace,
			name) != nil {
			continue
		}
		return &converge.Finding{Says: "uses the resource claim " + name + ", which does not exist", State: converge.Blocked,
			Waits:  converge.On("Object", general.Namespaced(l, kinds.ResourceClaims, name), ""),
			Next:   converge.Does("scheduler", "tries again when the claim exists"),
			Advice: []string{"create it, or name one that exists: kubectl get resourceclaims -n " + p.Namespace}}
	}
	return nil
}

var noDeviceClass = pattern.New(`device class (\S+) does not exist`)

// deviceClassMissing goes by the scheduler's message: a claim keeps its class by name, and nothing refuses a name that nobody has.
func deviceClassMissing(_ *converge.Look, _ *corev1.Pod, text string) *converge.Finding {
	m := noDeviceClass.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return &converge.Finding{Says: "asks for a device of the class " + m[1] + ", which does not exist", State: converge.Blocked,
		Waits:  converge.On("Object", converge.Ref{Kind: kinds.DeviceClasses, NS: "", Name: m[1]}, ""),
		Next:   converge.Does("scheduler", "tries again when the class exists"),
		Advice: []string{"install the driver that brings the class, or name another one: kubectl get deviceclasses"}}
}
