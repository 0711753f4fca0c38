package plan

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/sim"
)

// What is taken for the times of containers that nothing is known of.
const (
	usualReady = 5 * time.Second
	usualStop  = 2 * time.Second
	usualRun   = time.Minute      // of a pod of a Job
	youth      = 5 * time.Minute  // a pod that is no older may still be on its way
	slowest    = 30 * time.Minute // what took longer to become ready was held up by something else
)

// An ownerKey names what pods of one make have in common: what controls them, and the revision of its template.
type ownerKey struct{ ns, kind, name, revision string }

func ownerOf(p *corev1.Pod) ownerKey {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return ownerKey{}
	}
	return ownerKey{p.Namespace, ref.Kind, ref.Name, p.Labels[appsv1.ControllerRevisionHashLabelKey]}
}

// A life tells how pods of one make were seen to live, and so how others of it are expected to.
type life struct {
	ready  time.Duration // from their start
	run    time.Duration // of those that ended well
	broken string        // an annotation of package sim that breaks them alike; "": they are well
	value  string        // of the annotation
}

// learn looks at all pods on nodes that are real. Those on simulated ones say themselves what they do.
func learn(f *Fork, real map[string]bool) map[ownerKey]life {
	type record struct {
		ready, run  []time.Duration
		well        int
		how, images string
	}
	seen := map[ownerKey]*record{}
	at := func(key ownerKey) *record {
		if seen[key] == nil {
			seen[key] = &record{}
		}
		return seen[key]
	}
	deployments := deploymentsOf(f)
	for p := range each(f, kinds.Pods) {
		key := ownerOf(p)
		if key.name == "" || !real[p.Spec.NodeName] {
			continue
		}
		r := at(key)
		if c := readiness(p); c != nil && p.Status.StartTime != nil {
			r.well++
			if took := c.LastTransitionTime.Sub(p.Status.StartTime.Time); took >= 0 && took <= slowest {
				r.ready = append(r.ready, took)
				if d, ok := deployments[key]; ok { // its next revision is expected to be as quick
					at(d).ready = append(at(d).ready, took)
				}
			}
		}
		if took := ranFor(p); took > 0 {
			r.run = append(r.run, took)
		}
		if how := broken(p); how != "" {
			r.how, r.images = how, failingImages(p)
		}
	}
	lives := map[ownerKey]life{}
	for key, r := range seen {
		l := life{ready: median(r.ready), run: median(r.run)}
		if r.well == 0 && r.how != "" {
			l.broken, l.value = r.how, cmp.Or(r.images, "1")
		}
		lives[key] = l
	}
	return lives
}

// deploymentsOf leads from ReplicaSets to the Deployments that they belong to.
func deploymentsOf(f *Fork) map[ownerKey]ownerKey {
	of := map[ownerKey]ownerKey{}
	for rs := range each(f, kinds.ReplicaSets) {
		if ref := metav1.GetControllerOfNoCopy(rs); ref != nil {
			of[ownerKey{ns: rs.Namespace, kind: "ReplicaSet", name: rs.Name}] = ownerKey{ns: rs.Namespace, kind: ref.Kind, name: ref.Name}
		}
	}
	return of
}

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// ranFor is the time that the longest container of a pod ran, if the pod ended well; 0: it did not.
func ranFor(p *corev1.Pod) (most time.Duration) {
	if p.Status.Phase != corev1.PodSucceeded {
		return 0
	}
	for i := range p.Status.ContainerStatuses {
		if t := p.Status.ContainerStatuses[i].State.Terminated; t != nil {
			most = max(most, t.FinishedAt.Sub(t.StartedAt.Time))
		}
	}
	return most
}

// broken says how a pod fails for a reason of its own: as the annotation of package sim that would break it so. "": it does not. What
// it only waits for (a ConfigMap, a volume) may come, and is seen by the simulation itself.
func broken(p *corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil {
			switch w.Reason {
			case "CrashLoopBackOff", "RunContainerError", "CreateContainerError":
				return sim.Crash
			case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull":
				return sim.PullError
			}
		}
		if s.State.Terminated != nil && s.State.Terminated.ExitCode != 0 && p.Spec.RestartPolicy == corev1.RestartPolicyAlways {
			return sim.Crash
		}
	}
	return ""
}

func failingImages(p *corev1.Pod) string {
	var images []string
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && strings.Contains(w.Reason, "Image") {
			images = append(images, s.Image)
		}
	}
	return strings.Join(images, ",")
}

// starting says that a pod is on its way and nothing is known to be in it.
func starting(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodPending {
		return false
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.RestartCount > 0 {
			return false
		}
	}
	return true
}

// expect is an admission plugin: it has new pods live as others of their make do. Those of a new revision become ready as fast as
// the pods of the same Deployment, StatefulSet or DaemonSet did before.
func (s *seed) expect() admission.Plugin {
	return admission.Plugin{Name: "PlanExpectations", Mutate: func(_ context.Context, r *admission.Request) error {
		p, ok := r.Object.(*corev1.Pod)
		if !ok || r.Op != admission.Create || r.Sub != "" {
			return nil
		}
		key := ownerOf(p)
		l, known := s.lives[key]
		if !known && key.kind == "ReplicaSet" {
			if rs := r.Read.Lookup(kinds.ReplicaSets, p.Namespace, key.name); rs != nil {
				if ref := metav1.GetControllerOfNoCopy(rs); ref != nil {
					l, known = s.lives[ownerKey{ns: p.Namespace, kind: ref.Kind, name: ref.Name}]
				}
			}
		}
		if key.revision != "" && !known { // the next revision of a StatefulSet or DaemonSet
			l, known = s.quickest(key)
		}
		if known || s.real {
			l.apply(p)
		}
		return nil
	}}
}

// quickest returns the life of the quickest pods of the same owner, whatever their revision, without their troubles.
func (s *seed) quickest(key ownerKey) (l life, known bool) {
	for other, o := range s.lives {
		if other.ns == key.ns && other.kind == key.kind && other.name == key.name && o.ready > 0 && (!known || o.ready < l.ready) {
			l, known = life{ready: o.ready}, true
		}
	}
	return l, known
}

func (l life) apply(p *corev1.Pod) {
	set := func(key, value string) {
		if _, there := p.Annotations[key]; !there {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
		}
	}
	if l.broken != "" {
		set(l.broken, l.value)
	}
	if l.ready > 0 {
		set(sim.Ready, l.ready.String())
	}
	if controlledBy(p, "Job") {
		set(sim.Run, cmp.Or(l.run, usualRun).String())
	}
}
