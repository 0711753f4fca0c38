package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// A choice says which objects of a kind a list, watch or deletecollection is about.
type choice struct {
	kind   resource.Kind
	ns     string // "" for all
	name   string // "" for all
	labels labels.Selector
	fields fields.Requirements // beside name and namespace when those are equalities
	index  *fields.Requirement // one of them that an index answers
	none   bool                // the selectors contradict each other
}

// choose parses the selectors of a request, where these features are on.
func choose(on *features.Set, r *Request, opts *metav1.ListOptions) (*choice, error) {
	c := &choice{kind: r.Kind, ns: r.Namespace, name: r.Name}
	if !r.Kind.Info().Namespaced {
		c.ns = ""
	}
	var err error
	if c.labels, err = labels.Parse(opts.LabelSelector); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if opts.FieldSelector == "" {
		return c, nil
	}
	sel, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, q := range sel.Requirements() {
		label := q.Field
		if q.Field = hubField(r, label); !selectable(on, r.Kind.Info(), q.Field) {
			return nil, unselectable(r, label)
		}
		c.require(q)
	}
	return c, nil
}

// selectable says whether there is such a field label.
func selectable(on *features.Set, i *resource.Info, label string) bool {
	return slices.Contains(i.Selectable, label) && (on.AtLeast(37) || !slices.Contains(i.Unselectable36, label))
}

// CheckSelectors says what is wrong with the selectors of a list or watch of r's kind, where these features are on.
func CheckSelectors(on *features.Set, r *Request, opts *metav1.ListOptions) error {
	_, err := choose(on, r, opts)
	return err
}

// unselectable refuses a field label in the kind's words.
func unselectable(r *Request, label string) error {
	format := cmp.Or(r.Kind.Info().Unselectable, `%[1]q is not a known field selector: only "metadata.name", "metadata.namespace"`)
	return apierrors.NewBadRequest(fmt.Sprintf(format, label, r.Spoken()))
}

// legible says whether the selectors of a request can be read.
func legible(opts *metav1.ListOptions) error {
	if _, err := labels.Parse(opts.LabelSelector); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if _, err := fields.ParseSelector(opts.FieldSelector); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// require adds a requirement in the form that is cheapest to answer.
func (c *choice) require(q fields.Requirement) {
	equal := q.Operator == selection.Equals || q.Operator == selection.DoubleEquals
	switch {
	case equal && q.Field == "metadata.name" && q.Value != "":
		c.none = c.none || c.name != "" && c.name != q.Value
		c.name = q.Value
	case equal && q.Field == "metadata.namespace" && q.Value != "":
		c.none = c.none || c.ns != "" && c.ns != q.Value
		c.ns = q.Value
	default:
		c.fields = append(c.fields, q)
		if equal && c.index == nil && slices.Contains(c.kind.Info().Indexed, q.Field) {
			c.index = &c.fields[len(c.fields)-1]
		}
	}
}

// hubField translates the field labels of a kind's other versions; "" is for those that they lack.
func hubField(r *Request, label string) string {
	if r.GVK.Group != "events.k8s.io" || r.Kind.Info().GVK.Group == "events.k8s.io" {
		return label
	}
	switch rest, ok := strings.CutPrefix(label, "regarding."); {
	case ok:
		return "involvedObject." + rest
	case label == "reportingController":
		return "reportingComponent"
	case label == "reportingComponent", label == "source", strings.HasPrefix(label, "involvedObject."):
		return ""
	}
	return label
}

// all says that no selector narrows the choice.
func (c *choice) all() bool {
	return c.name == "" && len(c.fields) == 0 && c.labels.Empty() && !c.none
}

// place says whether the object is in the chosen namespace and has the chosen name.
func (c *choice) place(obj resource.Object) bool {
	return !c.none && (c.ns == "" || c.ns == obj.GetNamespace()) && (c.name == "" || c.name == obj.GetName())
}

// holds says whether the object is chosen.
func (c *choice) holds(obj resource.Object) bool {
	return c.place(obj) && c.selects(obj)
}

func (c *choice) selects(obj resource.Object) bool {
	if !c.labels.Empty() && !c.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if len(c.fields) > 1 && c.kind.Info().Custom {
		obj = resource.Opened(obj) // each field is read from it
	}
	for _, q := range c.fields {
		if (c.kind.Field(obj, q.Field) == q.Value) == (q.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}
