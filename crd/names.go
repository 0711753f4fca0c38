package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/apiextensions"
)

// Accept decides which names a definition may have beside the others of its group, and returns the status that
// says so. A name that is taken stays out; the definition is established once all its names are accepted, and
// stays so. now dates the conditions that change.
func (n *Names) Accept(def *apiextensionsv1.CustomResourceDefinition, now metav1.Time) apiextensionsv1.CustomResourceDefinitionStatus {
	st := *def.Status.DeepCopy()
	c := nameConflicts{n: n, def: def}
	want, have := &def.Spec.Names, &st.AcceptedNames
	n.mu.Lock()
	c.claim("PluralConflict", want.Plural, &have.Plural, resourceName)
	c.claim("SingularConflict", want.Singular, &have.Singular, resourceName)
	c.claimShort(want.ShortNames, &have.ShortNames)
	c.claim("KindConflict", want.Kind, &have.Kind, kindName)
	c.claim("ListKindConflict", want.ListKind, &have.ListKind, kindName)
	n.reserve(def, have)
	n.mu.Unlock()
	have.Categories = want.Categories
	named := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NamesAccepted,
		Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found"}
	if c.reason != "" {
		named.Status, named.Reason, named.Message = apiextensionsv1.ConditionFalse, c.reason, c.message
	}
	Set(&st, named, now)
	if c, protected := conformance(def); protected {
		Set(&st, c, now)
	}
	switch {
	case Is(def, apiextensionsv1.Established):
	case c.reason == "":
		Set(&st, apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"}, now)
	default:
		Set(&st, apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted"}, now)
	}
	return st
}

// conformance tells whether the API of a group of the Kubernetes project was approved; other groups need no approval.
func conformance(def *apiextensionsv1.CustomResourceDefinition) (c apiextensionsv1.CustomResourceDefinitionCondition, protected bool) {
	if !apiextensions.Protected(def.Spec.Group) {
		return c, false
	}
	c.Type, c.Status = apiextensionsv1.KubernetesAPIApprovalPolicyConformant, apiextensionsv1.ConditionFalse
	said := def.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation]
	switch is, says := apiextensions.ApprovalOf(def); is {
	case apiextensions.ApprovalMissing:
		c.Reason, c.Message = "MissingAnnotation", says
	case apiextensions.ApprovalInvalid:
		c.Reason, c.Message = "InvalidAnnotation", says
	case apiextensions.ApprovalWaived:
		c.Reason, c.Message = "UnapprovedAnnotation", fmt.Sprintf("not approved: %q", said)
	case apiextensions.ApprovalGiven:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionTrue, "ApprovedAnnotation", "approved in "+said
	}
	return c, true
}

// nameConflicts are the names that a definition wants, and what stands against it.
type nameConflicts struct {
	n               *Names
	def             *apiextensionsv1.CustomResourceDefinition
	reason, message string // the last conflict counts, as in Kubernetes
}

// used says that a name is taken. As upstream, what the definition has itself counts when it asks for it as something else.
func (c *nameConflicts) used(of nameOf, text string) bool {
	x := name{c.def.Spec.Group, of, text}
	return c.n.taken(x, c.def.Name) || slices.Contains(namesIn(c.def.Spec.Group, &c.def.Status.AcceptedNames), x)
}

func (c *nameConflicts) claim(reason, want string, have *string, of nameOf) {
	if want != *have && c.used(of, want) {
		c.reason, c.message = reason, inUse(want)
		return
	}
	*have = want
}

func inUse(name string) string { return fmt.Sprintf("%q is already in use", name) }

// claimShort takes all short names or none.
func (c *nameConflicts) claimShort(want []string, have *[]string) {
	var taken []string
	for _, name := range want {
		if !slices.Contains(*have, name) && c.used(resourceName, name) {
			taken = append(taken, inUse(name))
		}
	}
	switch len(taken) {
	case 0:
		*have = want
		return
	case 1:
		c.message = taken[0]
	default:
		c.message = "[" + strings.Join(taken, ", ") + "]"
	}
	c.reason = "ShortNamesConflict"
}

// Set sets a condition. Its time changes with its status only.
func Set(st *apiextensionsv1.CustomResourceDefinitionStatus, c apiextensionsv1.CustomResourceDefinitionCondition, now metav1.Time) {
	c.LastTransitionTime = now
	old := find(st.Conditions, c.Type)
	if old == nil {
		st.Conditions = append(st.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}

func find(list []apiextensionsv1.CustomResourceDefinitionCondition,
	t apiextensionsv1.CustomResourceDefinitionConditionType) *apiextensionsv1.CustomResourceDefinitionCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}
