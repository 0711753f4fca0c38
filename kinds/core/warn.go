package core

import (
	"crypto/tls"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

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

// warnEndpoints warns of addresses that other programs may read in another way.
func warnEndpoints(e, _ *corev1.Endpoints) (list []string) {
	for i, s := range e.Subsets {
		add := func(name string, addresses []corev1.EndpointAddress) {
			for k, a := range addresses {
				list = append(list, validation.GetWarningsForIP(field.NewPath("subsets").Index(i).Child(name).Index(k).Child("ip"), a.IP)...)
			}
		}
		add("addresses", s.Addresses)
		add("notReadyAddresses", s.NotReadyAddresses)
	}
	return list
}

func warnService(s, _ *corev1.Service) (list []string) {
	spec, none := &s.Spec, s.Spec.Type == corev1.ServiceTypeClusterIP && headless(&s.Spec)
	say := func(when bool, text string) {
		if when {
			list = append(list, text)
		}
	}
	_, hints := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	say(hints, "annotation "+corev1.DeprecatedAnnotationTopologyAwareHints+" is deprecated, please use "+
		corev1.AnnotationTopologyMode+" instead")
	if spec.Type != corev1.ServiceTypeExternalName && !headless(spec) {
		list = append(list, addressWarnings(spec.ClusterIPs, "clusterIPs")...)
	}
	say(none && spec.LoadBalancerIP != "", "spec.loadBalancerIP is ignored for headless services")
	say(none && len(spec.ExternalIPs) > 0, "spec.externalIPs is ignored for headless services")
	say(none && spec.SessionAffinity != corev1.ServiceAffinityNone, "spec.SessionAffinity is ignored for headless services")
	list = append(list, addressWarnings(spec.ExternalIPs, "externalIPs")...)
	external := spec.Type == corev1.ServiceTypeExternalName
	say(len(spec.ExternalIPs) > 0 && !none && !external, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	if netutils.ParseIPSloppy(spec.LoadBalancerIP) != nil { // nobody checks it, and the library grumbles
		list = append(list, validation.GetWarningsForIP(specPath.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, r := range spec.LoadBalancerSourceRanges {
		list = append(list, validation.GetWarningsForCIDR(specPath.Child("loadBalancerSourceRanges").Index(i), r)...)
	}
	say(external && len(spec.ExternalIPs) > 0, `spec.externalIPs is ignored when spec.type is "ExternalName"`)
	say(!external && spec.ExternalName != "", `spec.externalName is ignored when spec.type is not "ExternalName"`)
	nearby := spec.TrafficDistribution != nil && *spec.TrafficDistribution == corev1.ServiceTrafficDistributionPreferClose
	say(nearby, `spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"`)
	return list
}

// addressWarnings warns of addresses that other programs may read in another way.
func addressWarnings(ips []string, name string) (list []string) {
	for i, ip := range ips {
		list = append(list, validation.GetWarningsForIP(specPath.Child(name).Index(i), ip)...)
	}
	return list
}

// warnSecret warns of keys that do not belong together.
func warnSecret(s, _ *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

const mountableSecrets = "kubernetes.io/enforce-mountable-secrets"

func warnServiceAccount(s, old *corev1.ServiceAccount) []string {
	if _, set := s.Annotations[mountableSecrets]; !set {
		return nil
	}
	if old != nil {
		if _, had := old.Annotations[mountableSecrets]; had {
			return nil
		}
	}
	return []string{"metadata.annotations[" + mountableSecrets +
		"]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
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
