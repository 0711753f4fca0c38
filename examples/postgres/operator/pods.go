package operator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// Steps are the changes to pods and claims that one pass makes. Each is safe by itself, and seen by the next pass.
type Steps struct {
	MakeClaims []*corev1.PersistentVolumeClaim
	MakePods   []*corev1.Pod
	StopPods   []string
	DropClaims []string
	Roles      map[string]string            // label RoleLabel, of pods whose label differs
	ClaimRoles map[string]string            // the same of claims
	Grow       map[string]resource.Quantity // claims that are too small
}

// decidePods compares pods and claims with what should be, for a status that is written already.
func decidePods(w World) Steps {
	s := Steps{Roles: map[string]string{}, ClaimRoles: map[string]string{}, Grow: map[string]resource.Quantity{}}
	if w.Cluster.DeletionTimestamp != nil {
		s.stop(w)
		return s
	}
	s.make(w)
	s.label(w)
	s.shrink(w)
	if len(s.StopPods) == 0 && w.steady() {
		s.roll(w)
	}
	return s
}

// make adds what is missing. Standbys come when there is something to copy.
func (s *Steps) make(w World) {
	c := w.Cluster
	for _, name := range w.names() {
		if name != c.Status.TargetPrimary && c.Status.SystemID == "" {
			continue
		}
		s.one(w, instancePod(c, name), claim(c, name, map[string]string{v1alpha1.InstanceLabel: name}))
	}
	if target := c.Status.TargetPrimary; c.Ordinal(target) > c.Instances() { // one too many, and primary still
		s.one(w, instancePod(c, target), claim(c, target, map[string]string{v1alpha1.InstanceLabel: target}))
	}
	if c.Spec.BackupSchedule != "" {
		s.one(w, archivePod(c), claim(c, archiveName(c), nil))
	}
}

func (s *Steps) one(w World, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	have := w.Claims[claim.Name]
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case have == nil:
		s.MakeClaims = append(s.MakeClaims, claim)
	case have.Spec.Resources.Requests.Storage().Cmp(size) < 0:
		s.Grow[claim.Name] = size
	}
	switch p := w.Pods[pod.Name]; {
	case p == nil:
		s.MakePods = append(s.MakePods, pod)
	case p.DeletionTimestamp == nil && !stays(p):
		s.StopPods = append(s.StopPods, p.Name) // it was evicted
	case pod.Labels[v1alpha1.InstanceLabel] == "" && p.DeletionTimestamp == nil && w.outdated(p.Name):
		s.StopPods = append(s.StopPods, p.Name) // the archive serves nobody who can't wait
	}
}

// label sends clients where they belong. Nobody is primary while an election is open.
func (s *Steps) label(w World) {
	status := w.Cluster.Status
	for name, p := range w.Pods {
		if p.Labels[v1alpha1.InstanceLabel] == "" {
			continue
		}
		role := v1alpha1.Replica
		if status.Election == nil && name == status.TargetPrimary && name == status.CurrentPrimary {
			role = v1alpha1.Primary
		}
		if p.Labels[v1alpha1.RoleLabel] != role {
			s.Roles[name] = role
		}
	}
	if status.CurrentPrimary == "" || status.Election != nil {
		return
	}
	for name, c := range w.Claims {
		role := ""
		if name == status.CurrentPrimary {
			role = v1alpha1.Primary
		}
		if c.Labels[v1alpha1.InstanceLabel] != "" && c.Labels[v1alpha1.RoleLabel] != role {
			s.ClaimRoles[name] = role
		}
	}
}

// shrink removes instances that are too many, with their data, once a primary that remains does not wait for them.
func (s *Steps) shrink(w World) {
	c := w.Cluster
	if !w.leads() || c.Status.QuorumBefore != nil || c.Ordinal(c.Status.TargetPrimary) > c.Instances() {
		return
	}
	q := c.Status.Quorum
	extra := func(name string) bool {
		return c.Ordinal(name) > c.Instances() && (q == nil || !slices.Contains(q.Members, name))
	}
	for name, p := range w.Pods {
		if extra(name) && p.DeletionTimestamp == nil {
			s.StopPods = append(s.StopPods, name)
		}
	}
	for name, claim := range w.Claims {
		if extra(name) && w.Pods[name] == nil && claim.DeletionTimestamp == nil {
			s.DropClaims = append(s.DropClaims, name)
		}
	}
	slices.Sort(s.StopPods)
	slices.Sort(s.DropClaims)
}

// roll replaces one pod of an older template: standbys first, from the last one on. A primary with standbys has handed over before.
// A standby that has paused serves nobody, and can't before it starts anew.
func (s *Steps) roll(w World) {
	names := w.names()
	slices.Reverse(names)
	for _, name := range names {
		mayGo := w.settled() || w.report(name).Paused
		if w.outdated(name) && mayGo && (name != w.Cluster.Status.TargetPrimary || len(names) == 1) {
			s.StopPods = append(s.StopPods, name)
			return
		}
	}
}

// steady says whether there is a primary and all pods are there.
func (w World) steady() bool {
	status := w.Cluster.Status
	if !w.leads() || status.Election != nil || status.QuorumBefore != nil || status.CurrentPrimary != status.TargetPrimary {
		return false
	}
	return !slices.ContainsFunc(w.names(), func(name string) bool { return !stays(w.Pods[name]) })
}

// settled says whether all instances have caught up and have told what the cluster's present settings mean to them: one may go.
func (w World) settled() bool {
	for _, name := range w.names() {
		if w.unasked(name) || name != w.Cluster.Status.TargetPrimary && !w.streams(name) {
			return false
		}
	}
	return w.steady()
}

// streams says whether a standby has caught up, as far as the primary knows.
func (w World) streams(name string) bool {
	return slices.Contains(w.report(w.Cluster.Status.TargetPrimary).Streaming, name)
}

// unasked says whether an instance runs that may not have read the cluster's settings yet.
func (w World) unasked(name string) bool {
	r := w.report(name)
	return r.Role != "" && r.Generation != w.Cluster.Generation
}

// outdated says whether a pod is of an older template, or has settings that wait for a restart.
func (w World) outdated(name string) bool {
	p := w.Pods[name]
	if p == nil {
		return false
	}
	program := "instance"
	if p.Labels[v1alpha1.InstanceLabel] == "" {
		program = v1alpha1.Archive
	}
	return p.Annotations[v1alpha1.HashAnno] != hash(podSpec(w.Cluster, name, program)) || w.report(name).Restart
}

// stop ends a cluster that is deleted: standbys, then the primary, which sends its last WAL to the archive, then the archive.
func (s *Steps) stop(w World) {
	var standbys, primary, archive []string
	left := 0
	for name, p := range w.Pods {
		left++
		list := &standbys
		switch {
		case p.DeletionTimestamp != nil:
			continue
		case p.Labels[v1alpha1.InstanceLabel] == "":
			list = &archive
		case name == w.Cluster.Status.TargetPrimary:
			list = &primary
		}
		*list = append(*list, name)
	}
	switch {
	case len(standbys) > 0:
		s.StopPods = standbys
	case left == len(primary)+len(archive) && len(primary) > 0:
		s.StopPods = primary
	case left == len(archive) && len(archive) > 0:
		s.StopPods = archive
	case left == 0 && w.Cluster.Spec.DeletionPolicy == "Delete":
		for name, c := range w.Claims {
			if c.DeletionTimestamp == nil {
				s.DropClaims = append(s.DropClaims, name)
			}
		}
	}
	slices.Sort(s.StopPods)
	slices.Sort(s.DropClaims)
}
