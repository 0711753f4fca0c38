package causes

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// deletions are the ways in which objects do not go though they were deleted.
func deletions() []converge.Situation {
	return slices.Concat(general.ContainerDeletions(), []converge.Situation{
		{Name: "NodeGone", Of: []resource.Kind{kinds.Pods}, See: general.Leaving(podOnLostNode)},
		{Name: "ClaimInUse", Of: []resource.Kind{kinds.PersistentVolumeClaims}, See: general.Leaving(claimInUse)},
		{Name: "VolumeInUse", Of: []resource.Kind{kinds.PersistentVolumes}, See: general.Leaving(volumeInUse)},
		{Name: "VolumeInUse", Of: []resource.Kind{kinds.PersistentVolumes}, See: general.Leaving(volumeAttached)},
		{Name: "RangeInUse", Of: []resource.Kind{kinds.ServiceCIDRs}, See: general.Leaving(rangeInUse)},
	}, general.DependentDeletions(), []converge.Situation{
		{Name: "PodStopping", Of: []resource.Kind{kinds.Pods}, See: general.Leaving(podStopping)},
	})
}

// podOnLostNode: only its node can say that the pod's containers have ended.
func podOnLostNode(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	if p.Spec.NodeName == "" || len(p.Finalizers) > 0 && !general.Tracked(p) {
		return nil
	}
	n := resource.Get(l.Read, kinds.Nodes, "", p.Spec.NodeName)
	if n != nil && l.Health(kinds.Nodes, n).Converged() || n == nil && !l.Sees(kinds.Nodes, "") {
		return nil
	}
	r := converge.Ref{Kind: kinds.Nodes, NS: "", Name: p.Spec.NodeName}
	return &converge.Finding{Says: "can't be stopped: its node " + p.Spec.NodeName + " does not answer", Owner: converge.AgentOf(p),
		State:  converge.Blocked,
		Waits:  converge.On("Node", r, "status.conditions[Ready]"),
		Next:   converge.Does(converge.AgentOf(p), "stops the containers when it is back"),
		Advice: []string{"bring the node back; or, if it will never come back, delete the node: the pod then goes too"},
		Also: []string{"or, if that machine is off, let this pod go alone: kubectl delete pod " + p.Name + " -n " + p.Namespace +
			" --grace-period=0 --force"},
		Below: []converge.Ref{r}}
}

func podStopping(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	f := &converge.Finding{Says: "has not stopped though its time is over", Owner: converge.AgentOf(p), State: converge.Waiting,
		Next: converge.Does(converge.AgentOf(p), "kills the containers and removes the pod"),
		Advice: []string{"look at the node agent's log on " + p.Spec.NodeName,
			"or forget the pod without waiting for its containers: kubectl delete pod " + p.Name + " -n " + p.Namespace +
				" --grace-period=0 --force"}}
	if over(p) && len(p.Spec.Volumes) > 0 {
		f.Says = "has ended, and its node does not let it go: mostly a volume that can't be unmounted there"
		f.Next = converge.Does(converge.AgentOf(p), "unmounts its volumes and removes the pod")
		f.Advice[0] = "see what holds its volumes on " + p.Spec.NodeName + " (findmnt, by the pod's uid), and the node agent's log there"
	}
	if e := l.Warning(p.UID, "FailedKillPod", "FailedPreStopHook", "FailedUnmount", "FailedUnMount"); e != nil {
		f.Error = general.EventFailure(e)
		f.Says += "; its node says: " + words.OneLine(e.Message)
		if s, ok := words.Meaning(sandboxless, e.Message); ok {
			f.Advice = append([]string{strings.ReplaceAll(s.Advice(), "{}", p.Spec.NodeName)}, f.Advice...)
		}
	}
	return f
}

// over says that all containers of a pod have ended.
func over(p *corev1.Pod) bool {
	return len(p.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil
	})
}

// claimInUse is the finalizer that keeps a claim while pods use it (KEP 1747). Upstream's loop waits for pods that have ended,
// too; kloop's for pods on nodes alone.
func claimInUse(l *converge.Look) *converge.Finding {
	c := l.Obj.(*corev1.PersistentVolumeClaim)
	pods := slices.DeleteFunc(health.Users(l.World, c), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	if own, _ := l.Runs("pvc-protection"); !own && len(pods) == 0 { // upstream's loop also waits for pods that have ended
		pods = endedUsers(l, c)
	}
	if !slices.Contains(c.Finalizers, "kubernetes.io/pvc-protection") || len(pods) == 0 {
		return nil
	}
	r := converge.RefTo(kinds.Pods, pods[0])
	if core.Terminal(pods[0]) {
		return &converge.Finding{Says: "is held by pod/" + pods[0].Name + general.AndMore(len(pods)-1) +
			", which has ended and still counts",
			Owner: "pvc-protection",
			State: converge.Blocked, Waits: converge.On("Object", r, ""), Next: converge.Does("pvc-protection",
				"lets it go when the pod is deleted"),
			Advice: []string{"kubectl delete pod " + pods[0].Name + " -n " + pods[0].Namespace}}
	}
	for _, p := range pods {
		if p.DeletionTimestamp != nil && !l.Health(kinds.Pods, p).Converged() { // what keeps that is the news
			r := converge.RefTo(kinds.Pods, p)
			return &converge.Finding{Says: "is used by pod/" + p.Name + ", which was deleted and is still there", Owner: "pvc-protection",
				State: converge.Waiting, Waits: converge.On("Object", r, ""), Next: converge.Does("pvc-protection", "lets it go when that is gone"),
				Below: []converge.Ref{r}}
		}
	}
	return &converge.Finding{Says: "is used by pod/" + pods[0].Name + general.AndMore(len(pods)-1), Owner: "pvc-protection",
		State:  converge.Blocked,
		Waits:  converge.On("Object", r, ""),
		Next:   converge.Does("pvc-protection", "lets it go when no pod uses it"),
		Advice: []string{freed(l.World, pods[0])}}
}

// endedUsers are the pods that used a claim and have ended.
func endedUsers(l *converge.Look, c *corev1.PersistentVolumeClaim) (list []*corev1.Pod) {
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
func volumeAttached(l *converge.Look) *converge.Finding {
	if !slices.ContainsFunc(l.Obj.GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, "external-attacher/") }) {
		return nil
	}
	for _, a := range resource.List(l.Read, kinds.VolumeAttachments, "") {
		if ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == l.Obj.GetName() {
			who := "the driver " + a.Spec.Attacher
			f := &converge.Finding{Says: "is still attached to node " + a.Spec.NodeName + ", as volumeattachment/" + a.Name + " says",
				Owner:  who,
				State:  converge.Waiting,
				Waits:  converge.On("Object", converge.RefTo(kinds.VolumeAttachments, a), ""),
				Next:   converge.Does(who, "removes its finalizer when it has detached the volume"),
				Advice: []string{"see why it is not detached: kubectl describe volumeattachment " + a.Name}}
			if resource.Get(l.Read, kinds.Nodes, "", a.Spec.NodeName) == nil && l.Sees(kinds.Nodes) {
				f.Says, f.State = f.Says+"; that node is there no more", converge.Blocked
				f.Advice = []string{letGo(a)}
			}
			return f
		}
	}
	return nil
}

// letGo is advice to take an attachment away by hand whose node is gone, so that nobody detaches the volume.
func letGo(a *storagev1.VolumeAttachment) string {
	var steps []string
	if a.DeletionTimestamp == nil {
		steps = append(steps, "kubectl delete volumeattachment "+a.Name+" --wait=false")
	}
	if len(a.Finalizers) > 0 || len(steps) == 0 {
		steps = append(steps, converge.Merged(converge.RefTo(kinds.VolumeAttachments, a), nil, "metadata", "finalizers"))
	}
	return "if that node is gone for good, let the cluster forget that it has the volume: " + strings.Join(steps, " && ")
}

// volumeInUse is the finalizer that keeps a volume while a claim is bound to it.
func volumeInUse(l *converge.Look) *converge.Finding {
	v := l.Obj.(*corev1.PersistentVolume)
	if !slices.Contains(v.Finalizers, "kubernetes.io/pv-protection") || v.Spec.ClaimRef == nil || v.Status.Phase != corev1.VolumeBound {
		return nil
	}
	r := converge.Ref{Kind: kinds.PersistentVolumeClaims, NS: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name}
	return &converge.Finding{Says: "is bound to persistentvolumeclaim/" + r.Name, Owner: "pv-protection", State: converge.Blocked,
		Waits:  converge.On("Object", r, ""),
		Next:   converge.Does("pv-protection", "lets it go when the claim is gone"),
		Advice: []string{"delete the claim " + r.NS + "/" + r.Name}}
}

// rangeInUse: addresses of the range are given to services, and no other range has them.
func rangeInUse(l *converge.Look) *converge.Finding {
	s := l.Obj.(*networkingv1.ServiceCIDR)
	var left []converge.Ref
	var users []string
	for _, a := range resource.List(l.Read, kinds.IPAddresses, "") {
		ip, err := netip.ParseAddr(a.Name)
		if err == nil && a.Spec.ParentRef != nil && slices.ContainsFunc(s.Spec.CIDRs, func(c string) bool {
			p, err := netip.ParsePrefix(c)
			return err == nil && p.Contains(ip)
		}) {
			left, users = append(left, converge.RefTo(kinds.IPAddresses, a)),
				append(users, a.Spec.ParentRef.Namespace+"/"+a.Spec.ParentRef.Name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(users)
	return &converge.Finding{Says: "has addresses that services have: " + words.List(users, 3), Owner: "service-cidr",
		State: converge.Blocked,
		Waits: converge.On("Object", left[0], ""),
		Next:  converge.Does("service-cidr", "lets it go when none is left, or another ServiceCIDR has them too"),
		Advice: []string{"delete these services, or make them anew, so that they get addresses of another range: " +
			"kubectl get services -A -o wide"}}
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

// freed advises to have no pod use a claim any more.
func freed(w *converge.World, p *corev1.Pod) string {
	const advice = "have no pod use it any more"
	if top, ok := changeable(w, kinds.Pods, p); ok && (top.Kind == kinds.Deployments || top.Kind == kinds.StatefulSets) {
		return advice + ": kubectl scale " + top.Kind.Info().Singular + " " + top.Name + " -n " + top.NS + " --replicas=0"
	}
	if len(p.OwnerReferences) == 0 {
		return advice + ": kubectl delete pod " + p.Name + " -n " + p.Namespace
	}
	return "delete the pods that use it, or scale their workload down"
}
