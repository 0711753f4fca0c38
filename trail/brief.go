package trail

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
)

// ignored are the resources whose writes tell nothing: heartbeats, and what is a log itself.
var ignored = map[string]bool{"events": true, "events.events.k8s.io": true, "leases.coordination.k8s.io": true}

// News says in a few words how objects changed whose types the trail does not know.
type News func(old, now resource.Object) []string

// write makes the log's entry of a change; false: it is not worth one.
func (c *Change) write(news News) (w Write, ok bool) {
	gr := c.Kind.Info().GR().String()
	if ignored[gr] {
		return w, false
	}
	obj := c.New
	if obj == nil {
		obj = c.Old
	}
	w = Write{Ref: Ref{Resource: gr, Namespace: obj.GetNamespace(), Name: obj.GetName(), Rev: c.Rev}, UID: string(obj.GetUID()),
		User: c.User, Manager: c.Manager, Agent: c.Agent, Cause: c.Cause}
	if o := metav1.GetControllerOfNoCopy(obj); o != nil {
		w.OwnerKind, w.OwnerName = o.Kind, o.Name
	}
	switch {
	case c.Old == nil:
		w.Verb, w.What = Created, born(c.Kind, obj)
	case c.New == nil:
		w.Verb, w.What = Deleted, c.collected()
	case c.Old.GetDeletionTimestamp() == nil && c.New.GetDeletionTimestamp() != nil:
		w.Verb = Marked
		w.What = c.collected()
		if f := c.New.GetFinalizers(); len(f) > 0 {
			w.What = strings.TrimPrefix(w.What+"; held by "+strings.Join(f, ", "), "; ")
		}
	default:
		w.Verb, w.What = Changed, brief(c.Kind, c.Old, c.New, news)
		if _, node := obj.(*corev1.Node); node && w.What == "status" {
			return w, false // a heartbeat
		}
	}
	return w, true
}

// ofOwners ends what is said of an object that garbage collection takes.
const ofOwners = ", gone or going"

// collected says why garbage collection takes an object: none of its owners stays.
func (c *Change) collected() string {
	if c.Cause == nil || c.Cause.Loop != "garbage-collector" || c.Old.GetDeletionTimestamp() != nil {
		return ""
	}
	var names []string
	for _, o := range c.Old.GetOwnerReferences() {
		names = append(names, strings.ToLower(o.Kind)+"/"+o.Name)
	}
	return "belongs to " + strings.Join(names, ", ") + ofOwners
}

// born is worth saying of a new object.
func born(k resource.Kind, obj resource.Object) string {
	if s, ok := resource.ScaleOf(k, obj); ok {
		return fmt.Sprintf("%d replicas", s.Replicas)
	}
	return ""
}

// brief says in a few words how an object changed.
func brief(k resource.Kind, old, now resource.Object, news News) string {
	var words []string
	say := func(text string) {
		if text != "" {
			words = append(words, text)
		}
	}
	if a, ok := resource.ScaleOf(k, old); ok {
		if b, _ := resource.ScaleOf(k, now); a.Replicas != b.Replicas {
			say(fmt.Sprintf("replicas %d → %d", a.Replicas, b.Replicas))
		}
	}
	switch b := now.(type) {
	case *corev1.Pod:
		say(podNews(old.(*corev1.Pod), b))
	case *corev1.Node:
		say(nodeNews(old.(*corev1.Node), b))
	case *discoveryv1.EndpointSlice:
		say(Count("ready endpoints", ready(old.(*discoveryv1.EndpointSlice)), ready(b)))
	case *corev1.PersistentVolumeClaim:
		say(turn(string(old.(*corev1.PersistentVolumeClaim).Status.Phase), string(b.Status.Phase)))
	case *corev1.PersistentVolume:
		say(turn(string(old.(*corev1.PersistentVolume).Status.Phase), string(b.Status.Phase)))
	case *corev1.Namespace:
		say(turn(string(old.(*corev1.Namespace).Status.Phase), string(b.Status.Phase)))
	default:
		if news != nil {
			for _, text := range news(old, now) {
				say(text)
			}
		}
	}
	if len(words) == 0 {
		return part(old, now)
	}
	return strings.Join(words, ", ")
}

func missing(from, in []string) (list []string) {
	has := map[string]bool{}
	for _, s := range in {
		has[s] = true
	}
	for _, s := range from {
		if !has[s] {
			list = append(list, s)
		}
	}
	return list
}

func podNews(a, b *corev1.Pod) string {
	var words []string
	if a.Spec.NodeName != b.Spec.NodeName {
		words = append(words, "bound to "+b.Spec.NodeName)
	}
	if a.Status.Phase != b.Status.Phase {
		words = append(words, string(b.Status.Phase))
	}
	if x, y := isTrue(a, corev1.PodReady), isTrue(b, corev1.PodReady); x != y {
		words = append(words, map[bool]string{true: "Ready", false: "no longer Ready"}[y])
	}
	if x, y := trouble(a), trouble(b); x != y && y != "" {
		words = append(words, y)
	}
	if c := find(b, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && find(a, corev1.PodScheduled) == nil {
		words = append(words, c.Reason)
	}
	return strings.Join(words, ", ")
}

func find(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func isTrue(p *corev1.Pod, t corev1.PodConditionType) bool {
	c := find(p, t)
	return c != nil && c.Status == corev1.ConditionTrue
}

// trouble is why a container does not run.
func trouble(p *corev1.Pod) string {
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return c.Name + " " + w.Reason
			}
		}
	}
	return ""
}

func nodeNews(a, b *corev1.Node) string {
	state := func(n *corev1.Node) string {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return map[corev1.ConditionStatus]string{corev1.ConditionTrue: "Ready", corev1.ConditionFalse: "NotReady",
					corev1.ConditionUnknown: "silent"}[c.Status]
			}
		}
		return ""
	}
	text := turn(state(a), state(b))
	if a.Spec.Unschedulable != b.Spec.Unschedulable {
		return map[bool]string{true: "cordoned", false: "uncordoned"}[b.Spec.Unschedulable]
	}
	if len(a.Spec.Taints) != len(b.Spec.Taints) {
		return strings.TrimPrefix(text+fmt.Sprintf(", %d taints", len(b.Spec.Taints)), ", ")
	}
	return text
}

func ready(s *discoveryv1.EndpointSlice) (n int32) {
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			n++
		}
	}
	return n
}

// Count says how a number changed; "": it did not.
func Count(what string, a, b int32) string {
	if a == b {
		return ""
	}
	return fmt.Sprintf("%s %d → %d", what, a, b)
}

func turn(a, b string) string {
	if a == b {
		return ""
	}
	return b
}
