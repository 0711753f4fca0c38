// Package crd serves the kinds that users define. A CustomResourceDefinition becomes a resource.Kind like any
// other: the server takes the same path for it as for built-in kinds. Objects are maps; a structural schema says
// what they may hold: unknown fields are pruned where they are read, unset ones defaulted, and what is written is
// validated by the schema and its rules.
//
// Nothing is compiled before it is needed: a definition without objects costs little more than its own text.
package crd

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/webhook"
)

// A Kind is a kind that a CustomResourceDefinition declares, as seen from one of its versions: versions may differ
// in schema, columns and subresources. Kinds of one definition share everything else. It never changes: a changed
// definition makes a new Kind.
type Kind struct {
	*family
	at   *version
	info resource.Info
}

// A declaration holds what does not change while a kind is served as it is.
type declaration struct{ _ byte } // not empty: each has an address of its own

var (
	_ resource.Kind      = (*Kind)(nil)
	_ resource.Versioned = (*Kind)(nil)
)

// family holds what the versions of a kind share.
type family struct {
	def   *apiextensionsv1.CustomResourceDefinition // its schemas may be missing
	all   []*version                                // in the order of the definition, those that are not served too
	hub   *version                                  // the one that is stored
	views map[string]*Kind
	says  *declaration
	reads *declaration // by which objects are read
	since int64        // revision of the definition that first said what this one says of objects

	caller *webhook.Caller // of the conversion webhook; nil: there is nobody to call it
	mu     sync.Mutex
	memo   conversionCache // guarded by mu
}

// verbs are in the order of discovery.
var verbs = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}

var subVerbs = []string{"get", "patch", "update"}

var scaleGVK = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

// NewKind returns the kind that a definition declares, as its storage version. The names are those that were
// accepted; without any, those that it asks for. The definition is kept and must not change.
func NewKind(def *apiextensionsv1.CustomResourceDefinition) (resource.Kind, error) {
	return newKind(SourceOf(def), nil, false, nil)
}

// newKind takes over what was compiled for the kind as it was, where it is the same, as it is everywhere if the spec is:
// objects then need not be read again. was may be nil.
func newKind(def Source, was *Kind, same bool, caller *webhook.Caller) (resource.Kind, error) {
	f := &family{def: def.CustomResourceDefinition, views: map[string]*Kind{}, caller: caller, says: &declaration{},
		reads: &declaration{}}
	if f.since = resource.Revision(f.def); same {
		f.since = was.since
	}
	if same && equality.Semantic.DeepEqual(was.def.Status.AcceptedNames, def.Status.AcceptedNames) {
		f.says = was.says
	}
	names := namesOf(def.CustomResourceDefinition)
	for i := range def.Spec.Versions {
		v := newVersion(def, &def.Spec.Versions[i], names.Kind)
		if was != nil {
			v = was.inherited(v, same)
		}
		f.all = append(f.all, v)
		if v.spec.Storage {
			f.hub = v
		}
	}
	if f.hub == nil {
		return nil, fmt.Errorf("definition %s: no version is stored", def.Name)
	}
	if names.Plural == "" || names.Kind == "" {
		return nil, errors.New("definition " + def.Name + ": it has no names")
	}
	if was != nil && was.hub == f.hub && was.hooked() == f.hooked() && slices.Equal(was.all, f.all) {
		f.reads = was.reads
	}
	for _, v := range f.all {
		f.views[v.gvk.Version] = &Kind{family: f, at: v, info: f.describe(v, names)}
	}
	return f.views[f.hub.gvk.Version], nil
}

// inherited returns the version that was there before v if it says the same, as it does if the definitions do.
func (f *family) inherited(v *version, same bool) *version {
	old := f.find(v.gvk)
	if old == nil || old.gvk != v.gvk || old.keep != v.keep {
		return v
	}
	if !same && !(equality.Semantic.DeepEqual(old.spec, v.spec) && equality.Semantic.DeepEqual(old.text.read(), v.text.read())) {
		return v
	}
	old.text.at.Store(v.text.at.Load())
	return old
}

// namesOf returns the names that a definition is served by.
func namesOf(def *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionNames {
	if def.Status.AcceptedNames.Plural != "" {
		return def.Status.AcceptedNames
	}
	return def.Spec.Names
}

// describe makes the facts of a kind as one of its versions has them.
func (f *family) describe(v *version, names apiextensionsv1.CustomResourceDefinitionNames) resource.Info {
	group := f.def.Spec.Group
	i := resource.Info{GVK: f.hub.gvk, Plural: names.Plural, Singular: names.Singular, ListKind: names.ListKind,
		Short: names.ShortNames, Categories: names.Categories, Namespaced: f.def.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Verbs: verbs, Prefix: "/registry/" + group + "/" + names.Plural + "/", Custom: true,
		Quirks: resource.Quirks{Unselectable: resource.OtherField}}
	for _, other := range f.all {
		if other != f.hub && other.spec.Served {
			i.Also = append(i.Also, other.gvk)
		}
	}
	if s := v.spec.Subresources; s != nil {
		if s.Status != nil {
			i.Subs = append(i.Subs, resource.SubInfo{Name: "status", Verbs: subVerbs, Resets: []string{"metadata", "spec"}})
		}
		if s.Scale != nil {
			i.Subs = append(i.Subs, resource.SubInfo{Name: "scale", GVK: scaleGVK, Verbs: subVerbs})
		}
	}
	i.Selectable = []string{"metadata.name"}
	if i.Namespaced {
		i.Selectable = append(i.Selectable, "metadata.namespace")
	}
	for _, s := range v.spec.SelectableFields {
		i.Selectable = append(i.Selectable, fieldLabel(s.JSONPath))
	}
	return i
}

// Info implements resource.Kind.
func (k *Kind) Info() *resource.Info { return &k.info }

// In implements resource.Versioned.
func (k *Kind) In(gvk schema.GroupVersionKind) (resource.Kind, bool) {
	v := k.views[gvk.Version]
	if v == nil || v.at.gvk != gvk || !v.at.spec.Served {
		return nil, false
	}
	return v, true
}

// Closing says that the definition is under deletion: there may be no new objects.
func (k *Kind) Closing() bool { return Is(k.def, apiextensionsv1.Terminating) }

// Declaration says by which spec and names the kind is served.
func (k *Kind) Declaration() any { return k.says }

// find returns a version by its name, or nil.
func (f *family) find(gvk schema.GroupVersionKind) *version {
	for _, v := range f.all {
		if v.gvk.Version == gvk.Version {
			return v
		}
	}
	return nil
}

// Is says whether a condition of a definition is true.
func Is(def *apiextensionsv1.CustomResourceDefinition, t apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	c := find(def.Status.Conditions, t)
	return c != nil && c.Status == apiextensionsv1.ConditionTrue
}
