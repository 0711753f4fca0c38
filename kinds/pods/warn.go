package pods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// warnPod warns about new pods only: pods in being are rarely changed by people.
func warnPod(p, old *corev1.Pod) (list []string) {
	if old != nil {
		return nil
	}
	if says := rule.Label(p.Name); len(says) > 0 && p.Name != "" {
		list = append(list, "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "+
			"a DNS label is recommended: ["+strings.Join(says, " ")+"]")
	}
	return append(list, podspec.Warnings(&p.ObjectMeta, &p.Spec, nil)...)
}

func warnPodTemplate(t, old *corev1.PodTemplate) []string {
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.Template
	}
	return podspec.TemplateWarnings(&t.Template, was, field.NewPath("template"))
}

// warnController looks, after a change of the spec, at the template from before it, as upstream does.
func warnController(c, old *corev1.ReplicationController) []string {
	at := specPath.Child("template")
	switch {
	case old == nil:
		return template.Warnings(c.Name, c.Spec.Template, at)
	case resource.Same(c.Spec, old.Spec):
		return nil
	}
	return template.Warnings("", old.Spec.Template, at)
}

func warnNode(n, old *corev1.Node) (list []string) {
	if n.Spec.ConfigSource != nil && (old == nil || old.Spec.ConfigSource == nil) {
		list = append(list, "spec.configSource: the feature is no longer supported")
	}
	if n.Spec.DoNotUseExternalID != "" {
		list = append(list, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, r := range n.Spec.PodCIDRs {
		list = append(list, validation.GetWarningsForCIDR(specPath.Child("podCIDRs").Index(i), r)...)
	}
	return list
}

const classAnnotation = "metadata.annotations[" + corev1.BetaStorageClassAnnotation +
	`]: deprecated since v1.8; use "storageClassName" attribute instead`

func warnVolume(v, _ *corev1.PersistentVolume) (list []string) {
	if _, set := v.Annotations[corev1.BetaStorageClassAnnotation]; set {
		list = append(list, classAnnotation)
	}
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		list = append(list, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "+
			"Instead, the recommended approach is to use dynamic provisioning.")
	}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		list = append(list, podspec.NodeTermWarnings(a.Required.NodeSelectorTerms,
			specPath.Child("nodeAffinity", "required", "nodeSelectorTerms"))...)
	}
	return append(list, podspec.SourceWarnings(&v.Spec.PersistentVolumeSource, specPath)...)
}

func warnClaim(c, _ *corev1.PersistentVolumeClaim) (list []string) {
	if _, set := c.Annotations[corev1.BetaStorageClassAnnotation]; set {
		list = append(list, classAnnotation)
	}
	return append(list, podspec.ClaimWarnings(&c.Spec, specPath)...)
}
