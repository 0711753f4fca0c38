package node

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// anyPod tells whether one of the pods on the node satisfies f. Mirror pods do not count: the agent writes
// them itself. ns limits the search; "" means all namespaces.
func anyPod(read resource.Reader, node, ns string, f func(p *corev1.Pod) bool) bool {
	for o := range read.ByField(core.Pods, "spec.nodeName", node) {
		p := o.(*corev1.Pod)
		if ns != "" && p.Namespace != ns {
			continue
		}
		if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; !mirror && f(p) {
			return true
		}
	}
	return false
}

func accountUsed(read resource.Reader, node, ns, name string) bool {
	return anyPod(read, node, ns, func(p *corev1.Pod) bool { return p.Spec.ServiceAccountName == name })
}

func configMapUsed(read resource.Reader, node, ns, name string) bool {
	return anyPod(read, node, ns, func(p *corev1.Pod) bool { return usesConfigMap(&p.Spec, name) })
}

func claimUsed(read resource.Reader, node, ns, name string) bool {
	return anyPod(read, node, ns, func(p *corev1.Pod) bool { return slices.Contains(core.ClaimNames(p), name) })
}

// volumeUsed asks whether the claim that a volume belongs to is used on the node.
func volumeUsed(read resource.Reader, node, _, name string) bool {
	pv := resource.Get(read, core.PersistentVolumes, "", name)
	return pv != nil && pv.Spec.ClaimRef != nil && claimUsed(read, node, pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name)
}

func deviceClaimUsed(read resource.Reader, node, ns, name string) bool {
	return anyPod(read, node, ns, func(p *corev1.Pod) bool {
		for _, c := range p.Spec.ResourceClaims {
			if c.ResourceClaimName != nil && *c.ResourceClaimName == name {
				return true
			}
		}
		for _, s := range p.Status.ResourceClaimStatuses {
			if s.ResourceClaimName != nil && *s.ResourceClaimName == name {
				return true
			}
		}
		e := p.Status.ExtendedResourceClaimStatus
		return e != nil && e.ResourceClaimName == name
	})
}

// secretUsed looks at the pods themselves, then at the volumes behind their claims, whose secrets may be in
// other namespaces.
//
// Unlike Kubernetes, routers to which the node speaks count too: a Secret may have the password.
func secretUsed(read resource.Reader, node, ns, name string) bool {
	if ns == wellknown.AnnounceSpace && passwordUsed(read, node, name) {
		return true
	}
	if anyPod(read, node, ns, func(p *corev1.Pod) bool { return usesSecret(&p.Spec, name) }) {
		return true
	}
	return anyPod(read, node, "", func(p *corev1.Pod) bool {
		for _, claim := range core.ClaimNames(p) {
			c := resource.Get(read, core.PersistentVolumeClaims, p.Namespace, claim)
			if c == nil || c.Spec.VolumeName == "" {
				continue
			}
			pv := resource.Get(read, core.PersistentVolumes, "", c.Spec.VolumeName)
			if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace != p.Namespace || pv.Spec.ClaimRef.Name != claim {
				continue // anybody may name a volume, but it is the volume that says whose it is
			}
			if slices.Contains(volumeSecrets(pv, p.Namespace), corev1.SecretReference{Namespace: ns, Name: name}) {
				return true
			}
		}
		return false
	})
}

// containers yields the environments of all containers.
func containers(spec *corev1.PodSpec, f func(env []corev1.EnvVar, from []corev1.EnvFromSource) bool) bool {
	for i := range spec.InitContainers {
		if f(spec.InitContainers[i].Env, spec.InitContainers[i].EnvFrom) {
			return true
		}
	}
	for i := range spec.Containers {
		if f(spec.Containers[i].Env, spec.Containers[i].EnvFrom) {
			return true
		}
	}
	for i := range spec.EphemeralContainers {
		if f(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom) {
			return true
		}
	}
	return false
}

func usesConfigMap(spec *corev1.PodSpec, name string) bool {
	for _, v := range spec.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name == name {
			return true
		}
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ConfigMap != nil && s.ConfigMap.Name == name
		}) {
			return true
		}
	}
	return containers(spec, func(env []corev1.EnvVar, from []corev1.EnvFromSource) bool {
		return slices.ContainsFunc(env, func(e corev1.EnvVar) bool {
			return e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil && e.ValueFrom.ConfigMapKeyRef.Name == name
		}) || slices.ContainsFunc(from, func(s corev1.EnvFromSource) bool { return s.ConfigMapRef != nil && s.ConfigMapRef.Name == name })
	})
}

func usesSecret(spec *corev1.PodSpec, name string) bool {
	for _, s := range spec.ImagePullSecrets {
		if s.Name == name {
			return true
		}
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i].VolumeSource
		if v.Secret != nil && v.Secret.SecretName == name || v.Secret == nil && slices.Contains(secretsIn(v), name) {
			return true
		}
	}
	return containers(spec, func(env []corev1.EnvVar, from []corev1.EnvFromSource) bool {
		return slices.ContainsFunc(env, func(e corev1.EnvVar) bool {
			return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name == name
		}) || slices.ContainsFunc(from, func(s corev1.EnvFromSource) bool { return s.SecretRef != nil && s.SecretRef.Name == name })
	})
}

// secretsIn lists the secrets that a volume of a pod needs, unless it is a secret itself.
func secretsIn(v *corev1.VolumeSource) (names []string) {
	local := func(r *corev1.LocalObjectReference) {
		if r != nil {
			names = append(names, r.Name)
		}
	}
	switch {
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				names = append(names, s.Secret.Name)
			}
		}
	case v.CSI != nil:
		local(v.CSI.NodePublishSecretRef)
	case v.AzureFile != nil:
		names = append(names, v.AzureFile.SecretName)
	case v.CephFS != nil:
		local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		local(v.FlexVolume.SecretRef)
	case v.RBD != nil:
		local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		local(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		local(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		local(v.StorageOS.SecretRef)
	}
	return names
}

// volumeSecrets lists the secrets that mounting a volume needs; ns is the claim's namespace.
func volumeSecrets(pv *corev1.PersistentVolume, ns string) (refs []corev1.SecretReference) {
	add := func(r *corev1.SecretReference) {
		if r != nil {
			ref := *r
			if ref.Namespace == "" {
				ref.Namespace = ns
			}
			refs = append(refs, ref)
		}
	}
	switch s := &pv.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		add(s.CSI.NodePublishSecretRef)
		add(s.CSI.NodeStageSecretRef)
		add(s.CSI.NodeExpandSecretRef)
	case s.AzureFile != nil:
		ref := corev1.SecretReference{Name: s.AzureFile.SecretName}
		if s.AzureFile.SecretNamespace != nil {
			ref.Namespace = *s.AzureFile.SecretNamespace
		}
		add(&ref)
	case s.CephFS != nil:
		add(s.CephFS.SecretRef)
	case s.Cinder != nil:
		add(s.Cinder.SecretRef)
	case s.FlexVolume != nil:
		add(s.FlexVolume.SecretRef)
	case s.RBD != nil:
		add(s.RBD.SecretRef)
	case s.ScaleIO != nil:
		add(s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		add(s.ISCSI.SecretRef)
	}
	return refs
}

// passwordUsed says whether a Secret is named by the node's plan for BGP. Nodes can't change that: see NodeRestriction.
func passwordUsed(read resource.Reader, node, name string) bool {
	l := resource.Get(read, coordination.Leases, wellknown.AnnounceSpace, wellknown.BGPLease(node))
	var plan wellknown.BGPPlan
	if l == nil || json.Unmarshal([]byte(l.Annotations[wellknown.BGPPlanned]), &plan) != nil {
		return false
	}
	return slices.ContainsFunc(plan.Peers, func(p wellknown.BGPPeer) bool { return p.Secret == name })
}
