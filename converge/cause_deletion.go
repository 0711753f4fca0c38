package converge

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// deletions are the ways in which objects do not go though they were deleted.
func deletions() []Situation {
	return slices.Concat(containerDeletions(), []Situation{
		{"NodeGone", []resource.Kind{kinds.Pods}, leaving(podOnLostNode)},
		{"ClaimInUse", []resource.Kind{kinds.PersistentVolumeClaims}, leaving(claimInUse)},
		{"VolumeInUse", []resource.Kind{kinds.PersistentVolumes}, leaving(volumeInUse)},
		{"VolumeInUse", []resource.Kind{kinds.PersistentVolumes}, leaving(volumeAttached)},
		{"RangeInUse", []resource.Kind{kinds.ServiceCIDRs}, leaving(rangeInUse)},
	}, dependentDeletions(), []Situation{
		{"PodStopping", []resource.Kind{kinds.Pods}, leaving(podStopping)},
	})
}

// leaving limits a rule to objects that are being deleted.
func leaving(see func(l *look) *Finding) func(l *look) *Finding {
	return func(l *look) *Finding {
		if l.obj.GetDeletionTimestamp() == nil {
			return nil
		}
		return see(l)
	}
}

// namespaceBlind: the namespace can't be emptied of what a server that does not answer holds. kloop's own loop deletes it all
// the same, unless the server answers and refuses; upstream's waits for the server.
func namespaceBlind(l *look) *Finding {
	own, _ := l.runs(l.owner)
	text := ""
	for _, c := range l.obj.(*corev1.Namespace).Status.Conditions {
		if c.Status == corev1.ConditionTrue &&
			(c.Type == corev1.NamespaceDeletionDiscoveryFailure && !own || c.Type == corev1.NamespaceDeletionContentFailure) {
			text += c.Message + "\n"
		}
	}
	if text == "" {
		return nil
	}
	for _, a := range resource.List(l.Read, kinds.APIServices, "") {
		if !strings.Contains(text, a.Spec.Group) || l.Health(kinds.APIServices, a).Converged() {
			continue
		}
		r := refTo(kinds.APIServices, a)
		return &Finding{Says: "waits for the API group " + a.Spec.Group + ", whose server does not answer", State: Blocked,
			Waits:  on("APIService", r, "status.conditions[Available]"),
			Next:   does(l.owner, "goes on when apiservice/%s is available or gone", a.Name),
			Advice: []string{"bring the server behind the APIService back, or delete the APIService if it is no longer used"}, Below: []Ref{r}}
	}
	return nil
}

// remaining are the objects left in a namespace, those that are held by finalizers first.
func (l *look) remaining(ns string) (left []Ref) {
	var rest []Ref
	for _, k := range l.Kinds.All() {
		i := k.Info()
		if !i.Namespaced || i.Virtual || !slices.Contains(i.Verbs, "delete") || i.GR() == (schema.GroupResource{Resource: "events"}) {
			continue
		}
		for obj := range l.Read.Each(k, ns) {
			switch {
			case len(obj.GetFinalizers()) > 0:
				left = append(left, refTo(k, obj))
			case len(rest) < maxLooks:
				rest = append(rest, refTo(k, obj))
			}
			if len(left) > maxLooks {
				return left
			}
		}
	}
	return append(left, rest...)
}

// namespaceHeld: what is left in the namespace is held by finalizers.
func namespaceHeld(l *look) *Finding {
	left := l.remaining(l.obj.GetName())
	if len(left) == 0 || len(l.Read.Lookup(left[0].Kind, left[0].NS, left[0].Name).GetFinalizers()) == 0 {
		return nil
	}
	return namespaceNotEmpty(l)
}

func namespaceNotEmpty(l *look) *Finding {
	left := l.remaining(l.obj.GetName())
	if len(left) == 0 {
		return nil
	}
	first := named(left[0].Kind, left[0].NS, left[0].Name)
	return &Finding{Says: "still holds " + first.Short() + andMore(len(left)-1), State: Waiting, Waits: on("Object", left[0], ""),
		Next: does(l.owner, "finishes when the namespace is empty"), Below: left}
}

// namespaceFinalizer: a namespace has finalizers in its spec too, which are removed by the subresource finalize alone.
func namespaceFinalizer(l *look) *Finding {
	n := l.obj.(*corev1.Namespace)
	for _, name := range n.Spec.Finalizers {
		if name == corev1.FinalizerKubernetes || len(n.Finalizers) > 0 {
			continue
		}
		domain, _, _ := strings.Cut(string(name), "/")
		who := cmp.Or(foreign[domain], "the controller behind "+domain)
		return &Finding{Says: "is empty and held by the finalizer " + string(name) + " of its spec", Owner: who, State: Blocked,
			Waits: on("Field", refTo(l.kind, n), "spec.finalizers"), Next: does(who, "removes the finalizer when its work is done"),
			Advice: []string{"look whether " + who + " runs, and at its log",
				"if it will never come back, remove the finalizer by hand: what it was to clean up stays behind: " +
					`kubectl get namespace ` + n.Name + ` -o json | sed 's|"` + string(name) +
					`"|"kubernetes"|' | kubectl replace --raw /api/v1/namespaces/` + n.Name + `/finalize -f -`}}
	}
	return nil
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func instancesRemain(l *look) *Finding {
	d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](l.obj)
	k, ok := l.Kinds.GR(schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural})
	if !ok {
		return nil
	}
	var left []Ref
	for obj := range l.Read.Each(k, "") {
		left = append(left, refTo(k, obj))
		if len(left) > maxLooks {
			break
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &Finding{Says: "still has " + count(len(left), "object"), State: Waiting, Waits: on("Object", left[0], ""),
		Next: does(l.owner, "finishes when the last object of the kind is gone"), Below: left}
}

// podOnLostNode: only its node can say that the pod's containers have ended.
func podOnLostNode(l *look) *Finding {
	p := l.obj.(*corev1.Pod)
	if p.Spec.NodeName == "" || len(p.Finalizers) > 0 && !tracked(p) {
		return nil
	}
	n := resource.Get(l.Read, kinds.Nodes, "", p.Spec.NodeName)
	if n != nil && l.Health(kinds.Nodes, n).Converged() || n == nil && !l.Sees(kinds.Nodes, "") {
		return nil
	}
	r := Ref{kinds.Nodes, "", p.Spec.NodeName}
	return &Finding{Says: "can't be stopped: its node " + p.Spec.NodeName + " does not answer", Owner: agentOf(p), State: Blocked,
		Waits:  on("Node", r, "status.conditions[Ready]"),
		Next:   does(agentOf(p), "stops the containers when it is back"),
		Advice: []string{"bring the node back; or, if it will never come back, delete the node: the pod then goes too"}, Below: []Ref{r}}
}

func podStopping(l *look) *Finding {
	p := l.obj.(*corev1.Pod)
	f := &Finding{Says: "has not stopped though its time is over", Owner: agentOf(p), State: Waiting,
		Next: does(agentOf(p), "kills the containers and removes the pod"),
		Advice: []string{"look at the node agent's log on " + p.Spec.NodeName,
			"or forget the pod without waiting for its containers: kubectl delete pod " + p.Name + " -n " + p.Namespace +
				" --grace-period=0 --force"}}
	if e := l.warning(p.UID, "FailedKillPod", "FailedPreStopHook"); e != nil {
		f.Error = eventFailure(e)
		f.Says += "; its node says: " + oneLine(e.Message)
		if s, ok := meaning(sandboxless, e.Message); ok {
			f.Advice = append([]string{strings.ReplaceAll(s.advice, "{}", p.Spec.NodeName)}, f.Advice...)
		}
	}
	return f
}

// claimInUse is the finalizer that keeps a claim while pods use it (KEP 1747). Upstream's loop waits for pods that have ended,
// too; kloop's for pods on nodes alone.
func claimInUse(l *look) *Finding {
	c := l.obj.(*corev1.PersistentVolumeClaim)
	pods := slices.DeleteFunc(users(l.World, c), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	if own, _ := l.runs("pvc-protection"); !own && len(pods) == 0 { // upstream's loop also waits for pods that have ended
		pods = l.endedUsers(c)
	}
	if !slices.Contains(c.Finalizers, "kubernetes.io/pvc-protection") || len(pods) == 0 {
		return nil
	}
	r := refTo(kinds.Pods, pods[0])
	if phase := pods[0].Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return &Finding{Says: "is held by pod/" + pods[0].Name + andMore(len(pods)-1) + ", which has ended and still counts",
			Owner: "pvc-protection",
			State: Blocked, Waits: on("Object", r, ""), Next: does("pvc-protection", "lets it go when the pod is deleted"),
			Advice: []string{"kubectl delete pod " + pods[0].Name + " -n " + pods[0].Namespace}}
	}
	return &Finding{Says: "is used by pod/" + pods[0].Name + andMore(len(pods)-1), Owner: "pvc-protection", State: Blocked,
		Waits:  on("Object", r, ""),
		Next:   does("pvc-protection", "lets it go when no pod uses it"),
		Advice: []string{"delete the pods that use it, or scale their workload down"}}
}

// endedUsers are the pods that used a claim and have ended.
func (l *look) endedUsers(c *corev1.PersistentVolumeClaim) (list []*corev1.Pod) {
	for _, p := range resource.List(l.Read, kinds.Pods, c.Namespace) {
		if p.Spec.NodeName != "" && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name
		}) {
			list = append(list, p)
		}
	}
	return list
}

// volumeAttached: the driver's attacher keeps the volume until it has let go of its last node.
func volumeAttached(l *look) *Finding {
	if !slices.ContainsFunc(l.obj.GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, "external-attacher/") }) {
		return nil
	}
	for _, a := range resource.List(l.Read, kinds.VolumeAttachments, "") {
		if ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == l.obj.GetName() {
			who := "the driver " + a.Spec.Attacher
			return &Finding{Says: "is still attached to node " + a.Spec.NodeName + ", as volumeattachment/" + a.Name + " says", Owner: who,
				State: Waiting,
				Waits: on("Object", refTo(kinds.VolumeAttachments, a), ""), Next: does(who, "removes its finalizer when it has detached the volume"),
				Advice: []string{"see why it is not detached: kubectl describe volumeattachment " + a.Name}}
		}
	}
	return nil
}

// volumeInUse is the finalizer that keeps a volume while a claim is bound to it.
func volumeInUse(l *look) *Finding {
	v := l.obj.(*corev1.PersistentVolume)
	if !slices.Contains(v.Finalizers, "kubernetes.io/pv-protection") || v.Spec.ClaimRef == nil || v.Status.Phase != corev1.VolumeBound {
		return nil
	}
	r := Ref{kinds.PersistentVolumeClaims, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name}
	return &Finding{Says: "is bound to persistentvolumeclaim/" + r.Name, Owner: "pv-protection", State: Blocked, Waits: on("Object", r, ""),
		Next: does("pv-protection", "lets it go when the claim is gone"), Advice: []string{"delete the claim " + r.NS + "/" + r.Name}}
}

// rangeInUse: addresses of the range are given to services, and no other range has them.
func rangeInUse(l *look) *Finding {
	s := l.obj.(*networkingv1.ServiceCIDR)
	var left []Ref
	var users []string
	for _, a := range resource.List(l.Read, kinds.IPAddresses, "") {
		ip, err := netip.ParseAddr(a.Name)
		if err == nil && a.Spec.ParentRef != nil && slices.ContainsFunc(s.Spec.CIDRs, func(c string) bool {
			p, err := netip.ParsePrefix(c)
			return err == nil && p.Contains(ip)
		}) {
			left, users = append(left, refTo(kinds.IPAddresses, a)), append(users, a.Spec.ParentRef.Namespace+"/"+a.Spec.ParentRef.Name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(users)
	return &Finding{Says: "has addresses that services have: " + list(users, 3), Owner: "service-cidr", State: Blocked,
		Waits:  on("Object", left[0], ""),
		Next:   does("service-cidr", "lets it go when none is left, or another ServiceCIDR has them too"),
		Advice: []string{"delete these services, or make them anew, so that they get addresses of another range"}}
}

// dependentsRemain: deletion in the foreground waits for those that block it.
func dependentsRemain(l *look) *Finding {
	if !slices.Contains(l.obj.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		return nil
	}
	var left []Ref
	for _, k := range l.Kinds.All() {
		if k.Info().Virtual {
			continue
		}
		for obj := range l.Read.ByOwner(k, string(l.obj.GetUID())) {
			if slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
				return o.UID == l.obj.GetUID() && ptr.Deref(o.BlockOwnerDeletion, false)
			}) {
				left = append(left, refTo(k, obj))
			}
		}
	}
	f := &Finding{Owner: "garbage-collector", Says: "waits for what depends on it",
		Next:  does("garbage-collector", "removes the finalizer foregroundDeletion when they are gone"),
		Waits: forName("Finalizer", metav1.FinalizerDeleteDependents), State: Waiting, Below: left}
	if len(left) == 0 {
		return f
	}
	f.Says += ": " + named(left[0].Kind, left[0].NS, left[0].Name).Short() + andMore(len(left)-1)
	return f
}

// known are the finalizers of our own loops.
var known = map[string]string{"kubernetes.io/pvc-protection": "pvc-protection", "kubernetes.io/pv-protection": "pv-protection",
	metav1.FinalizerOrphanDependents: "garbage-collector", metav1.FinalizerDeleteDependents: "garbage-collector",
	"batch.kubernetes.io/job-tracking":         "job",
	"networking.k8s.io/service-cidr-finalizer": "service-cidr", apiextensionsv1.CustomResourceCleanupFinalizer: "definition",
	"kubernetes": "namespace"}

// foreign names the programs that set finalizers which many clusters have, by name or by what stands before the slash.
var foreign = map[string]string{"service.kubernetes.io/load-balancer-cleanup": "the load balancer controller",
	"external-provisioner.volume.kubernetes.io": "the CSI provisioner",
	"external-attacher":                         "the CSI attacher", "snapshot.storage.kubernetes.io": "the CSI snapshotter",
	"resources-finalizer.argocd.argoproj.io": "Argo CD", "finalizers.fluxcd.io": "Flux"}

// tracked says that nothing holds a pod but its job, which lets it go as soon as it has ended: what keeps it from ending is the news.
func tracked(p *corev1.Pod) bool {
	return len(p.Finalizers) == 1 && p.Finalizers[0] == batchv1.JobTrackingFinalizer &&
		p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// held finds what the status of an object that has to go says against that.
func held(tree map[string]any) string {
	status, _ := tree["status"].(map[string]any)
	conds := conditionsIn(status)
	for _, typ := range slices.Sorted(maps.Keys(conds)) {
		if c := conds[typ]; plight(typ, c) && faulty.MatchString(c.Message) {
			return c.Message
		}
	}
	return complaintIn(tree).message
}

// finalizerStuck comes after all situations that know what a finalizer waits for. Whose it is follows from the table known, else from
// who watches the kind; where nobody does, the advice is to take it away by hand, with what that costs.
func finalizerStuck(l *look) *Finding {
	if p, is := l.obj.(*corev1.Pod); len(l.obj.GetFinalizers()) == 0 || is && tracked(p) {
		return nil
	}
	name := l.obj.GetFinalizers()[0]
	f := &Finding{Says: "is held by the finalizer " + name, State: Blocked, Waits: forName("Finalizer", name)}
	if own, ok := known[name]; ok {
		f.Owner = own
		f.Next = does(own, "removes the finalizer when its work is done")
		if runs, sure := l.runs(own); sure && !runs {
			f.State, f.Says = Missing, f.Says+", and the loop "+own+" does not run here"
		} else if l.Loops == nil {
			f.Advice = []string{"look whether the controller manager runs, and at its log: kubectl get pods -A"}
		}
		return f
	}
	if n := len(l.obj.GetFinalizers()); n > 1 {
		f.Says += andMore(n - 1)
	}
	if tree, ok := content(l.obj); ok {
		f.Told = oneLine(held(tree))
	}
	if a, is := l.obj.(*storagev1.VolumeAttachment); is && a.Status.DetachError != nil {
		f.Told = oneLine(a.Status.DetachError.Message)
	}
	if e := l.newestWarning(); e != nil && f.Told == "" {
		f.Told, f.Error = oneLine(e.Message), eventFailure(e)
	}
	if n, ok := l.obj.(*corev1.Node); ok {
		f.Aside = keptThere(l.World, n)
	}
	who, here := l.finalizes(name)
	f.Owner = who
	f.Next = does(who, "removes the finalizer when its work is done")
	f.Advice = []string{"look at the log of " + who}
	if l.outside() {
		l.finalizerAbroad(f, name, who)
	}
	if !here {
		f.State, f.Says = Missing, f.Says+", and no controller watches "+l.kind.Info().GR().String()
		f.Next = does(who, "removes the finalizer when it runs again; it is not connected now")
		f.Advice = []string{"start the controller that set the finalizer again",
			"if it will never come back, remove the finalizer by hand; what it was to clean up stays behind: " + l.without(name)}
	}
	return f
}

// finalizes guesses whose a finalizer is, and whether that controller is connected.
func (l *look) finalizes(name string) (who string, here bool) {
	domain, _, _ := strings.Cut(name, "/")
	who = cmp.Or(foreign[name], cmp.Or(foreign[domain], "the controller behind "+domain))
	for _, m := range l.obj.GetManagedFields() {
		if m.FieldsV1 != nil && !byHand(m.Manager) && m.Manager != "kube-controller-manager" && strings.Contains(string(m.FieldsV1.Raw),
			`"v:\"`+name+`\""`) {
			who = m.Manager
		}
	}
	return who, !l.unwatched(l.kind.Info().GR())
}

// apiServiceOf finds the APIService of a group that another server answers.
func apiServiceOf(read resource.Reader, group string) *apiregistrationv1.APIService {
	for _, a := range resource.List(read, kinds.APIServices, "") {
		if a.Spec.Group == group && a.Spec.Service != nil {
			return a
		}
	}
	return nil
}

// without is the command that takes a finalizer from the object, and leaves it the others.
func (l *look) without(finalizer string) string {
	left := slices.DeleteFunc(slices.Clone(l.obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	to := "null"
	if len(left) > 0 {
		to = `["` + strings.Join(left, `","`) + `"]`
	}
	command := "kubectl patch " + l.kind.Info().GR().String() + " " + l.obj.GetName()
	if ns := l.obj.GetNamespace(); ns != "" {
		command += " -n " + ns
	}
	return command + ` --type=merge -p '{"metadata":{"finalizers":` + to + `}}'`
}
