package causes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/resource"
)

// volumeAway: the pod's volume lies on the disk of a node that can't take it now.
func volumeAway(l *converge.Look, p *corev1.Pod, _ string) *converge.Finding {
	if !l.Sees(kinds.Nodes, "") {
		return nil
	}
	for _, name := range core.ClaimNames(p) {
		v := volumeOfClaim(l, p.Namespace, name)
		if v == nil {
			continue
		}
		node := homeOf(v)
		why := away(resource.Get(l.Read, kinds.Nodes, "", node))
		if node == "" || why == "" {
			continue
		}
		r := converge.Ref{Kind: kinds.Nodes, NS: "", Name: node}
		return &converge.Finding{Says: fmt.Sprintf("can run only on node %s, where its volume %s lies, and that node %s", node, v.Name,
			why),
			State: converge.Blocked,
			Waits: converge.On("Object", r, ""), Next: converge.Does("scheduler", "schedules it when node %s is back", node),
			Advice: []string{broughtBack(resource.Get(l.Read, kinds.Nodes, "", node)), "or go on without the data: delete persistentvolumeclaim/" +
				name + " and the pod: kubectl delete pvc " + name + " -n " + p.Namespace + " --wait=false && kubectl delete pod " + p.Name +
				" -n " + p.Namespace}}
	}
	return nil
}

// broughtBack is the step by which a node takes pods again.
func broughtBack(n *corev1.Node) string {
	if n != nil && n.Spec.Unschedulable {
		return "kubectl uncordon " + n.Name
	}
	return "bring the node back"
}

// reclaimWaits: the volume's node has not removed yet what lies on its disk.
func reclaimWaits(l *converge.Look) *converge.Finding {
	v := l.Obj.(*corev1.PersistentVolume)
	why := health.Unremoved(l.World, v)
	if why == "" {
		return nil
	}
	node := v.Annotations[localvolume.Node]
	who := "node agent on " + node
	return &converge.Finding{Says: "waits for node " + node + " to remove what lies on its disk, and " + why, State: converge.Waiting,
		Owner:  who,
		Waits:  converge.On("Object", converge.Ref{Kind: kinds.Nodes, NS: "", Name: node}, ""),
		Next:   converge.Does(who, "removes it, and then the volume goes"),
		Advice: []string{"bring node " + node + " back", "or, if it will not come back: kubectl delete node " + node}}
}

func volumeOfClaim(l *converge.Look, ns, name string) *corev1.PersistentVolume {
	c := resource.Get(l.Read, kinds.PersistentVolumeClaims, ns, name)
	if c == nil || c.Spec.VolumeName == "" {
		return nil
	}
	return resource.Get(l.Read, kinds.PersistentVolumes, "", c.Spec.VolumeName)
}

// homeOf names the one node that a volume can be used on; "": there may be several.
func homeOf(v *corev1.PersistentVolume) string {
	if n := v.Annotations[localvolume.Node]; n != "" {
		return n
	}
	a := v.Spec.NodeAffinity
	if a == nil || a.Required == nil || len(a.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, e := range a.Required.NodeSelectorTerms[0].MatchExpressions {
		if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Values[0]
		}
	}
	return ""
}

// away says why a node takes no pod; "": it may.
func away(n *corev1.Node) string {
	switch {
	case n == nil:
		return "does not exist"
	case n.DeletionTimestamp != nil:
		return "is being deleted"
	}
	if !health.NodeAnswers(n) {
		return "is not ready"
	}
	if n.Spec.Unschedulable {
		return "is cordoned"
	}
	return ""
}

// servedHere says that kloop's own local storage provisions for the class: some node offers it.
func servedHere(l *converge.Look, provisioner string) bool {
	if provisioner != localvolume.Provisioner {
		return false
	}
	for obj := range l.Read.Each(kinds.Nodes, "") {
		if n := obj.(*corev1.Node); n.Annotations[localvolume.Path] != "" || core.Simulated(n) {
			return true
		}
	}
	return false
}

// defaulting advises to have one of a few classes be the one of claims that name none.
func defaulting(classes []*storagev1.StorageClass) (advice []string) {
	for i, class := range classes {
		advice = append(advice, []string{"", "or "}[min(i, 1)]+"have "+class.Name+" be the default class: kubectl annotate storageclass "+
			class.Name+" storageclass.kubernetes.io/is-default-class=true")
	}
	return advice
}

// lessShared advises to make a claim anew for one node at a time, if it is to be used from many, which its driver can't do.
func lessShared(c *corev1.PersistentVolumeClaim) []string {
	if len(c.Spec.AccessModes) != 1 || c.Spec.AccessModes[0] != corev1.ReadWriteMany {
		return nil
	}
	return []string{"if one node at a time is enough, make the claim anew so: kubectl get pvc " + c.Name + " -n " + c.Namespace +
		" -o yaml | sed 's/ReadWriteMany/ReadWriteOnce/' | kubectl replace --force -f -"}
}
