package general

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/resource"
)

// halts are fields of a spec, with values, by which operators leave an object alone or stop it: suspend is Flux', paused is KEDA's, the
// Cluster API's and Crossplane's, suspended is Argo CD's, running and runStrategy are KubeVirt's, status is Tekton's.
var halts = []string{"suspend=true", "suspended=true", "paused=true", "pause=true", "running=false", "runStrategy=Halted",
	"status=Cancelled", "status=CancelledRunFinally", "status=StoppedRunFinally", "status=TaskRunCancelled", "status=PipelineRunPending",
	"desiredState=stopped", "desiredState=paused", "powerState=off"}

// pauses are the ends of annotations by which they do.
var pauses = []string{"paused", "pause", "paused-replicas", "pause-reconciliation", "reconcile-paused", "suspend", "hibernation"}

// LeftAlone says what bids an object's controller leave it alone, or stop it. What its status complains of is of no matter then.
func LeftAlone(k resource.Kind, obj resource.Object, tree map[string]any) (says, advice string) {
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
		if typ := words.String(c, "type"); (typ == "Paused" || typ == "Ignored") && words.String(c, "status") == "True" {
			says = strings.TrimSuffix("is "+strings.ToLower(typ)+": "+words.String(c, "message"), ": ")
			return says + stepOf(spec, status), unpause(of, status)
		}
	}
	return "", ""
}

// stepOf tells at which of its steps a rollout is.
func stepOf(spec, status map[string]any) string {
	strategy, _ := spec["strategy"].(map[string]any)
	canary, _ := strategy["canary"].(map[string]any)
	steps, _ := canary["steps"].([]any)
	if at, is := status["currentStepIndex"].(int64); is && len(steps) > 0 {
		return fmt.Sprintf(", at step %d of %d", at+1, len(steps))
	}
	return ""
}

// unpause is the command by which what notes in its status why it is paused goes on, as Argo's rollouts are promoted; "": it notes nothing.
func unpause(of string, status map[string]any) string {
	if list, _ := status["pauseConditions"].([]any); len(list) == 0 {
		return ""
	}
	return "kubectl patch " + of + ` --subresource=status --type=merge -p '{"status":{"pauseConditions":null}}'`
}

// halted tells of what a controller waits for in vain, as it is left alone; false: it is not.
func halted(f *converge.Finding, k resource.Kind, obj resource.Object) bool {
	tree, custom := words.Tree(obj)
	says, advice := LeftAlone(k, obj, tree)
	if !custom || says == "" {
		return false
	}
	f.Says += "; " + new(converge.ObjectOf(k, obj)).Short() + " " + says
	f.Waits = converge.On("Object", converge.RefTo(k, obj), "")
	f.State, f.Next = converge.Blocked, converge.PersonDoes("lets that go on; %s goes on then", f.Owner)
	if advice != "" {
		f.Advice = append([]string{"to let it go on: " + advice}, f.Advice...)
	}
	return true
}
