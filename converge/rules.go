package converge

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// Rules are the knowledge of kinds. The zero value knows only what holds for objects of all kinds. A program links the rules
// that it names: no variable holds them all.
type Rules struct {
	Situations []Situation // the most telling first: of several that hold for an object, the first is shown
	Refusals   []Situation // those of them that explain an object that is as it should be though its loop fails
	Healths    map[schema.GroupResource]Judge
	// Custom judges objects of kinds that users defined, which Healths does not have.
	Custom func(w *World, k resource.Kind, obj resource.Object, tree map[string]any) Health
	// Rest explains an object that rests on purpose.
	Rest func(w *World, k resource.Kind, obj resource.Object) *convergence.Gap
	Pods Workloads // nil: there are none
}

// Workloads answer what rules for any object ask about those that run pods, so that a program without pods need not link their types.
type Workloads interface {
	// Template is the pod template of a workload; nil: it has none.
	Template(obj resource.Object) *corev1.PodTemplateSpec
	// Copies are the pods that a Deployment or StatefulSet wants, and those that are ready.
	Copies(obj resource.Object) (want, ready int32)
	// Short counts the pods that a workload still lacks.
	Short(obj resource.Object) int32
	// Makes words what a controller makes for an object, as pods or a job; "": nothing.
	Makes(obj resource.Object) string
	// Failure is why that can't be made, by the status or the events of the object; nil: it does not say.
	Failure(l *Look) *convergence.Failure
	// Asleep names the workload of a service that wants no pods, now or any more; "": there is none.
	Asleep(w *World, s *corev1.Service) string
	// Held tells why an object that is deleted does not go: by its own status, and what else may stand in its way, with what helps.
	Held(w *World, obj resource.Object) (told, aside, advice string)
	// Spoken adds to a finding what is known of the surroundings of pods that the controller of an object speaks of.
	Spoken(l *Look, f *Finding, tree map[string]any, message string)
	// Reimage advises to take the images of a template from where a policy wants them to be.
	Reimage(l *Look, f *Finding, why string)
	// Severed tells why the API server does not reach what a text says that it asks; "": no network policy is in its way.
	Severed(l *Look, text string) (says string, advice []string)
}

// Workloads are those of the rules, or none.
func (w *World) Workloads() Workloads {
	if w.Rules.Pods == nil {
		return noWorkloads{}
	}
	return w.Rules.Pods
}

// noWorkloads are those of a control plane without pods.
type noWorkloads struct{}

func (noWorkloads) Template(resource.Object) *corev1.PodTemplateSpec { return nil }

func (noWorkloads) Copies(resource.Object) (want, ready int32) { return 0, 0 }

func (noWorkloads) Short(resource.Object) int32 { return 0 }

func (noWorkloads) Makes(resource.Object) string { return "" }

func (noWorkloads) Failure(*Look) *convergence.Failure { return nil }

func (noWorkloads) Asleep(*World, *corev1.Service) string { return "" }

func (noWorkloads) Held(*World, resource.Object) (told, aside, advice string) { return "", "", "" }

func (noWorkloads) Spoken(*Look, *Finding, map[string]any, string) {}

func (noWorkloads) Reimage(*Look, *Finding, string) {}

func (noWorkloads) Severed(*Look, string) (says string, advice []string) { return "", nil }

// Served are those of some kinds that the cluster has, in their order.
func (w *World) Served(names ...schema.GroupResource) (list []resource.Kind) {
	for _, gr := range names {
		if k, ok := w.Kinds.GR(gr); ok {
			list = append(list, k)
		}
	}
	return list
}
