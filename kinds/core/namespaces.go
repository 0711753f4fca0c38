package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// Namespaces declares the kind. Deletion waits for spec.finalizers, which only the finalize subresource empties.
var Namespaces = &resource.Def[*corev1.Namespace]{
	GVK: gvk("Namespace"), Plural: "namespaces", Short: []string{"ns"}, Status: true,
	Quirks: resource.Quirks{KeptUnread: true, MetaNewFirst: true},
	Verbs:  []string{"create", "delete", "get", "list", "patch", "update", "watch"},
	Name:   rule.LabelName, Default: defaultNamespace, Prepare: resource.Serving(prepareNamespace),
	Validate: resource.Serving(validateNamespace), ValidateStatus: resource.Serving(validateNamespaceStatus),
	Parts: []resource.Part[*corev1.Namespace]{{Name: "finalize", Verbs: []string{"update"},
		Resets: []string{"status"}, Take: resource.Serving(takeFinalize),
		Validate: resource.Serving(validateFinalize)}},
	Select: []resource.Field[*corev1.Namespace]{
		{Label: "status.phase", Value: func(n *corev1.Namespace) string { return string(n.Status.Phase) }},
	},
	Columns: []resource.Column[*corev1.Namespace]{
		resource.Col("Status", "string", func(n *corev1.Namespace) any { return string(n.Status.Phase) }),
		resource.Age[*corev1.Namespace](),
	},
}

// defaultNamespace labels a namespace with its name: selectors by name rely on it.
func defaultNamespace(n *corev1.Namespace) {
	rule.FillZero(&n.Status.Phase, corev1.NamespaceActive)
	if n.Name == "" || n.Labels[corev1.LabelMetadataName] == n.Name {
		return
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

// prepareNamespace gives each namespace the finalizer that the namespace loop takes off when all is gone from it. After that only
// /finalize changes spec.finalizers.
func prepareNamespace(n, old *corev1.Namespace) {
	if old != nil {
		n.Spec.Finalizers = old.Spec.Finalizers
		return
	}
	n.Status.Phase = corev1.NamespaceActive
	if !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
		n.Spec.Finalizers = append(n.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
	defaultNamespace(n)
}

func takeFinalize(n, old *corev1.Namespace) { n.Status = old.Status }
