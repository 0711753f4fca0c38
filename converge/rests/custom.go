package rests

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// restOfCustom tells of an object of a kind that users defined that it rests, by the words that operators have for it.
func restOfCustom(k resource.Kind, obj resource.Object, tree map[string]any) (string, string) {
	if says, advice := health.LeftAlone(k, obj, tree); says != "" {
		return says, advice
	}
	spec, _ := tree["spec"].(map[string]any)
	status, _ := tree["status"].(map[string]any)
	sync, _ := status["sync"].(map[string]any)
	policy, _ := spec["syncPolicy"].(map[string]any)
	done, _ := status["operationState"].(map[string]any)
	if words.String(sync, "status") == "OutOfSync" && words.String(done, "phase") != "Running" && policy["automated"] == nil {
		return "differs from its source, and nothing makes it follow by itself: it waits for somebody to sync it", ""
	}
	if h, _ := status["health"].(map[string]any); words.String(h, "status") == "Suspended" {
		return strings.TrimSuffix("is suspended: "+words.String(h, "message"), ": "), ""
	}
	return "", ""
}

// restOfIngress tells of an ingress without an address what is known: not all controllers write one.
func restOfIngress(w *converge.World, i *networkingv1.Ingress) (string, string) {
	if len(i.Status.LoadBalancer.Ingress) > 0 {
		return "", ""
	}
	who := "its controller"
	if c := resource.Get(w.Read, kinds.IngressClasses, "", ptr.Deref(i.Spec.IngressClassName, i.Annotations[health.OldClass])); c != nil {
		who = "the controller " + c.Spec.Controller
	}
	says := "has no address in its status, where " + who + " writes it, though not all controllers do"
	if w.Callers == nil {
		says += "; whether it runs is not known here"
	}
	return says, "kubectl get pods -A"
}
