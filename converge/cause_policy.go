package converge

import (
	"strings"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func policyDenies(l *look, text string) *Finding {
	name := quoted(text, "ValidatingAdmissionPolicy ")
	if name == "" && strings.Contains(text, "denied request: ") {
		name = quoted(text, "policy ")
	}
	if name == "" {
		return nil
	}
	why := between(text+"\x00", "denied request: ", "\x00")
	if f := paramMissing(l, name, quoted(text, "with binding ")); f != nil && strings.Contains(why, "no params found") {
		return f
	}
	return &Finding{Says: "is refused by the policy " + name + ": " + why,
		Waits:  on("Policy", Ref{kinds.ValidatingAdmissionPolicies, "", name}, ""),
		Next:   does(person, "changes the object, or the policy"),
		Advice: []string{"change what is created to what the policy allows: kubectl describe validatingadmissionpolicy " + name}}
}

// paramMissing: the policy goes by an object that its binding names, and there is none.
func paramMissing(l *look, policy, binding string) *Finding {
	p, b := resource.Get(l.Read, kinds.ValidatingAdmissionPolicies, "", policy),
		resource.Get(l.Read, kinds.ValidatingAdmissionPolicyBindings, "", binding)
	if p == nil || b == nil || p.Spec.ParamKind == nil || b.Spec.ParamRef == nil {
		return nil
	}
	what := strings.ToLower(p.Spec.ParamKind.Kind) + "/" + orElse(b.Spec.ParamRef.Name, "(any with its labels)")
	return &Finding{Says: "is refused by the policy " + policy + ", which goes by " + what + ": that does not exist",
		Waits: on("Field", Ref{kinds.ValidatingAdmissionPolicyBindings, "", binding}, "spec.paramRef"),
		Next:  does(person, "creates %s in namespace %s", what, orElse(b.Spec.ParamRef.Namespace, l.obj.GetNamespace())),
		Advice: []string{"create what validatingadmissionpolicybinding/" + binding +
			" names, or let it pass what has no parameters: parameterNotFoundAction: Allow"}}
}

func podSecurity(l *look, text string) *Finding {
	level := quoted(text, "violates PodSecurity ")
	if level == "" {
		return nil
	}
	r, lower := Ref{kinds.Namespaces, "", l.obj.GetNamespace()}, "baseline"
	if strings.HasPrefix(level, lower) {
		lower = "privileged"
	}
	return &Finding{Says: "can't create pods: they do not meet the level " + level + " of namespace " + r.Name,
		Waits: on("Policy", r, "metadata.labels[pod-security.kubernetes.io/enforce]"),
		Next:  does(person, "changes the pod template, or the namespace's level"),
		Advice: []string{"set in the pod template what the error asks for",
			"or lower the level: kubectl label namespace " + r.Name + " pod-security.kubernetes.io/enforce=" + lower + " --overwrite"}}
}

func serviceAccountMissing(l *look, text string) *Finding {
	if !strings.Contains(text, "error looking up service account") {
		return nil
	}
	_, name, _ := strings.Cut(between(text, "error looking up service account ", ":"), "/")
	r := l.namespaced(kinds.ServiceAccounts, name)
	return &Finding{Says: "can't create pods: the service account " + name + " does not exist", Waits: on("Object", r, ""),
		Next: does(person, "creates serviceaccount/%s", name), Advice: []string{"kubectl create serviceaccount " + name + " -n " + r.NS,
			"or name another one in the pod template's serviceAccountName"}}
}

func limitRange(l *look, text string) *Finding {
	if !strings.Contains(text, " per Container is ") && !strings.Contains(text, " per Pod is ") && !strings.Contains(text,
		" per PersistentVolumeClaim is ") {
		return nil
	}
	return &Finding{Says: "is refused by a LimitRange: " + between(text+"\x00", " is forbidden: ", "\x00"),
		Waits:  forName("Policy", "LimitRange"),
		Next:   does(person, "changes the requests and limits, or the LimitRange"),
		Advice: []string{"see what is allowed: kubectl describe limitrange -n " + l.obj.GetNamespace()}}
}

func priorityClassMissing(l *look, text string) *Finding {
	name := between(text, "no PriorityClass with name ", " was found")
	if name == "" {
		return nil
	}
	return &Finding{Says: "can't create pods: the priority class " + name + " does not exist",
		Waits:  on("Object", Ref{kinds.PriorityClasses, "", name}, ""),
		Next:   does(person, "creates priorityclass/%s", name),
		Advice: []string{"create the PriorityClass, or name another one in the pod template's priorityClassName"}}
}

func runtimeClassMissing(l *look, text string) *Finding {
	name := quoted(text, "pod rejected: RuntimeClass ")
	if name == "" || !strings.Contains(text, "not found") {
		return nil
	}
	return &Finding{Says: "can't create pods: the runtime class " + name + " does not exist",
		Waits:  on("Object", Ref{kinds.RuntimeClasses, "", name}, ""),
		Next:   does(person, "creates runtimeclass/%s", name),
		Advice: []string{"create the RuntimeClass, or name another one in the pod template's runtimeClassName: kubectl get runtimeclass"}}
}

func namespaceLeaving(l *look, text string) *Finding {
	if !strings.Contains(text, "because it is being terminated") {
		return nil
	}
	r := Ref{kinds.Namespaces, "", l.obj.GetNamespace()}
	return &Finding{Says: "can't create anything: its namespace is being deleted", Waits: on("Object", r, ""),
		Next: does("namespace", "deletes it too")}
}

// notAllowed: the loop's account lacks a right, or a plugin refuses for a reason that no other rule knows.
func notAllowed(l *look, text string) *Finding {
	if !strings.Contains(text, " is forbidden: ") {
		return nil
	}
	why := between(text+"\x00", " is forbidden: ", "\x00")
	f := &Finding{Says: "is refused: " + why, Waits: forName("Policy", "admission"),
		Next: does(person, "changes what is asked for, or who may ask for it")}
	if strings.Contains(why, " cannot ") {
		f.Waits, f.Advice = forName("Policy", "RBAC"), []string{"give the account the right that it lacks by a role and a binding"}
	}
	return f
}

func invalid(l *look, text string) *Finding {
	if !strings.Contains(text, " is invalid: ") {
		return nil
	}
	why := between(text+"\x00", " is invalid: ", "\x00")
	return &Finding{Says: "makes objects that are not valid: " + why, Waits: on("Field", refTo(l.kind, l.obj), "spec.template"),
		Next: does(person, "corrects the template")}
}
