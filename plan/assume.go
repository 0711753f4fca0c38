package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

// An assumer makes what the caller might not read and pods can't do without, as it must be if they run.
type assumer struct {
	*Fork
	made  []item
	there map[string]resource.Object // by key; nil where it need not be made
	count map[string]int
}

// assumed returns objects that are taken to be there, and adds to the notes that they are.
func assumed(f *Fork, notes *[]string) []item {
	a := &assumer{Fork: f, there: map[string]resource.Object{}, count: map[string]int{}}
	for _, it := range f.objects {
		a.there[it.kind.Info().Key(it.obj.GetNamespace(), it.obj.GetName())] = nil
	}
	for _, it := range f.objects {
		if it.kind.Info().Namespaced {
			a.namespace(it.obj.GetNamespace())
		}
	}
	for _, ns := range []string{"default", "kube-system", corev1.NamespaceNodeLease} {
		add(a, true, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	for p := range each(f, kinds.Pods) {
		a.pod(p)
	}
	for d := range each(f, kinds.Deployments) {
		a.template(d.Namespace, &d.Spec.Template.Spec)
	}
	for d := range each(f, kinds.StatefulSets) {
		a.template(d.Namespace, &d.Spec.Template.Spec)
	}
	for d := range each(f, kinds.DaemonSets) {
		a.template(d.Namespace, &d.Spec.Template.Spec)
	}
	for d := range each(f, kinds.CronJobs) {
		a.template(d.Namespace, &d.Spec.JobTemplate.Spec.Template.Spec)
	}
	for _, k := range kinds.All() {
		if n := a.count[k.Info().Plural]; n > 0 {
			*notes = append(*notes, fmt.Sprintf("%d %s that you may not read are taken to be there, as others need them", n, k.Info().Plural))
		}
	}
	return a.made
}

// add makes an object unless it is there, if its kind might not be read, or always.
func add[T resource.Object](a *assumer, always bool, d *resource.Def[T], obj T) {
	key := d.Info().Key(obj.GetNamespace(), obj.GetName())
	if _, there := a.there[key]; there || !always && !a.hidden[d.Info().GR()] || obj.GetName() == "" {
		return
	}
	a.there[key] = obj
	if a.hidden[d.Info().GR()] {
		a.count[d.Info().Plural]++
	}
	obj.SetUID(types.UID("assumed" + key))
	obj.SetCreationTimestamp(metav1.NewTime(a.At))
	a.made = append(a.made, item{d, obj})
}

func (a *assumer) namespace(name string) {
	add(a, false, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelMetadataName: name}},
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}})
}

// roomy is the capacity of a node that the caller might not read.
var roomy = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("64"), corev1.ResourceMemory: apiresource.MustParse("256Gi"),
	corev1.ResourceEphemeralStorage: apiresource.MustParse("1Ti"), corev1.ResourcePods: apiresource.MustParse("250")}

func (a *assumer) pod(p *corev1.Pod) {
	if p.Spec.NodeName != "" {
		add(a, false, kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.NodeName,
			Labels:      map[string]string{corev1.LabelHostname: p.Spec.NodeName},
			Annotations: map[string]string{sim.Fake: "fake", sim.Agent: "yes"}},
			Status: corev1.NodeStatus{Capacity: roomy, Allocatable: roomy, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
				Status: corev1.ConditionTrue,
				Reason: "KubeletReady", LastTransitionTime: metav1.NewTime(a.At), LastHeartbeatTime: metav1.NewTime(a.At)}}}})
	}
	if p.Spec.PriorityClassName != "" && p.Spec.Priority != nil {
		add(a, false, kinds.PriorityClasses, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.PriorityClassName},
			Value: *p.Spec.Priority})
	}
	a.template(p.Namespace, &p.Spec)
}

// template has what pods of a template name.
func (a *assumer) template(ns string, s *corev1.PodSpec) {
	for _, name := range []string{"default", s.ServiceAccountName} {
		add(a, false, kinds.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	for i := range s.Volumes {
		v := &s.Volumes[i]
		switch {
		case v.Secret != nil:
			a.secret(ns, v.Secret.SecretName, keysOf(v.Secret.Items)...)
		case v.ConfigMap != nil:
			a.config(ns, v.ConfigMap.Name, keysOf(v.ConfigMap.Items)...)
		case v.PersistentVolumeClaim != nil:
			a.claim(ns, v.PersistentVolumeClaim.ClaimName)
		case v.Projected != nil:
			for _, src := range v.Projected.Sources {
				if src.Secret != nil {
					a.secret(ns, src.Secret.Name, keysOf(src.Secret.Items)...)
				}
				if src.ConfigMap != nil {
					a.config(ns, src.ConfigMap.Name, keysOf(src.ConfigMap.Items)...)
				}
			}
		}
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		a.variables(ns, &c)
	}
}

func keysOf(items []corev1.KeyToPath) (keys []string) {
	for _, i := range items {
		keys = append(keys, i.Key)
	}
	return keys
}

func (a *assumer) variables(ns string, c *corev1.Container) {
	for _, e := range c.EnvFrom {
		if e.SecretRef != nil {
			a.secret(ns, e.SecretRef.Name)
		}
		if e.ConfigMapRef != nil {
			a.config(ns, e.ConfigMapRef.Name)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			a.secret(ns, r.Name, r.Key)
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			a.config(ns, r.Name, r.Key)
		}
	}
}

func (a *assumer) secret(ns, name string, keys ...string) {
	add(a, false, kinds.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}})
	if s, ok := a.there[kinds.Secrets.Info().Key(ns, name)].(*corev1.Secret); ok {
		for _, key := range keys {
			s.Data[key] = []byte{}
		}
	}
}

func (a *assumer) config(ns, name string, keys ...string) {
	add(a, false, kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{}})
	if c, ok := a.there[kinds.ConfigMaps.Info().Key(ns, name)].(*corev1.ConfigMap); ok {
		for _, key := range keys {
			c.Data[key] = ""
		}
	}
}

// claim is taken to be bound to a volume that can be had on every node.
func (a *assumer) claim(ns, name string) {
	volume := "assumed-" + ns + "-" + name
	size := corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	before := len(a.made)
	none := ""
	add(a, false, kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name,
		Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume, AccessModes: modes, StorageClassName: &none,
			Resources: corev1.VolumeResourceRequirements{Requests: size}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: modes, Capacity: size}})
	if len(a.made) == before {
		return
	}
	uid := a.made[before].obj.GetUID()
	add(a, true, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: ns, Name: name, UID: uid},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "assumed", Path: "/"}}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}})
}
