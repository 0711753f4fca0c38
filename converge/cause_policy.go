package converge

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// policyDenies knows a policy's refusal by its text alone: the Status has no field for the policy. Mutating policies say it in other words.
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
	what := strings.ToLower(p.Spec.ParamKind.Kind) + "/" + cmp.Or(b.Spec.ParamRef.Name, "(any with its labels)")
	return &Finding{Says: "is refused by the policy " + policy + ", which goes by " + what + ": that does not exist",
		Waits: on("Field", Ref{kinds.ValidatingAdmissionPolicyBindings, "", binding}, "spec.paramRef"),
		Next:  does(person, "creates %s in namespace %s", what, cmp.Or(b.Spec.ParamRef.Namespace, l.obj.GetNamespace())),
		Advice: []string{"create what validatingadmissionpolicybinding/" + binding +
			" names, or let it pass what has no parameters: parameterNotFoundAction: Allow"}}
}

// podSecurity is the level that the namespace enforces. The error lists each field that breaks it, so the advice need not.
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

// serviceAccountMissing: pods are refused for it, their workloads are not.
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

// limitRange knows the errors of the plugin by what each says of a bound; the name of the LimitRange is in none of them.
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

// priorityClassMissing: pods are refused for it, their workloads are not.
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

// runtimeClassMissing: pods are refused for it, their workloads are not.
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
	if scopes := between(why+"\x00", "insufficient quota to match these scopes: ", "\x00"); scopes != "" {
		f.Says += ": pods of this scope need a quota that is for it, and the namespace has none"
		f.Advice = []string{"create a ResourceQuota in namespace " + l.obj.GetNamespace() + " with that " +
			"spec.scopeSelector, as other namespaces may have: kubectl get resourcequotas -A"}
	}
	if len(f.Advice) == 0 {
		f.Advice = []string{"see to what it says: leave that out of the pod template, or have those who run the cluster allow it"}
	}
	if strings.Contains(why, " cannot ") {
		f.Waits, f.Advice = forName("Policy", "RBAC"), []string{"give the account the right that it lacks by a role and a binding"}
	}
	return f
}

// invalid is a template that passed as part of its workload and does not as a pod: fields together, or rules of a newer server.
func invalid(l *look, text string) *Finding {
	if !strings.Contains(text, " is invalid: ") {
		return nil
	}
	why := between(text+"\x00", " is invalid: ", "\x00")
	f := &Finding{Says: "makes objects that are not valid: " + why, Waits: on("Field", refTo(l.kind, l.obj), "spec.template"),
		Next: does(person, "corrects the template")}
	if by := maker(l); by != nil {
		f.Next = does(person, "corrects %s, by which the template is made", by.object().Short())
		f.Advice = []string{"kubectl edit " + by.kind.Info().GR().String() + " " + called(by)}
	}
	return f
}

// maker is the object of a kind that users defined that an object is made for, by controllers one above the other; nil: there is none.
func maker(l *look) (by *look) {
	obj := l.obj
	for range maxDepth {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil {
			break
		}
		k, ok := l.kindOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		if !ok || !k.Info().Namespaced {
			break
		}
		if obj = l.Read.Lookup(k, l.obj.GetNamespace(), ref.Name); obj == nil {
			break
		}
		if k.Info().Custom {
			by = &look{World: l.World, kind: k, obj: obj}
		}
	}
	return by
}
