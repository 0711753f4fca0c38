package crd

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Accept decides which names a definition may have beside the others of its group, and returns the status that
// says so. A name that is taken stays out; the definition is established once all its names are accepted, and
// stays so. now dates the conditions that change.
func Accept(def *v1.CustomResourceDefinition, others []*v1.CustomResourceDefinition, now metav1.Time) v1.CustomResourceDefinitionStatus {
	st := *def.Status.DeepCopy()
	c := claims{resources: map[string]bool{}, kinds: map[string]bool{}}
	for _, o := range others {
		if o.Spec.Group == def.Spec.Group && o.Name != def.Name {
			c.take(&o.Status.AcceptedNames)
		}
	}
	want, have := &def.Spec.Names, &st.AcceptedNames
	c.claim("PluralConflict", want.Plural, &have.Plural, c.resources)
	c.claim("SingularConflict", want.Singular, &have.Singular, c.resources)
	c.claimShort(want.ShortNames, &have.ShortNames)
	c.claim("KindConflict", want.Kind, &have.Kind, c.kinds)
	c.claim("ListKindConflict", want.ListKind, &have.ListKind, c.kinds)
	have.Categories = want.Categories
	named := v1.CustomResourceDefinitionCondition{Type: v1.NamesAccepted, Status: v1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found"}
	if c.reason != "" {
		named.Status, named.Reason, named.Message = v1.ConditionFalse, c.reason, c.message
	}
	Set(&st, named, now)
	switch {
	case Is(def, v1.Established):
	case c.reason == "":
		Set(&st, v1.CustomResourceDefinitionCondition{Type: v1.Established, Status: v1.ConditionTrue,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"}, now)
	default:
		Set(&st, v1.CustomResourceDefinitionCondition{Type: v1.Established, Status: v1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted"}, now)
	}
	return st
}

// claims are the names in use in a group, and what stands against a definition.
type claims struct {
	resources, kinds map[string]bool
	reason, message  string // the last conflict counts, as in Kubernetes
}

func (c *claims) take(n *v1.CustomResourceDefinitionNames) {
	for _, name := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
		c.resources[name] = name != ""
	}
	for _, name := range []string{n.Kind, n.ListKind} {
		c.kinds[name] = name != ""
	}
}

func (c *claims) claim(reason, want string, have *string, used map[string]bool) {
	if want != *have && used[want] {
		c.reason, c.message = reason, inUse(want)
		return
	}
	*have = want
}

func inUse(name string) string { return fmt.Sprintf("%q is already in use", name) }

// claimShort takes all short names or none.
func (c *claims) claimShort(want []string, have *[]string) {
	var taken []string
	for _, name := range want {
		if !slices.Contains(*have, name) && c.resources[name] {
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
func Set(st *v1.CustomResourceDefinitionStatus, c v1.CustomResourceDefinitionCondition, now metav1.Time) {
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

func find(list []v1.CustomResourceDefinitionCondition, t v1.CustomResourceDefinitionConditionType) *v1.CustomResourceDefinitionCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}
