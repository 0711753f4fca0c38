package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// endState prints a state without names, times and chance: two runs of one workload end with the same.
func endState(set *resource.Set, r resource.Reader) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, n := range resource.List(r, kinds.Nodes, "") {
		var taints []string
		for _, t := range n.Spec.Taints {
			taints = append(taints, t.Key+":"+string(t.Effect))
		}
		add("node %s %v", n.Name, taints)
		for _, x := range n.Status.Conditions {
			if x.Type == corev1.NodeReady {
				add("node %s is ready: %s", n.Name, x.Status)
			}
		}
	}
	for _, x := range resource.List(r, kinds.Namespaces, "") {
		add("namespace %s %s", x.Name, x.Status.Phase)
	}
	for _, d := range resource.List(r, kinds.Deployments, "") {
		s := d.Status
		add("deployment %s/%s asks for %d of %s, has %d, new %d, ready %d, available %d, seen %t", d.Namespace, d.Name, *d.Spec.Replicas,
			d.Spec.Template.Spec.Containers[0].Image, s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas,
			s.ObservedGeneration == d.Generation)
	}
	for _, x := range resource.List(r, kinds.ReplicaSets, "") {
		if *x.Spec.Replicas > 0 || x.Status.Replicas > 0 {
			add("replicaset of %s: %d of %s, has %d, ready %d", ownerOf(x), *x.Spec.Replicas, x.Spec.Template.Spec.Containers[0].Image,
				x.Status.Replicas, x.Status.ReadyReplicas)
		}
	}
	for _, x := range resource.List(r, kinds.StatefulSets, "") {
		s := x.Status
		add("statefulset %s/%s asks for %d, has %d, ready %d, new %d, available %d, settled %t", x.Namespace, x.Name, *x.Spec.Replicas,
			s.Replicas,
			s.ReadyReplicas, s.UpdatedReplicas, s.AvailableReplicas, s.CurrentRevision == s.UpdateRevision && s.ObservedGeneration == x.Generation)
	}
	for _, x := range resource.List(r, kinds.DaemonSets, "") {
		s := x.Status
		add("daemonset %s/%s: %d of %d ready, %d new, %d misplaced", x.Namespace, x.Name, s.NumberReady, s.DesiredNumberScheduled,
			s.UpdatedNumberScheduled, s.NumberMisscheduled)
	}
	lines = append(lines, jobLines(r)...)
	lines = append(lines, moreLines(set, r)...)
	lines = append(lines, podLines(r)...)
	lines = append(lines, serviceLines(r)...)
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// moreLines tells of controllers, autoscalers, what was planted, and kinds that were defined.
func moreLines(set *resource.Set, r resource.Reader) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, x := range resource.List(r, kinds.ReplicationControllers, "") {
		add("controller %s/%s asks for %d, has %d, ready %d", x.Namespace, x.Name, *x.Spec.Replicas, x.Status.Replicas, x.Status.ReadyReplicas)
	}
	for _, h := range resource.List(r, kinds.HorizontalPodAutoscalers, "") {
		if d := resource.Get(r, kinds.Deployments, h.Namespace, h.Spec.ScaleTargetRef.Name); d != nil && *d.Spec.Replicas > 0 {
			add("autoscaler %s wants %d", h.Name, h.Status.DesiredReplicas)
		}
	}
	for _, x := range resource.List(r, kinds.ConfigMaps, "") {
		if x.Labels[treeKey] != "" && !slices.ContainsFunc(x.OwnerReferences, func(o metav1.OwnerReference) bool { return !served(set, &o) }) {
			add("leaf %s/%s of %d", x.Namespace, x.Name, len(x.OwnerReferences))
		}
	}
	for _, x := range resource.List(r, kinds.StatefulSets, "") {
		if !shrinks(x) {
			continue
		}
		n := 0
		for _, c := range resource.List(r, kinds.PersistentVolumeClaims, x.Namespace) {
			if strings.HasPrefix(c.Name, "data-"+x.Name+"-") && c.Status.Phase == corev1.ClaimBound && ordinal(c.Name) < int(*x.Spec.Replicas) {
				n++
			}
		}
		add("statefulset %s/%s has %d claims", x.Namespace, x.Name, n)
	}
	given := 0
	for _, x := range resource.List(r, kinds.ResourceClaims, "") {
		if x.Status.Allocation != nil {
			given++
		}
	}
	add("%d claims of devices, %d have them", len(resource.List(r, kinds.ResourceClaims, "")), given)
	for _, def := range resource.List(r, kinds.CustomResourceDefinitions, "") {
		k, ok := set.GR(schema.GroupResource{Group: def.Spec.Group, Resource: def.Spec.Names.Plural})
		add("definition %s, served %t", def.Name, ok)
		if !ok {
			continue
		}
		for obj := range r.Each(k, "") {
			spec := resource.Opened(obj).(runtime.Unstructured).UnstructuredContent()["spec"]
			add("%s %s/%s %v", def.Spec.Names.Singular, obj.GetNamespace(), obj.GetName(), spec)
		}
	}
	return lines
}

func jobLines(r resource.Reader) (lines []string) {
	for _, j := range resource.List(r, kinds.Jobs, "") {
		if ref := metav1.GetControllerOfNoCopy(j); ref != nil {
			continue // how many runs a cron job got in depends on when
		}
		good := fmt.Sprint(j.Status.Succeeded)
		if j.Spec.SuccessPolicy != nil {
			good = "enough" // how many more did is a matter of when
		}
		failed := ""
		if j.Status.FailedIndexes != nil {
			failed = ", failed " + *j.Status.FailedIndexes
		}
		lines = append(lines, fmt.Sprintf("job %s/%s %s, %s succeeded, %d active%s", j.Namespace, j.Name, ended(j), good,
			j.Status.Active, failed))
	}
	return lines
}

// podLines counts the pods that run, by whose they are and what they look like.
func podLines(r resource.Reader) (lines []string) {
	count := map[string]int{}
	for _, p := range resource.List(r, kinds.Pods, "") {
		if p.Labels[batchv1.JobNameLabel] != "" && over(p) {
			continue
		}
		who := ownerOf(p)
		if rs := metav1.GetControllerOfNoCopy(p); rs != nil && rs.Kind == "ReplicaSet" {
			if x := resource.Get(r, kinds.ReplicaSets, p.Namespace, rs.Name); x != nil {
				who = ownerOf(x)
			}
		}
		count[fmt.Sprintf("pods of %s: %s, ready %t, going %t, %s", who, p.Status.Phase, isReady(p), p.DeletionTimestamp != nil,
			p.Spec.Containers[0].Image)]++
	}
	for line, n := range count {
		lines = append(lines, fmt.Sprintf("%d %s", n, line))
	}
	return lines
}

func serviceLines(r resource.Reader) (lines []string) {
	for _, s := range resource.List(r, kinds.Services, "") {
		ready, other := map[string]bool{}, 0
		for _, es := range resource.List(r, kinds.EndpointSlices, s.Namespace) {
			if es.Labels[discoveryv1.LabelServiceName] != s.Name {
				continue
			}
			for _, e := range es.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					ready[e.Addresses[0]] = true
				} else {
					other++
				}
			}
		}
		old := 0
		if e := resource.Get(r, kinds.Endpoints, s.Namespace, s.Name); e != nil {
			for _, sub := range e.Subsets {
				old += len(sub.Addresses)
			}
		}
		lines = append(lines, fmt.Sprintf("service %s/%s: %d ready endpoints, %d others, %d of the old kind", s.Namespace, s.Name,
			len(ready), other, old))
	}
	for _, q := range resource.List(r, kinds.ResourceQuotas, "") {
		pods := 0
		for _, p := range resource.List(r, kinds.Pods, q.Namespace) {
			if !over(p) {
				pods++
			}
		}
		used := q.Status.Used
		lines = append(lines, fmt.Sprintf("quota: as many pods as there are: %t, services: %t, sets: %t", used.Pods().Value() == int64(pods),
			counted(used, corev1.ResourceServices) == len(resource.List(r, kinds.Services, q.Namespace)),
			counted(used, "count/replicasets.apps") == len(resource.List(r, kinds.ReplicaSets, q.Namespace))))
	}
	for _, b := range resource.List(r, kinds.PodDisruptionBudgets, "") {
		s := b.Status
		lines = append(lines, fmt.Sprintf("budget %s: %d of %d healthy, %d expected, %d may go", b.Name, s.CurrentHealthy,
			s.DesiredHealthy, s.ExpectedPods, s.DisruptionsAllowed))
	}
	return lines
}

func counted(list corev1.ResourceList, name corev1.ResourceName) int {
	q := list[name]
	return int(q.Value())
}

func ownerOf(obj metav1.Object) string {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return "nobody"
	}
	return ref.Kind + " " + obj.GetNamespace() + "/" + ref.Name
}

// leftovers finds what should have gone with something else, and what does not agree.
func leftovers(set *resource.Set, r resource.Reader) (list []string) {
	spaces := map[string]bool{"": true}
	for _, n := range resource.List(r, kinds.Namespaces, "") {
		spaces[n.Name] = true
	}
	for _, k := range set.All() {
		for obj := range r.Each(k, "") {
			if k == resource.Kind(kinds.Events) {
				continue
			}
			name := k.Info().Singular + " " + obj.GetNamespace() + "/" + obj.GetName()
			if !spaces[obj.GetNamespace()] {
				list = append(list, name+" outlived its namespace")
			}
			if obj.GetDeletionTimestamp() != nil {
				list = append(list, fmt.Sprintf("%s is still going; %v hold it", name, obj.GetFinalizers()))
			}
			ref := metav1.GetControllerOfNoCopy(obj)
			if ref == nil {
				continue
			}
			if !exists(set, r, obj.GetNamespace(), ref) {
				list = append(list, name+" outlived "+ref.Kind+" "+ref.Name)
			}
		}
	}
	list = append(list, addresses(r)...)
	slices.Sort(list)
	return list
}

func exists(set *resource.Set, r resource.Reader, namespace string, ref *metav1.OwnerReference) bool {
	return !served(set, ref) || found(set, r, namespace, ref) != nil
}

// served says whether an owner is of a kind that is served. Of others nobody can tell whether they are there, and what
// they own stays if they went unseen before their kind did.
func served(set *resource.Set, ref *metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return false
	}
	_, ok := set.Kind(gv.WithKind(ref.Kind))
	return ok
}

// found is the owner that a reference means.
func found(set *resource.Set, r resource.Reader, namespace string, ref *metav1.OwnerReference) resource.Object {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil
	}
	k, served := set.Kind(gv.WithKind(ref.Kind))
	if !served {
		return nil
	}
	if !k.Info().Namespaced {
		namespace = ""
	}
	if obj := r.Lookup(k, namespace, ref.Name); obj != nil && obj.GetUID() == ref.UID {
		return obj
	}
	return nil
}

// addresses compares the services with the addresses that are taken.
func addresses(r resource.Reader) (list []string) {
	taken := map[string]string{}
	for _, a := range resource.List(r, kinds.IPAddresses, "") {
		taken[a.Name] = addressOwner(a)
	}
	for _, s := range resource.List(r, kinds.Services, "") {
		if ip := s.Spec.ClusterIP; ip != corev1.ClusterIPNone && ip != "" {
			if taken[ip] != s.Namespace+"/"+s.Name {
				list = append(list, fmt.Sprintf("service %s has %s, which is taken by %q", s.Name, ip, taken[ip]))
			}
			delete(taken, ip)
		}
	}
	for _, ip := range slices.Sorted(maps.Keys(taken)) {
		list = append(list, "address "+ip+" is taken by service "+taken[ip]+", which does not have it")
	}
	return list
}

func addressOwner(a *networkingv1.IPAddress) string {
	if p := a.Spec.ParentRef; p != nil {
		return p.Namespace + "/" + p.Name
	}
	return ""
}
