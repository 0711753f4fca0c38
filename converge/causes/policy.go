package causes

import (
	"strings"

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
	return &converge.Finding{Says: "can't create pods: they do not meet the level " + level + " of namespace " + r.Name,
		Waits: converge.On("Policy", r, "metadata.labels[pod-security.kubernetes.io/enforce]"),
		Next:  converge.PersonDoes("changes the pod template, or the namespace's level"),
		Advice: []string{"set in the pod template what the error asks for",
			"or lower the level: kubectl label namespace " + r.Name + " pod-security.kubernetes.io/enforce=" + lower + " --overwrite"}}
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

// limitRange knows the errors of the plugin by what each says of a bound; the name of the LimitRange is in none of them.
func limitRange(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, " per Container is ") && !strings.Contains(text, " per Pod is ") && !strings.Contains(text,
		" per PersistentVolumeClaim is ") {
		return nil
	}
	return &converge.Finding{Says: "is refused by a LimitRange: " + words.Between(text+"\x00", " is forbidden: ", "\x00"),
		Waits:  converge.ForName("Policy", "LimitRange"),
		Next:   converge.PersonDoes("changes the requests and limits, or the LimitRange"),
		Advice: []string{"see what is allowed: kubectl describe limitrange -n " + l.Obj.GetNamespace()}}
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
