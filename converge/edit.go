package converge

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/resource"
)

// A step that changes an object ends in the command that makes the change, with its value: a patch of the object, a copy of it that is made
// anew where it can't be changed, or a few of them where each of several values may be meant.

// A Change is one step of a JSON patch. Path is a JSON pointer.
type Change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Put replaces what is at a path.
func Put(path string, value any) Change { return Change{"replace", path, value} }

// Add adds a field, or at a path that ends in "-" an item of a list.
func Add(path string, value any) Change { return Change{"add", path, value} }

// Pointer is a JSON pointer to the field of some names.
func Pointer(names ...string) (path string) {
	for _, name := range names {
		path += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return path
}

// JSON is a value in the words of a command, between single quotes; "": it has such in it.
func JSON(v any) string {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil || bytes.ContainsAny(text.Bytes(), `'`) {
		return ""
	}
	return strings.TrimSpace(text.String())
}

// Patched is the command that makes changes to an object; "": their values don't fit in one.
func Patched(r Ref, changes ...Change) string {
	return patching(patch(r), "json", JSON(changes))
}

// patch begins the command that patches an object.
func patch(r Ref) string {
	ns := r.NS
	if !r.Kind.Info().Namespaced {
		ns = ""
	}
	return "kubectl patch " + word(r.Kind) + " " + r.Name + In(ns)
}

// Merged is the command that sets a field of an object, by the names on the way to it.
func Merged(r Ref, value any, names ...string) string {
	for _, name := range slices.Backward(names) {
		value = map[string]any{name: value}
	}
	return patching(patch(r), "merge", JSON(value))
}

func patching(command, how, body string) string {
	if body == "" {
		return ""
	}
	return command + " --type=" + how + " -p '" + body + "'"
}

// Choices are advice to take one of a few values in place of one that does not do: the one that is like it alone, else as many as one may
// choose from, each with its command.
func Choices(has string, among []string, command func(value string) string) (advice []string) {
	if meant := Likest(has, slices.Clone(among)); meant != "" {
		among = []string{meant}
	}
	return Each(among, command)
}

// Each is advice to take one of a few values, with the command for each.
func Each(among []string, command func(value string) string) (advice []string) {
	for _, value := range among[:min(len(among), MaxBranches)] {
		if c := command(value); c != "" {
			advice = append(advice, "if "+value+" is meant: "+c)
		}
	}
	return advice
}

// Copied is the command that makes a copy of an object in another namespace.
func Copied(r Ref, to string) string {
	return "kubectl get " + r.Kind.Info().Singular + " " + r.Name + " -n " + r.NS + " -o yaml | sed 's/namespace: " + r.NS + "/namespace: " +
		to + "/' | kubectl apply -f -"
}

// Copy is advice to make such a copy where a controller looks.
func Copy(r Ref, to string) string {
	return "copy it to the namespace of its controller: " + Copied(r, to)
}

// unlike are the lines of an object that can't be changed which its copy must not have, by kind.
var unlike = map[string]string{"Job": " | sed '/controller-uid/d'", "Pod": " | sed '/nodeName:/d'", "PersistentVolumeClaim": ""}

// Anew is the command that makes an object anew, with changes, that can't be changed.
func Anew(r Ref, changes ...Change) string { return copied(r, "json", JSON(changes)) }

// Repeated is the command that makes an object anew as it is, that runs once.
func Repeated(r Ref) string {
	return "kubectl get " + word(r.Kind) + " " + r.Name + In(r.NS) + " -o yaml" + unlike[r.Kind.Info().GVK.Kind] +
		" | kubectl replace --force -f -"
}

// Top is the object at the end of the chain of controllers of another, or that itself; nil: an operator is in it, or it is not seen.
func (w *World) Top(k resource.Kind, obj resource.Object) (resource.Kind, resource.Object) {
	for range MaxDepth {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil {
			break
		}
		by, known := w.KindOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		if !known || by.Info().Custom {
			return nil, nil
		}
		if obj = w.Read.Lookup(by, obj.GetNamespace(), ref.Name); obj == nil {
			return nil, nil
		}
		k = by
	}
	return k, obj
}

// LastingTop is the object that nobody changes and that a person made by himself: a pod, a job or a claim, or the job that made this pod. A
// claim that has a volume is none: made anew, it would lose what is in it.
func (l *Look) LastingTop() (resource.Kind, resource.Object) {
	k, obj := l.Top(l.Kind, l.Obj)
	if obj == nil || k.Info().Custom {
		return nil, nil
	}
	if c, is := obj.(*corev1.PersistentVolumeClaim); is && c.Spec.VolumeName != "" {
		return nil, nil
	}
	if _, is := unlike[k.Info().GVK.Kind]; !is {
		return nil, nil
	}
	return k, obj
}

// Remade is the command that makes such an object anew with what a patch changes: of a template's spec, as a strategic patch; "": it is
// made by another one.
func (l *Look) Remade(spec string) string {
	k, obj := l.LastingTop()
	if obj == nil || strings.Contains(spec, "'") {
		return ""
	}
	body := `{"spec":` + spec + "}"
	if k.Info().GVK.Kind == "Job" {
		body = `{"spec":{"template":` + body + "}}"
	}
	return copied(RefTo(k, obj), "strategic", body)
}

func copied(r Ref, how, body string) string {
	command := patching(patch(r)+" --dry-run=client -o yaml", how, body)
	if command == "" {
		return ""
	}
	return command + unlike[r.Kind.Info().GVK.Kind] + " | kubectl replace --force -f -"
}

// AgainAsItIs is the command that makes an object of an operator anew that runs once; "": it is no such.
func AgainAsItIs(k resource.Kind, obj resource.Object) string {
	tree, _ := words.Tree(obj)
	return again(k, obj, tree, nil)
}

// again is the command that makes an object of an operator anew, with changes, that runs once; "": another one makes it, or what came of
// it would be lost.
func again(k resource.Kind, obj resource.Object, tree map[string]any, changes []Change) string {
	i := k.Info()
	status, _ := tree["status"].(map[string]any)
	switch i.GVK.Group + "/" + i.GVK.Kind {
	case "argoproj.io/Workflow", "tekton.dev/PipelineRun", "tekton.dev/TaskRun":
	case "velero.io/Backup", "velero.io/Restore":
		if status["phase"] != "FailedValidation" { // else there may be something of it in the bucket
			return ""
		}
	default:
		return ""
	}
	if len(obj.GetOwnerReferences()) > 0 {
		return ""
	}
	for _, label := range []string{"workflows.argoproj.io/completed", "workflows.argoproj.io/phase"} {
		if _, is := obj.GetLabels()[label]; is {
			changes = append(changes, Change{Op: "remove", Path: "/metadata" + Pointer("labels", label)})
		}
	}
	if status != nil {
		changes = append(changes, Add("/status", map[string]any{}))
	}
	return copied(RefTo(k, obj), "json", JSON(changes))
}
