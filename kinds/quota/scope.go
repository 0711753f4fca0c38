package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	kloop "github.com/kloop-dev/kloop/resource"
)

// inScopes tells whether the object is in every scope of the quota. A quota with scopes limits nothing but
// what the scopes are about.
func inScopes(spec *corev1.ResourceQuotaSpec, o kloop.Object) bool {
	for _, s := range spec.Scopes {
		if !InScope(corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists}, o) {
			return false
		}
	}
	if spec.ScopeSelector == nil {
		return true
	}
	for _, s := range spec.ScopeSelector.MatchExpressions {
		if !InScope(s, o) {
			return false
		}
	}
	return true
}

// InScope tells whether the object is in a scope.
func InScope(s corev1.ScopedResourceSelectorRequirement, o kloop.Object) bool {
	switch x := o.(type) {
	case *corev1.Pod:
		return podInScope(s, x)
	case *corev1.PersistentVolumeClaim:
		return s.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass && claimInScope(s, x)
	}
	return false
}

func podInScope(s corev1.ScopedResourceSelectorRequirement, p *corev1.Pod) bool {
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating(p)
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating(p)
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(&p.Spec)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(&p.Spec)
	case corev1.ResourceQuotaScopePriorityClass:
		return selects(s, p.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(p.Spec.Affinity)
	}
	return false
}

func terminating(p *corev1.Pod) bool {
	return p.Spec.ActiveDeadlineSeconds != nil && *p.Spec.ActiveDeadlineSeconds >= 0
}

// bestEffort tells whether a pod declares neither processor nor memory.
func bestEffort(spec *corev1.PodSpec) bool {
	declares := func(r corev1.ResourceRequirements) bool {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if q, ok := list[name]; ok && !q.IsZero() {
					return true
				}
			}
		}
		return false
	}
	if spec.Resources != nil && declares(*spec.Resources) {
		return false
	}
	for _, c := range slices.Concat(spec.Containers, spec.InitContainers) {
		if declares(c.Resources) {
			return false
		}
	}
	return true
}

// selects applies the operator to a name; "" means that the object has none.
func selects(s corev1.ScopedResourceSelectorRequirement, name string) bool {
	switch s.Operator {
	case corev1.ScopeSelectorOpExists:
		return name != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return name == ""
	case corev1.ScopeSelectorOpIn:
		return name != "" && slices.Contains(s.Values, name)
	case corev1.ScopeSelectorOpNotIn:
		return !slices.Contains(s.Values, name)
	}
	return false
}

func crossesNamespaces(a *corev1.Affinity) bool {
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, w := range preferred {
			terms = append(terms, w.PodAffinityTerm)
		}
	}
	if a == nil {
		return false
	}
	if x := a.PodAffinity; x != nil {
		add(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if x := a.PodAntiAffinity; x != nil {
		add(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

// claimInScope looks at the attributes class that a claim has, and at the one that it is changing to.
func claimInScope(s corev1.ScopedResourceSelectorRequirement, c *corev1.PersistentVolumeClaim) bool {
	names := []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName}
	if m := c.Status.ModifyVolumeStatus; m != nil {
		names = append(names, &m.TargetVolumeAttributesClassName)
	}
	any := false
	for _, n := range names {
		if n == nil || *n == "" {
			continue
		}
		any = true
		if selects(s, *n) {
			return true
		}
	}
	return !any && selects(s, "")
}
