package core

import (
	"crypto/tls"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
)

// warnPod warns about new pods only: pods in being are rarely changed by people.
func warnPod(p, old *v1.Pod) (list []string) {
	if old != nil {
		return nil
	}
	if says := rule.Label(p.Name); len(says) > 0 && p.Name != "" {
		list = append(list, "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "+
			"a DNS label is recommended: ["+strings.Join(says, " ")+"]")
	}
	return append(list, podspec.Warnings(&p.ObjectMeta, &p.Spec, nil)...)
}

func warnPodTemplate(t, old *v1.PodTemplate) []string {
	var was *v1.PodTemplateSpec
	if old != nil {
		was = &old.Template
	}
	return podspec.TemplateWarnings(&t.Template, was, field.NewPath("template"))
}

func warnController(c, old *v1.ReplicationController) []string {
	var was *v1.PodTemplateSpec
	if old != nil {
		was = old.Spec.Template
	}
	return template.Warnings(c.Name, c.Spec.Template, was, specPath.Child("template"))
}

func warnNode(n, old *v1.Node) (list []string) {
	if n.Spec.ConfigSource != nil && (old == nil || old.Spec.ConfigSource == nil) {
		list = append(list, "spec.configSource: the feature is no longer supported")
	}
	if n.Spec.DoNotUseExternalID != "" {
		list = append(list, "spec.externalID: this field is deprecated, and is unused")
	}
	return list
}

func warnService(s, old *v1.Service) (list []string) {
	if len(s.Spec.ExternalIPs) > 0 && (old == nil || !slices.Equal(s.Spec.ExternalIPs, old.Spec.ExternalIPs)) {
		list = append(list, "spec.externalIPs: this field is deprecated since v1.36 and will be ignored in a future Kubernetes release")
	}
	if s.Spec.Type == v1.ServiceTypeExternalName && len(s.Spec.ExternalIPs) > 0 {
		list = append(list, `spec.externalIPs is ignored when spec.type is "ExternalName"`)
	}
	if headless(&s.Spec) && s.Spec.SessionAffinity == v1.ServiceAffinityClientIP {
		list = append(list, "spec.SessionAffinity is ignored for headless services")
	}
	return list
}

// warnSecret warns of keys that do not belong together.
func warnSecret(s, _ *v1.Secret) []string {
	cert, key := s.Data[v1.TLSCertKey], s.Data[v1.TLSPrivateKeyKey]
	if s.Type != v1.SecretTypeTLS || len(cert) == 0 || len(key) == 0 {
		return nil
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return []string{err.Error()}
	}
	return nil
}

const mountableSecrets = "kubernetes.io/enforce-mountable-secrets"

func warnServiceAccount(s, old *v1.ServiceAccount) []string {
	if _, set := s.Annotations[mountableSecrets]; !set {
		return nil
	}
	if old != nil {
		if _, had := old.Annotations[mountableSecrets]; had {
			return nil
		}
	}
	return []string{"metadata.annotations[" + mountableSecrets + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}

const classAnnotation = "metadata.annotations[" + v1.BetaStorageClassAnnotation + `]: deprecated since v1.8; use "storageClassName" attribute instead`

func warnVolume(v, _ *v1.PersistentVolume) (list []string) {
	if _, set := v.Annotations[v1.BetaStorageClassAnnotation]; set {
		list = append(list, classAnnotation)
	}
	if v.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle {
		list = append(list, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "+
			"Instead, the recommended approach is to use dynamic provisioning.")
	}
	return list
}

func warnClaim(c, _ *v1.PersistentVolumeClaim) (list []string) {
	if _, set := c.Annotations[v1.BetaStorageClassAnnotation]; set {
		list = append(list, classAnnotation)
	}
	return append(list, podspec.ClaimWarnings(&c.Spec, specPath)...)
}
