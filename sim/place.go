package sim

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/fits"
	"github.com/kloop-dev/kloop/resource"
)

// A place holds all that a pod finds on its node.
type place struct {
	read resource.Reader // nil: all is there
	node *corev1.Node
	ips  func() []string
	mute bool // there are too many pods for events

	hosts []string // the node's addresses; none: hostIP
}

// refuse says why the node does not take the pod, as a node agent does for one that was bound by hand.
func (at place) refuse(p *corev1.Pod) (why, message string) {
	if at.read == nil || at.node == nil {
		return "", ""
	}
	list := resource.Where(at.read, kinds.Pods, "spec.nodeName", at.node.Name)
	if roomy(p, list, at.node.Status.Allocatable) {
		return "", ""
	}
	in := func(o *corev1.Pod) bool { return o.UID != p.UID && o.Status.StartTime != nil }
	if why, message = fits.Why(p, list, at.node.Status.Allocatable, in); why != "" {
		return why, "Pod was rejected: " + message
	}
	return "", ""
}

// roomy says that a pod surely fits beside all others of its node. It counts too much rather than too little, and is
// cheap: most pods fit.
func roomy(p *corev1.Pod, all []*corev1.Pod, has corev1.ResourceList) bool {
	if len(p.Spec.InitContainers) > 0 || len(p.Spec.Overhead) > 0 || p.Spec.Resources != nil || int64(len(all)) > has.Pods().Value() {
		return false
	}
	for i := range p.Spec.Containers {
		for name := range p.Spec.Containers[i].Resources.Requests {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
				return false
			}
		}
	}
	var cpu, memory int64
	for _, o := range all {
		c, m := most(o)
		cpu, memory = cpu+c, memory+m
	}
	return cpu <= has.Cpu().MilliValue() && memory <= has.Memory().Value()
}

// most returns an upper bound of the resources that a pod asks for.
func most(p *corev1.Pod) (cpu, memory int64) {
	add := func(list corev1.ResourceList) {
		if len(list) > 0 {
			cpu, memory = cpu+list.Cpu().MilliValue(), memory+list.Memory().Value()
		}
	}
	for i := range p.Spec.Containers {
		add(p.Spec.Containers[i].Resources.Requests)
	}
	for i := range p.Spec.InitContainers {
		add(p.Spec.InitContainers[i].Resources.Requests)
	}
	if p.Spec.Resources != nil {
		add(p.Spec.Resources.Requests)
	}
	add(p.Spec.Overhead)
	return cpu, memory
}

// mount says what keeps the pod's volumes from being mounted; "": nothing.
func (at place) mount(p *corev1.Pod) string {
	if at.read == nil {
		return ""
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if why := at.content(p, v); why != "" {
			return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", v.Name, why)
		}
		if claim := core.ClaimName(p, v); claim != "" {
			if why := at.claim(p.Namespace, claim); why != "" {
				return fmt.Sprintf(
					"Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], "+
						"failed to process volumes=[%s]: error processing PVC %s/%s: %s",
					v.Name, v.Name, p.Namespace, claim, why)
			}
			if !at.attached(p.Namespace, claim) {
				return fmt.Sprintf(
					"Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[%s], "+
						"failed to process volumes=[]: timed out waiting for the condition",
					v.Name, v.Name)
			}
		}
	}
	return ""
}

// content says what is missing of what a volume is made of.
func (at place) content(p *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return at.config(p.Namespace, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Secret != nil:
		return at.secret(p.Namespace, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			switch {
			case s.ConfigMap != nil && s.ConfigMap.Name != rootCA:
				if why := at.config(p.Namespace, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional); why != "" {
					return why
				}
			case s.Secret != nil:
				if why := at.secret(p.Namespace, s.Secret.Name, s.Secret.Items, s.Secret.Optional); why != "" {
					return why
				}
			}
		}
	}
	return ""
}

// rootCA is in the volume that every pod gets for its token. It is not waited for: the loop that publishes it may be off.
const rootCA = "kube-root-ca.crt"

func (at place) config(ns, name string, items []corev1.KeyToPath, optional *bool) string {
	cm := resource.Get(at.read, kinds.ConfigMaps, ns, name)
	switch {
	case yes(optional):
		return ""
	case cm == nil:
		return fmt.Sprintf("configmap %q not found", name)
	}
	return lacks("configmap references non-existent config key: ", items, func(key string) bool {
		return hasKey(cm.Data, key) || hasKey(cm.BinaryData, key)
	})
}

func (at place) secret(ns, name string, items []corev1.KeyToPath, optional *bool) string {
	s := resource.Get(at.read, kinds.Secrets, ns, name)
	switch {
	case yes(optional):
		return ""
	case s == nil:
		return fmt.Sprintf("secret %q not found", name)
	}
	return lacks("references non-existent secret key: ", items, func(key string) bool { return hasKey(s.Data, key) })
}

func yes(b *bool) bool { return b != nil && *b }

func hasKey[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

// lacks says which key is not there, after a text.
func lacks(text string, items []corev1.KeyToPath, has func(string) bool) string {
	for _, i := range items {
		if !has(i.Key) {
			return text + i.Key
		}
	}
	return ""
}

// claim says why a claim can't be used.
func (at place) claim(ns, name string) string {
	pvc := resource.Get(at.read, kinds.PersistentVolumeClaims, ns, name)
	switch {
	case pvc == nil:
		return fmt.Sprintf("failed to fetch PVC from API server: persistentvolumeclaims %q not found", name)
	case pvc.DeletionTimestamp != nil && pvc.Status.Phase != corev1.ClaimBound:
		return "PVC is being deleted"
	case pvc.Status.Phase != corev1.ClaimBound || pvc.Spec.VolumeName == "":
		return "PVC is not bound"
	}
	return ""
}

// managed marks nodes for which the attach/detach loop works, as node agents do.
const managed = "volumes.kubernetes.io/controller-managed-attach-detach"

// attached says whether a claim's volume is attached to the node, or need not be.
func (at place) attached(ns, claim string) bool {
	pvc := resource.Get(at.read, kinds.PersistentVolumeClaims, ns, claim)
	pv := resource.Get(at.read, kinds.PersistentVolumes, "", pvc.Spec.VolumeName)
	if pv == nil || pv.Spec.CSI == nil || at.node == nil || at.node.Annotations[managed] != "true" {
		return true
	}
	d := resource.Get(at.read, kinds.CSIDrivers, "", pv.Spec.CSI.Driver)
	if d == nil || d.Spec.AttachRequired != nil && !*d.Spec.AttachRequired {
		return true
	}
	for _, va := range resource.List(at.read, kinds.VolumeAttachments, "") {
		if va.Spec.NodeName == at.node.Name && va.Status.Attached && va.Spec.Source.PersistentVolumeName != nil &&
			*va.Spec.Source.PersistentVolumeName == pv.Name {
			return true
		}
	}
	return false
}

// environment says what is missing of a container's variables.
func (at place) environment(ns string, c *corev1.Container) string {
	if at.read == nil {
		return ""
	}
	for _, e := range c.EnvFrom {
		why := ""
		switch {
		case e.ConfigMapRef != nil:
			why = at.config(ns, e.ConfigMapRef.Name, nil, e.ConfigMapRef.Optional)
		case e.SecretRef != nil:
			why = at.secret(ns, e.SecretRef.Name, nil, e.SecretRef.Optional)
		}
		if why != "" {
			return why
		}
	}
	for _, e := range c.Env {
		if why := at.variable(ns, e.ValueFrom); why != "" {
			return why
		}
	}
	return ""
}

func (at place) variable(ns string, from *corev1.EnvVarSource) string {
	switch {
	case from == nil:
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		if why := at.config(ns, r.Name, []corev1.KeyToPath{{Key: r.Key}}, r.Optional); strings.HasPrefix(why, "references") {
			return fmt.Sprintf("couldn't find key %s in ConfigMap %s/%s", r.Key, ns, r.Name)
		} else if why != "" {
			return why
		}
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		if why := at.secret(ns, r.Name, []corev1.KeyToPath{{Key: r.Key}}, r.Optional); strings.HasPrefix(why, "references") {
			return fmt.Sprintf("couldn't find key %s in Secret %s/%s", r.Key, ns, r.Name)
		} else if why != "" {
			return why
		}
	}
	return ""
}
