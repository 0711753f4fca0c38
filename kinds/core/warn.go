package core

import (
	"crypto/tls"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

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
