package converge

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// restOfCustom tells of an object of a kind that users defined that its controller is to leave it alone, by the words that operators
// have for it: suspend is Flux', paused is KEDA's, the Cluster API's and Crossplane's, suspended is Argo CD's.
func restOfCustom(k resource.Kind, obj resource.Object, tree map[string]any) (string, string) {
	spec, _ := tree["spec"].(map[string]any)
	status, _ := tree["status"].(map[string]any)
	patch := func(field, value string) string {
		command := "kubectl patch " + k.Info().GR().String() + " " + obj.GetName()
		if ns := obj.GetNamespace(); ns != "" {
			command += " -n " + ns
		}
		return command + ` --type=merge -p '{"spec":{"` + field + `":` + value + `}}'`
	}
	for _, field := range []string{"suspend", "suspended", "paused", "pause"} {
		if on, _ := spec[field].(bool); on {
			return "is left alone by its controller, since spec." + field + " is true", patch(field, "false")
		}
	}
	for _, mark := range []string{"crossplane.io/paused", "cluster.x-k8s.io/paused", "autoscaling.keda.sh/paused"} {
		if value, is := obj.GetAnnotations()[mark]; is && value != "false" {
			return "is left alone by its controller, since it has the annotation " + mark, ""
		}
	}
	if c, is := conditionsIn(status)["Paused"]; is && c.Status == "True" {
		return strings.TrimSuffix("is paused: "+c.Message, ": "), ""
	}
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
	if c := resource.Get(w.Read, kinds.IngressClasses, "", deref(i.Spec.IngressClassName, i.Annotations[oldClass])); c != nil {
		who = "the controller " + c.Spec.Controller
	}
	says := "has no address in its status, where " + who + " writes it, though not all controllers do"
	if w.Callers == nil {
		says += "; whether it runs is not known here"
	}
	return says, "kubectl get pods -A"
}
