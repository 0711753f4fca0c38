package converge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// halts are fields of a spec, with values, by which operators leave an object alone or stop it: suspend is Flux', paused is KEDA's, the
// Cluster API's and Crossplane's, suspended is Argo CD's, running and runStrategy are KubeVirt's, status is Tekton's.
var halts = []string{"suspend=true", "suspended=true", "paused=true", "pause=true", "running=false", "runStrategy=Halted",
	"status=Cancelled", "status=CancelledRunFinally", "status=StoppedRunFinally", "status=TaskRunCancelled", "status=PipelineRunPending",
	"desiredState=stopped", "desiredState=paused", "powerState=off"}

// pauses are the ends of annotations by which they do.
var pauses = []string{"paused", "pause", "paused-replicas", "pause-reconciliation", "reconcile-paused", "suspend", "hibernation"}

// leftAlone says what bids an object's controller leave it alone, or stop it. What its status complains of is of no matter then.
func leftAlone(k resource.Kind, obj resource.Object, tree map[string]any) (says, advice string) {
	spec, _ := tree["spec"].(map[string]any)
	of := k.Info().GR().String() + " " + obj.GetName()
	if ns := obj.GetNamespace(); ns != "" {
		of += " -n " + ns
	}
	for _, halt := range halts {
		field, value, _ := strings.Cut(halt, "=")
		if is := fmt.Sprint(spec[field]); !strings.EqualFold(is, value) {
			continue
		}
		if value == "true" || value == "false" {
			advice = fmt.Sprintf(`kubectl patch %s --type=merge -p '{"spec":{"%s":%t}}'`, of, field, value == "false")
		}
		return "is left alone by its controller, since spec." + field + " is " + value, advice
	}
	annotations := obj.GetAnnotations()
	for _, mark := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[mark]
		if _, end, _ := strings.Cut(mark, "/"); slices.Contains(pauses, end) && value != "false" && value != "off" {
			return "is left alone by its controller, since it has the annotation " + mark, "kubectl annotate " + of + " " + mark + "-"
		}
	}
	status, _ := tree["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, item := range list {
		c, _ := item.(map[string]any)
		if typ := text(c, "type"); (typ == "Paused" || typ == "Ignored") && text(c, "status") == "True" {
			return strings.TrimSuffix("is "+strings.ToLower(typ)+": "+text(c, "message"), ": "), ""
		}
	}
	return "", ""
}

// restOfCustom tells of an object of a kind that users defined that it rests, by the words that operators have for it.
func restOfCustom(k resource.Kind, obj resource.Object, tree map[string]any) (string, string) {
	if says, advice := leftAlone(k, obj, tree); says != "" {
		return says, advice
	}
	spec, _ := tree["spec"].(map[string]any)
	status, _ := tree["status"].(map[string]any)
	sync, _ := status["sync"].(map[string]any)
	policy, _ := spec["syncPolicy"].(map[string]any)
	done, _ := status["operationState"].(map[string]any)
	if text(sync, "status") == "OutOfSync" && text(done, "phase") != "Running" && policy["automated"] == nil {
		return "differs from its source, and nothing makes it follow by itself: it waits for somebody to sync it", ""
	}
	if h, _ := status["health"].(map[string]any); text(h, "status") == "Suspended" {
		return strings.TrimSuffix("is suspended: "+text(h, "message"), ": "), ""
	}
	return "", ""
}

// restOfIngress tells of an ingress without an address what is known: not all controllers write one.
func restOfIngress(w *World, i *networkingv1.Ingress) (string, string) {
	if len(i.Status.LoadBalancer.Ingress) > 0 {
		return "", ""
	}
	who := "its controller"
	if c := resource.Get(w.Read, kinds.IngressClasses, "", ptr.Deref(i.Spec.IngressClassName, i.Annotations[oldClass])); c != nil {
		who = "the controller " + c.Spec.Controller
	}
	says := "has no address in its status, where " + who + " writes it, though not all controllers do"
	if w.Callers == nil {
		says += "; whether it runs is not known here"
	}
	return says, "kubectl get pods -A"
}
