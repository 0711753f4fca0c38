package rests

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

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

// restOfAccount tells of secrets for the pull of images that are not there: its pods are made all the same, and pull without.
func restOfAccount(w *converge.World, a *corev1.ServiceAccount) (says, advice string) {
	for _, s := range a.ImagePullSecrets {
		if s.Name != "" && w.Sees(kinds.Secrets, a.Namespace) && resource.Get(w.Read, kinds.Secrets, a.Namespace, s.Name) == nil {
			return "names secret/" + s.Name + " in imagePullSecrets, which does not exist: its pods pull images without",
				"kubectl get secrets -n " + a.Namespace
		}
	}
	return "", ""
}

func restOfBinding(w *converge.World, b *rbacv1.RoleBinding) (string, string) {
	return grants(w, b.Namespace, b.RoleRef, b.Subjects)
}

func restOfClusterBinding(w *converge.World, b *rbacv1.ClusterRoleBinding) (string, string) {
	return grants(w, "", b.RoleRef, b.Subjects)
}

// grants tells of a binding that gives nothing, or to nobody.
func grants(w *converge.World, ns string, role rbacv1.RoleRef, to []rbacv1.Subject) (says, advice string) {
	var k resource.Kind = kinds.ClusterRoles
	if role.Kind == "Role" {
		k = kinds.Roles
	} else {
		ns = ""
	}
	if w.Sees(k, ns) && w.Read.Lookup(k, ns, role.Name) == nil {
		return "gives nothing: it names the " + strings.ToLower(role.Kind) + " " + role.Name + ", which does not exist",
			strings.TrimSuffix("kubectl get "+k.Info().Plural+" -n "+ns, " -n ")
	}
	for _, s := range to {
		if s.Kind == rbacv1.ServiceAccountKind && w.Sees(kinds.ServiceAccounts, s.Namespace) &&
			resource.Get(w.Read, kinds.ServiceAccounts, s.Namespace, s.Name) == nil {
			return "names the service account " + s.Namespace + "/" + s.Name + ", which does not exist",
				"kubectl get serviceaccounts -n " + s.Namespace
		}
	}
	return "", ""
}

// restOfPolicyBinding tells of a binding that nobody is held by.
func restOfPolicyBinding(w *converge.World, b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) (says, advice string) {
	k := kinds.ValidatingAdmissionPolicies
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
	bound := slices.ContainsFunc(resource.List(w.Read, kinds.ValidatingAdmissionPolicyBindings, ""),
		func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name
		})
	if !bound && w.Sees(kinds.ValidatingAdmissionPolicyBindings, "") {
		says = "holds nobody to its rules: no validatingadmissionpolicybinding names it"
	}
	if t := p.Status.TypeChecking; t != nil && len(t.ExpressionWarnings) > 0 {
		first := t.ExpressionWarnings[0]
		says += "; has an expression that does not suit what it is about, " + first.FieldRef + ": " + words.OneLine(first.Warning)
	}
	return strings.TrimPrefix(says, "; "), ""
}

// restOfSlice tells of a slice that somebody made for a service which does not exist.
func restOfSlice(w *converge.World, s *discoveryv1.EndpointSlice) (says, advice string) {
	name := s.Labels[discoveryv1.LabelServiceName]
	switch {
	case name == "":
		return "belongs to no service: it has no label " + discoveryv1.LabelServiceName, ""
	case !w.Sees(kinds.Services, s.Namespace) || resource.Get(w.Read, kinds.Services, s.Namespace, name) != nil:
		return "", ""
	}
	advice = "those that exist: kubectl get services -n " + s.Namespace
	return "is for service/" + name + ", which does not exist", advice
}
