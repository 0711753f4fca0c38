package causes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
)

// podSecurity is the level that the namespace enforces. The error lists each field that breaks it, so the advice need not.
func podSecurity(l *converge.Look, text string) *converge.Finding {
	level := general.Quoted(text, "violates PodSecurity ")
	if level == "" {
		return nil
	}
	r, lower := converge.Ref{Kind: kinds.Namespaces, NS: "", Name: l.Obj.GetNamespace()}, "baseline"
	if strings.HasPrefix(level, lower) {
		lower = "privileged"
	}
	f := &converge.Finding{Says: "can't create pods: they do not meet the level " + level + " of namespace " + r.Name,
		Waits: converge.On("Policy", r, "metadata.labels[pod-security.kubernetes.io/enforce]"),
		Next:  converge.PersonDoes("changes the pod template, or the namespace's level"),
		Advice: []string{"set in the pod template what the error asks for",
			"or lower the level: kubectl label namespace " + r.Name + " pod-security.kubernetes.io/enforce=" + lower + " --overwrite"}}
	if spec := secured(l, text); spec != "" {
		f.Advice[0] = retemplate(l, f.Advice[0]+", if the image can do so", spec)
	}
	return f
}

// asked has the settings that Pod Security asks for, by its words for them, of the pod and of each container, as JSON.
var asked = []struct{ mark, pod, container string }{
	{"allowPrivilegeEscalation != false", "", `"allowPrivilegeEscalation":false`},
	{"unrestricted capabilities", "", `"capabilities":{"drop":["ALL"]}`},
	{"runAsNonRoot != true", `"runAsNonRoot":true`, ""},
	{"seccompProfile", `"seccompProfile":{"type":"RuntimeDefault"}`, ""},
	{"privileged (", "", `"privileged":false`},
}

// secured is the part of a template's spec that Pod Security wants; "": something else is wrong, too, which only a person can judge.
func secured(l *converge.Look, text string) string {
	_, breaks, is := strings.Cut(text, "violates PodSecurity ")
	if !is {
		return ""
	}
	_, breaks, _ = strings.Cut(breaks, ": ")
	n, pod, each := strings.Count(breaks, "), ")+1, []string(nil), []string(nil)
	for _, a := range asked {
		if !strings.Contains(breaks, a.mark) {
			continue
		}
		if n--; a.pod != "" {
			pod = append(pod, a.pod)
		} else {
			each = append(each, a.container)
		}
	}
	t := templateAbove(l)
	if n > 0 || t == nil {
		return ""
	}
	parts := []string{`"securityContext":{` + strings.Join(pod, ",") + "}"}
	for _, list := range []struct {
		field string
		of    []corev1.Container
	}{{"initContainers", t.Spec.InitContainers}, {"containers", t.Spec.Containers}} {
		var items []string
		for i := range list.of {
			items = append(items, `{"name":"`+list.of[i].Name+`","securityContext":{`+strings.Join(each, ",")+"}}")
		}
		if len(items) > 0 && len(each) > 0 {
			parts = append(parts, `"`+list.field+`":[`+strings.Join(items, ",")+"]")
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// serviceAccountMissing: pods are refused for it, their workloads are not.
func serviceAccountMissing(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, "error looking up service account") {
		return nil
	}
	_, name, _ := strings.Cut(words.Between(text, "error looking up service account ", ":"), "/")
	r := general.Namespaced(l, kinds.ServiceAccounts, name)
	return &converge.Finding{Says: "can't create pods: the service account " + name + " does not exist", Waits: converge.On("Object", r,
		""),
		Next: converge.PersonDoes("creates serviceaccount/%s", name),
		Advice: []string{"kubectl create serviceaccount " + name + " -n " + r.NS,
			"or name another one in the pod template's serviceAccountName"}}
}

// priorityClassMissing: pods are refused for it, their workloads are not.
func priorityClassMissing(l *converge.Look, text string) *converge.Finding {
	name := words.Between(text, "no PriorityClass with name ", " was found")
	if name == "" {
		return nil
	}
	return &converge.Finding{Says: "can't create pods: the priority class " + name + " does not exist",
		Waits:  converge.On("Object", converge.Ref{Kind: kinds.PriorityClasses, NS: "", Name: name}, ""),
		Next:   converge.PersonDoes("creates priorityclass/%s", name),
		Advice: []string{"create the PriorityClass, or name another one in the pod template's priorityClassName"}}
}

// runtimeClassMissing: pods are refused for it, their workloads are not.
func runtimeClassMissing(l *converge.Look, text string) *converge.Finding {
	name := general.Quoted(text, "pod rejected: RuntimeClass ")
	if name == "" || !strings.Contains(text, "not found") {
		return nil
	}
	return &converge.Finding{Says: "can't create pods: the runtime class " + name + " does not exist",
		Waits:  converge.On("Object", converge.Ref{Kind: kinds.RuntimeClasses, NS: "", Name: name}, ""),
		Next:   converge.PersonDoes("creates runtimeclass/%s", name),
		Advice: []string{"create the RuntimeClass, or name another one in the pod template's runtimeClassName: kubectl get runtimeclass"}}
}
