package general

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// PolicyDenies knows a policy's refusal by its text alone: the Status has no field for the policy. Mutating policies say it in other words.
func PolicyDenies(l *converge.Look, text string) *converge.Finding {
	name := Quoted(text, "ValidatingAdmissionPolicy ")
	if name == "" && strings.Contains(text, "denied request: ") {
		name = Quoted(text, "policy ")
	}
	if name == "" {
		return nil
	}
	why := words.Between(text+"\x00", "denied request: ", "\x00")
	if f := paramMissing(l, name, Quoted(text, "with binding ")); f != nil && strings.Contains(why, "no params found") {
		return f
	}
	f := &converge.Finding{Says: "is refused by the policy " + name + ": " + why,
		Waits:  converge.On("Policy", converge.Ref{Kind: admissionregistration.ValidatingAdmissionPolicies, NS: "", Name: name}, ""),
		Next:   converge.PersonDoes("changes the object, or the policy"),
		Advice: []string{"change what is created to what the policy allows: kubectl describe validatingadmissionpolicy " + name}}
	l.Workloads().Reimage(l, f, why)
	return f
}

// paramMissing: the policy goes by an object that its binding names, and there is none.
func paramMissing(l *converge.Look, policy, binding string) *converge.Finding {
	p, b := resource.Get(l.Read, admissionregistration.ValidatingAdmissionPolicies, "", policy),
		resource.Get(l.Read, admissionregistration.ValidatingAdmissionPolicyBindings, "", binding)
	if p == nil || b == nil || p.Spec.ParamKind == nil || b.Spec.ParamRef == nil {
		return nil
	}
	what := strings.ToLower(p.Spec.ParamKind.Kind) + "/" + cmp.Or(b.Spec.ParamRef.Name, "(any with its labels)")
	return &converge.Finding{Says: "is refused by the policy " + policy + ", which goes by " + what + ": that does not exist",
		Waits: converge.On("Field", converge.Ref{Kind: admissionregistration.ValidatingAdmissionPolicyBindings, NS: "", Name: binding},
			"spec.paramRef"),
		Next: converge.PersonDoes("creates %s in namespace %s", what, cmp.Or(b.Spec.ParamRef.Namespace, l.Obj.GetNamespace())),
		Advice: []string{"create what validatingadmissionpolicybinding/" + binding +
			" names, or let it pass what has no parameters: parameterNotFoundAction: Allow"}}
}

// NamespaceLeaving: the namespace of the object is being deleted, and nothing new is let into it.
func NamespaceLeaving(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, "because it is being terminated") {
		return nil
	}
	r := converge.Ref{Kind: core.Namespaces, NS: "", Name: l.Obj.GetNamespace()}
	return &converge.Finding{Says: "can't create anything: its namespace is being deleted", Waits: converge.On("Object", r, ""),
		Next: converge.Does("namespace", "deletes it too")}
}

// NotAllowed: the loop's account lacks a right, or a plugin refuses for a reason that no other rule knows.
func NotAllowed(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, " is forbidden: ") {
		return nil
	}
	why := words.Between(text+"\x00", " is forbidden: ", "\x00")
	f := &converge.Finding{Says: "is refused: " + why, Waits: converge.ForName("Policy", "admission"),
		Next: converge.PersonDoes("changes what is asked for, or who may ask for it")}
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

// Invalid is a template that passed as part of its workload and does not as a pod: fields together, or rules of a newer server.
func Invalid(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, " is invalid: ") {
		return nil
	}
	why := words.Between(text+"\x00", " is invalid: ", "\x00")
	f := &converge.Finding{Says: "makes objects that are not valid: " + why, Waits: l.Field("spec.template"),
		Next: converge.PersonDoes("corrects the template")}
	if by := Maker(l); by != nil {
		f.Next = converge.PersonDoes("corrects %s, by which the template is made", by.Object().Short())
		f.Advice = []string{"kubectl edit " + by.Kind.Info().GR().String() + " " + converge.Called(by)}
	}
	return f
}

// SpokenOfMaker advises to correct the object of a kind that users defined by which a pod was made, if the pod's last words have one of its
// fields by name or value; "": they don't.
func SpokenOfMaker(l *converge.Look, said string) string {
	by := Maker(l)
	if by == nil || !words.Faulty.MatchString(said) && !words.Unfit.MatchString(said) {
		return ""
	}
	tree, _ := words.Tree(by.Obj)
	path, _ := words.SpokenField(tree, said)
	if key := words.SpokenKey(tree["spec"], said); key != "" {
		path = key
	}
	if path == "" {
		return ""
	}
	return "it speaks of " + path + " of " + new(by.Object()).Short() + ", by which it was made; correct that: kubectl edit " +
		by.Kind.Info().GR().String() + " " + converge.Called(by)
}

// Maker is the object of a kind that users defined that an object is made for, by controllers one above the other; nil: there is none.
func Maker(l *converge.Look) (by *converge.Look) {
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
