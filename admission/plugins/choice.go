package plugins

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/admission"
)

// Plugins that are off unless somebody chooses them; see also nodeselector.go, ratelimit.go and imagepolicy.go.

// denyAll refuses everything: for tests.
func denyAll(_ context.Context, r *admission.Request) error {
	return r.Refuse("admission control is denying all modifications")
}

// provision makes namespaces when something is made in them.
func provision(make func(ctx context.Context, name string) error) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Op != admission.Create || r.DryRun || r.Namespace == "" || r.Of("", "namespaces") || make == nil {
			return nil
		}
		if _, err := admission.NamespaceOf(ctx, r); !apierrors.IsNotFound(err) {
			return err
		}
		if err := make(ctx, r.Namespace); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	}
}

// namespaceExists refuses requests in namespaces that are not there.
func namespaceExists(ctx context.Context, r *admission.Request) error {
	if r.Op == admission.Connect || r.Namespace == "" || r.Of("", "namespaces") {
		return nil
	}
	_, err := admission.NamespaceOf(ctx, r)
	return err
}

// hostnameOnly refuses hard anti-affinity between larger domains than nodes: one such pod could keep all others out of a zone.
func hostnameOnly(_ context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", admission.Create, admission.Update) || pod.Spec.Affinity == nil ||
		pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	for _, t := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if t.TopologyKey != corev1.LabelHostname {
			return r.Refuse("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed",
				t.TopologyKey,
				corev1.LabelHostname)
		}
	}
	return nil
}

// pullPolicies are the pull policies of a pod's images, by their paths.
func pullPolicies(spec *corev1.PodSpec) (list []*corev1.PullPolicy, paths []*field.Path) {
	at := field.NewPath("spec")
	add := func(p *corev1.PullPolicy, path *field.Path) { list, paths = append(list, p), append(paths, path) }
	for i := range spec.InitContainers {
		add(&spec.InitContainers[i].ImagePullPolicy, at.Child("initContainers").Index(i).Child("imagePullPolicy"))
	}
	for i := range spec.Containers {
		add(&spec.Containers[i].ImagePullPolicy, at.Child("containers").Index(i).Child("imagePullPolicy"))
	}
	for i := range spec.EphemeralContainers {
		add(&spec.EphemeralContainers[i].ImagePullPolicy, at.Child("ephemeralContainers").Index(i).Child("imagePullPolicy"))
	}
	for i, v := range spec.Volumes {
		if v.Image != nil {
			add(&v.Image.PullPolicy, at.Child("volumes").Index(i).Child("image", "pullPolicy"))
		}
	}
	return list, paths
}

// imagesToPull is the pod of a request that brings new images.
func imagesToPull(r *admission.Request) (*corev1.Pod, bool) {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", admission.Create, admission.Update) {
		return nil, false
	}
	if old, was := r.Old.(*corev1.Pod); was && r.Op == admission.Update {
		known := func(list []corev1.Container, c corev1.Container) bool {
			return slices.ContainsFunc(list, func(o corev1.Container) bool { return o.Image == c.Image })
		}
		before := slices.Concat(old.Spec.InitContainers, old.Spec.Containers)
		return pod, slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers),
			func(c corev1.Container) bool { return !known(before, c) })
	}
	return pod, true
}

// pullAlways has images pulled for every pod, so that those who may not pull an image can't use the copy on a node.
func pullAlways(_ context.Context, r *admission.Request) error {
	if pod, ok := imagesToPull(r); ok {
		list, _ := pullPolicies(&pod.Spec)
		for _, p := range list {
			*p = corev1.PullAlways
		}
	}
	return nil
}

func checkPullAlways(_ context.Context, r *admission.Request) error {
	pod, ok := imagesToPull(r)
	if !ok {
		return nil
	}
	list, paths := pullPolicies(&pod.Spec)
	for i, p := range list {
		if *p != corev1.PullAlways {
			return r.Refuse("%w", field.NotSupported(paths[i], *p, []string{string(corev1.PullAlways)}))
		}
	}
	return nil
}

// tolerateExtended lets pods that ask for extended resources onto nodes that are tainted for them.
func tolerateExtended(_ context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", admission.Create, admission.Update) {
		return nil
	}
	var names []string
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for name := range c.Resources.Requests {
			if n := string(name); extendedResource(n) && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	for _, n := range names {
		t := corev1.Toleration{Key: n, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
		if !slices.Contains(pod.Spec.Tolerations, t) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
		}
	}
	return nil
}

func extendedResource(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, "kubernetes.io/") &&
		!strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix)
}

// denyExternalIPs refuses addresses of services that the cluster does not give out: who may choose them takes others' traffic.
func denyExternalIPs(_ context.Context, r *admission.Request) error {
	s, ok := r.Object.(*corev1.Service)
	if !ok || !r.On("", "services", admission.Create, admission.Update) {
		return nil
	}
	old, _ := r.Old.(*corev1.Service)
	for _, ip := range s.Spec.ExternalIPs {
		if old == nil || !slices.Contains(old.Spec.ExternalIPs, ip) {
			return r.Refuse("Use of external IPs is denied by admission control.")
		}
	}
	return nil
}
