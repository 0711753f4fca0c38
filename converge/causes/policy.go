package causes

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// policyDenies knows a policy's refusal by its text alone: the Status has no field for the policy. Mutating policies say it in other words.
func policyDenies(l *converge.Look, text string) *converge.Finding {
	name := quoted(text, "ValidatingAdmissionPolicy ")
	if name == "" && strings.Contains(text, "denied request: ") {
		name = quoted(text, "policy ")
	}
	if name == "" {
		return nil
	}
	why := words.Between(text+"\x00", "denied request: ", "\x00")
	if f := paramMissing(l, name, quoted(text, "with binding ")); f != nil && strings.Contains(why, "no params found") {
		return f
	}
	return &converge.Finding{Says: "is refused by the policy " + name + ": " + why,
		Waits:  converge.On("Policy", converge.Ref{Kind: kinds.ValidatingAdmissionPolicies, NS: "", Name: name}, ""),
		Next:   converge.Does(converge.Person, "changes the object, or the policy"),
		Advice: []string{"change what is created to what the policy allows: kubectl describe validatingadmissionpolicy " + name}}
}

// paramMissing: the policy goes by an object that its binding names, and there is none.
func paramMissing(l *converge.Look, policy, binding string) *converge.Finding {
	p, b := resource.Get(l.Read, kinds.ValidatingAdmissionPolicies, "", policy),
		resource.Get(l.Read, kinds.ValidatingAdmissionPolicyBindings, "", binding)
	if p == nil || b == nil || p.Spec.ParamKind == nil || b.Spec.ParamRef == nil {
		return nil
	}
	what := strings.ToLower(p.Spec.ParamKind.Kind) + "/" + cmp.Or(b.Spec.ParamRef.Name, "(any with its labels)")
	return &converge.Finding{Says: "is refused by the policy " + policy + ", which goes by " + what + ": that does not exist",
		Waits: converge.On("Field", converge.Ref{Kind: kinds.ValidatingAdmissionPolicyBindings, NS: "", Name: binding}, "spec.paramRef"),
		Next:  converge.Does(converge.Person, "creates %s in namespace %s", what, cmp.Or(b.Spec.ParamRef.Namespace, l.Obj.GetNamespace())),
		Advice: []string{"create what validatingadmissionpolicybinding/" + binding +
			" names, or let it pass what has no parameters: parameterNotFoundAction: Allow"}}
}

// podSecurity is the level that the namespace enforces. The error lists each field that breaks it, so the advice need not.
func podSecurity(l *converge.Look, text string) *converge.Finding {
	level := quoted(text, "violates PodSecurity ")
	if level == "" {
		return nil
	}
	r, lower := converge.Ref{Kind: kinds.Namespaces, NS: "", Name: l.Obj.GetNamespace()}, "baseline"
	if strings.HasPrefix(level, lower) {
		lower = "privileged"
	}
	return &converge.Finding{Says: "can't create pods: they do not meet the level " + level + " of namespace " + r.Name,
		Waits: converge.On("Policy", r, "metadata.labels[pod-security.kubernetes.io/enforce]"),
		Next:  converge.Does(converge.Person, "changes the pod template, or the namespace's level"),
		Advice: []string{"set in the pod template what the error asks for",
			"or lower the level: kubectl label namespace " + r.Name + " pod-security.kubernetes.io/enforce=" + lower + " --overwrite"}}
}

// serviceAccountMissing: pods are refused for it, their workloads are not.
func serviceAccountMissing(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, "error looking up service account") {
		return nil
	}
	_, name, _ := strings.Cut(words.Between(text, "error looking up service account ", ":"), "/")
	r := namespaced(l, kinds.ServiceAccounts, name)
	return &converge.Finding{Says: "can't create pods: the service account " + name + " does not exist", Waits: converge.On("Object", r,
		""),
		Next: converge.Does(converge.Person, "creates serviceaccount/%s", name),
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
		Next:   converge.Does(converge.Person, "changes the requests and limits, or the LimitRange"),
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
		Next:   converge.Does(converge.Person, "creates priorityclass/%s", name),
		Advice: []string{"create the PriorityClass, or name another one in the pod template's priorityClassName"}}
}

// runtimeClassMissing: pods are refused for it, their workloads are not.
func runtimeClassMissing(l *converge.Look, text string) *converge.Finding {
	name := quoted(text, "pod rejected: RuntimeClass ")
	if name == "" || !strings.Contains(text, "not found") {
		return nil
	}
	return &converge.Finding{Says: "can't create pods: the runtime class " + name + " does not exist",
		Waits:  converge.On("Object", converge.Ref{Kind: kinds.RuntimeClasses, NS: "", Name: name}, ""),
		Next:   converge.Does(converge.Person, "creates runtimeclass/%s", name),
		Advice: []string{"create the RuntimeClass, or name another one in the pod template's runtimeClassName: kubectl get runtimeclass"}}
}

func namespaceLeaving(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, "because it is being terminated") {
		return nil
	}
	r := converge.Ref{Kind: kinds.Namespaces, NS: "", Name: l.Obj.GetNamespace()}
	return &converge.Finding{Says: "can't create anything: its namespace is being deleted", Waits: converge.On("Object", r, ""),
		Next: converge.Does("namespace", "deletes it too")}
}

// notAllowed: the loop's account lacks a right, or a plugin refuses for a reason that no other rule knows.
func notAllowed(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, " is forbidden: ") {
		return nil
	}
	why := words.Between(text+"\x00", " is forbidden: ", "\x00")
	f := &converge.Finding{Says: "is refused: " + why, Waits: converge.ForName("Policy", "admission"),
		Next: converge.Does(converge.Person, "changes what is asked for, or who may ask for it")}
	if scopes := words.Between(why+"\x00", "insufficient quota to match these scopes: ", "\x00"); scopes != "" {
		f.Says += ": pods of this scope need a quota that is for it, and the namespace has none"
		f.Advice = []string{"create a ResourceQuota in namespace " + l.Obj.GetNamespace() + " with that " +
			"spec.scopeSelector, as other namespaces may have: kubectl get resourcequotas -A"}
	}
	if len(f.Advice) == 0 {
		f.Advice = []string{"see to what it says: leave that out of the pod template, or have those who run the cluster allow it"}
	}
	if strings.Contains(why, " cannot ") {
		f.Waits, f.Advice = converge.ForName("Policy", "RBAC"), []string{"give the account the right that it lacks by a role and a binding"}
	}
	return f
}

// invalid is a template that passed as part of its workload and does not as a pod: fields together, or rules of a newer server.
func invalid(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, " is invalid: ") {
		return nil
	}
	why := words.Between(text+"\x00", " is invalid: ", "\x00")
	f := &converge.Finding{Says: "makes objects that are not valid: " + why, Waits: converge.On("Field", converge.RefTo(l.Kind, l.Obj),
		"spec.template"),
		Next: converge.Does(converge.Person, "corrects the template")}
	if by := maker(l); by != nil {
		f.Next = converge.Does(converge.Person, "corrects %s, by which the template is made", by.Object().Short())
		f.Advice = []string{"kubectl edit " + by.Kind.Info().GR().String() + " " + converge.Called(by)}
	}
	return f
}

// maker is the object of a kind that users defined that an object is made for, by controllers one above the other; nil: there is none.
func maker(l *converge.Look) (by *converge.Look) {
	obj := l.Obj
	for range converge.MaxDepth {
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil {
			break
		}
		k, ok := l.KindOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		if !ok || !k.Info().Namespaced {
			break
		}
		if obj = l.Read.Lookup(k, l.Obj.GetNamespace(), ref.Name); obj == nil {
			break
		}
		if k.Info().Custom {
			by = &converge.Look{World: l.World, Kind: k, Obj: obj}
		}
	}
	return by
}
