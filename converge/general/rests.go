package general

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/resource"
)

// restOfCustom tells of an object of a kind that users defined that it rests, by the words that operators have for it.
func restOfCustom(k resource.Kind, obj resource.Object, tree map[string]any) (string, string) {
	if says, advice := LeftAlone(k, obj, tree); says != "" {
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

// restOfQuota tells of what is used up, or more than that: a quota that was lowered takes nothing away.
func restOfQuota(_ *converge.World, q *corev1.ResourceQuota) (says, advice string) {
	var full []string
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		hard := q.Status.Hard[name]
		if used, ok := q.Status.Used[name]; ok && used.Cmp(hard) >= 0 && !used.IsZero() {
			full = append(full, fmt.Sprintf("%s %s of %s", name, used.String(), hard.String()))
		}
	}
	if len(full) == 0 {
		return "", ""
	}
	return "is used up, so that nothing more is let in: " + words.List(full, 4), "kubectl edit resourcequota " + q.Name + " -n " +
		q.Namespace
}

func restOfBinding(w *converge.World, b *rbacv1.RoleBinding) (string, string) {
	return grants(w, converge.RefTo(rbac.RoleBindings, b), b.RoleRef, b.Subjects)
}

func restOfClusterBinding(w *converge.World, b *rbacv1.ClusterRoleBinding) (string, string) {
	return grants(w, converge.RefTo(rbac.ClusterRoleBindings, b), b.RoleRef, b.Subjects)
}

// grants tells of a binding that gives nothing, or to nobody.
func grants(w *converge.World, b converge.Ref, role rbacv1.RoleRef, to []rbacv1.Subject) (says, advice string) {
	var k resource.Kind = rbac.ClusterRoles
	ns := ""
	if role.Kind == "Role" {
		k, ns = rbac.Roles, b.NS
	}
	if w.Sees(k, ns) && w.Read.Lookup(k, ns, role.Name) == nil {
		advice = "kubectl get " + k.Info().Plural + converge.In(ns)
		if meant := w.Like(k, ns, role.Name); meant != "" { // which role it gives can't be changed
			advice = "if " + meant + " is meant, make it anew so: " + converge.Anew(b, converge.Put("/roleRef/name", meant))
		}
		return "gives nothing: it names the " + strings.ToLower(role.Kind) + " " + role.Name + ", which does not exist", advice
	}
	for i, s := range to {
		in := cmp.Or(s.Namespace, b.NS)
		if s.Kind == rbacv1.ServiceAccountKind && w.Sees(core.ServiceAccounts, in) &&
			resource.Get(w.Read, core.ServiceAccounts, in, s.Name) == nil {
			advice = "make it: kubectl create serviceaccount " + s.Name + " -n " + in
			if meant := w.Like(core.ServiceAccounts, in, s.Name); meant != "" {
				advice = "if " + meant + " is meant: " + converge.Patched(b, converge.Put(fmt.Sprintf("/subjects/%d/name", i), meant))
			}
			return "names the service account " + in + "/" + s.Name + ", which does not exist", advice
		}
	}
	return "", ""
}

// restOfPolicyBinding tells of a binding that nobody is held by.
func restOfPolicyBinding(w *converge.World, b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) (says, advice string) {
	k := admissionregistration.ValidatingAdmissionPolicies
	if w.Sees(k, "") && resource.Get(w.Read, k, "", b.Spec.PolicyName) == nil {
		return "checks nothing: it names the policy " + b.Spec.PolicyName + ", which does not exist",
			"kubectl get validatingadmissionpolicies"
	}
	return "", ""
}

// restOfFlow tells of a flow schema that is passed over.
func restOfFlow(_ *converge.World, f *flowcontrolv1.FlowSchema) (says, advice string) {
	for _, c := range f.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling && c.Status == flowcontrolv1.ConditionTrue {
			return "is passed over: it names the priority level " + f.Spec.PriorityLevelConfiguration.Name + ", which does not exist",
				"kubectl get prioritylevelconfigurations"
		}
	}
	return "", ""
}

// restOfPolicy tells of a policy that nobody is held to, or whose expressions don't suit what they are about.
func restOfPolicy(w *converge.World, p *admissionregistrationv1.ValidatingAdmissionPolicy) (says, advice string) {
	bound := slices.ContainsFunc(resource.List(w.Read, admissionregistration.ValidatingAdmissionPolicyBindings, ""),
		func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name
		})
	if !bound && w.Sees(admissionregistration.ValidatingAdmissionPolicyBindings, "") {
		says = "holds nobody to its rules: no validatingadmissionpolicybinding names it"
	}
	if t := p.Status.TypeChecking; t != nil && len(t.ExpressionWarnings) > 0 {
		first := t.ExpressionWarnings[0]
		says += "; has an expression that does not suit what it is about, " + first.FieldRef + ": " + words.OneLine(first.Warning)
	}
	return strings.TrimPrefix(says, "; "), ""
}

// A Rule says what keeps an object of one kind from doing what such objects do, and what would end that; "" when nothing does.
type Rule func(w *converge.World, obj resource.Object) (says, advice string)

// RestOf gives a rule its type.
func RestOf[T resource.Object](f func(w *converge.World, obj T) (says, advice string)) Rule {
	return func(w *converge.World, obj resource.Object) (string, string) {
		t, ok := obj.(T)
		if !ok {
			return "", ""
		}
		return f(w, t)
	}
}

// resting says what an object does not do, on purpose; "" when there is nothing to say.
func resting(rules map[schema.GroupResource]Rule, w *converge.World, k resource.Kind, obj resource.Object) (says, advice string) {
	f := rules[k.Info().GR()]
	if tree, ok := words.Tree(obj); f == nil && ok && obj.GetDeletionTimestamp() == nil {
		return restOfCustom(k, obj, tree)
	}
	if p, is := obj.(*corev1.Pod); is && p.DeletionTimestamp != nil {
		return restOfLeaving(w, p)
	}
	if f == nil || obj.GetDeletionTimestamp() != nil {
		return "", ""
	}
	return f(w, obj)
}

// restOfLeaving tells of a pod that was deleted and has time left to stop in.
func restOfLeaving(w *converge.World, p *corev1.Pod) (says, advice string) {
	if !w.Early(p.DeletionTimestamp.Time) {
		return "", ""
	}
	says = fmt.Sprintf("was deleted, and has until %s to stop: %d s in all", p.DeletionTimestamp.UTC().Format("15:04:05 MST"),
		ptr.Deref(p.DeletionGracePeriodSeconds, 30))
	if e := w.Warning(p.UID, "FailedPreStopHook", "FailedKillPod"); e != nil {
		says += "; its node says: " + words.OneLine(e.Message)
	}
	return says, "to have less time for it: kubectl delete pod " + p.Name + " -n " + p.Namespace + " --grace-period=1"
}

// Explained explains an object that agrees with its spec and rests, or of which more is to be said; nil when there is nothing.
func Explained(rules map[schema.GroupResource]Rule, w *converge.World, k resource.Kind, obj resource.Object) *convergence.Gap {
	says, advice := resting(rules, w, k, obj)
	fine := "is what it should be"
	if says == "" {
		fine = "has no gap that is known"
	}
	r := remarked((&mentions.Search{World: w, Kind: k, Obj: obj}))
	says = strings.TrimPrefix(strings.TrimSuffix(says+"; "+r.Says, "; "), "; ")
	if says == "" {
		return untold(w, k, obj)
	}
	s := &converge.Step{Object: converge.ObjectOf(k, obj), Cause: "AtRest", Health: converge.Health{Says: fine,
		Since: converge.Changed(obj)},
		Finding: converge.Finding{Says: says, Owner: converge.Person, State: converge.Resting, Waits: r.Wait,
			Next: converge.PersonDoes("changes it, if that is not what is meant")}}
	for _, a := range []string{r.Advice, advice} {
		if a != "" {
			s.Advice = append(s.Advice, strings.Split(a, "\n")...)
		}
	}
	(&converge.Look{World: w, Kind: k, Obj: obj}).Complete(&s.Finding)
	g := s.Gap()
	if r.Part != nil {
		(&converge.Step{Below: []*converge.Step{r.Part}}).Links(g, 1)
	}
	g.Because, g.Verdict = says, s.Object.Short()+" "+fine+": it "+says
	return g
}
