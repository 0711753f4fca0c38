package crd

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/webhook"
)

// A Registry makes the kinds of definitions known to the parts of a server, and unknown again. It is safe for
// concurrent use.
type Registry struct {
	// Kinds is the registry of the kinds that the server serves.
	Kinds *resource.Set
	// View holds the objects; package view has it.
	View interface {
		Adopt(list ...resource.Kind) error
		Drop(gr schema.GroupResource) error
		Wake(list ...resource.Kind)
	}
	// Fields tracks who owns what; package apply has it.
	Fields interface {
		SetSchema(gvk schema.GroupVersionKind, s *spec.Schema) error
		SetSchemaLater(gvk schema.GroupVersionKind, later func() (*spec.Schema, error))
	}
	// Docs describes what is served; package openapi has it.
	Docs interface {
		AddSchemaLater(gvk schema.GroupVersionKind, mark string, later func() (*spec.Schema, error))
		RemoveSchema(gvk schema.GroupVersionKind)
	}
	// Webhooks calls the conversion webhooks of definitions; nil: objects of definitions with one can't be converted.
	Webhooks *webhook.Caller

	mu    sync.Mutex
	known map[string]*served // by the definition's name
}

// served holds what the parts know of one definition.
type served struct {
	def  Source
	kind resource.Kind
	gvks []schema.GroupVersionKind
}

func (s *served) says(def Source) bool {
	return s.def.UID == def.UID && Is(s.def.CustomResourceDefinition, apiextensionsv1.Terminating) == Is(def.CustomResourceDefinition,
		apiextensionsv1.Terminating) &&
		equality.Semantic.DeepEqual(s.def.Status.AcceptedNames, def.Status.AcceptedNames) && s.def.agrees(def)
}

// Serve makes the kinds of definitions known as the definitions have them now. It does nothing about those that
// are so already. Requests are answered from then on. The definitions are kept and must not change. The error names
// those that can't be served; the others are.
func (r *Registry) Serve(defs ...Source) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	var list []resource.Kind
	fresh := map[string]*served{}
	for _, def := range defs {
		s, err := r.prepare(def)
		if err != nil {
			errs = append(errs, fmt.Errorf("serve %s: %w", def.Name, err))
		}
		if s != nil {
			fresh[def.Name] = s
			list = append(list, s.kind)
		}
	}
	if len(list) == 0 {
		return errors.Join(errs...)
	}
	if err := r.View.Adopt(list...); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if err := r.Kinds.Put(list...); err != nil {
		return errors.Join(append(errs, fmt.Errorf("serve kinds: %w", err))...)
	}
	for _, s := range fresh {
		r.document(s.kind.(*Kind))
	}
	r.View.Wake(list...) // watches of a kind that has changed end
	if r.known == nil {
		r.known = map[string]*served{}
	}
	maps.Copy(r.known, fresh)
	return errors.Join(errs...)
}

// prepare makes the kind of a definition and tells its schemas; nil when nothing is new.
func (r *Registry) prepare(def Source) (*served, error) {
	was := r.known[def.Name]
	if was != nil && was.says(def) {
		was.def = def
		for _, v := range was.kind.(*Kind).all {
			v.text.at.Store(&def)
		}
		return nil, nil
	}
	if was != nil && was.def.UID != def.UID { // another one took its place unseen
		if err := r.drop(def.Name, was); err != nil {
			return nil, err
		}
		was = nil
	}
	var old *Kind
	same := false
	if was != nil {
		old, same = was.kind.(*Kind), was.def.agrees(def)
	}
	k, err := newKind(def, old, same, r.Webhooks)
	if err != nil {
		return nil, err
	}
	if other, taken := r.Kinds.GR(k.Info().GR()); taken && !other.Info().Custom {
		return nil, fmt.Errorf("%s is a built-in resource", k.Info().GR())
	}
	s := &served{def: def, kind: k}
	return s, r.describe(s, was, k.(*Kind))
}

// document tells of a kind's schemas once they are in force: clients wait for the document to know that.
func (r *Registry) document(k *Kind) {
	for _, v := range k.all {
		if v.spec.Served || v == k.hub {
			r.Docs.AddSchemaLater(v.gvk, fmt.Sprintf("%s %d", k.def.UID, k.def.Generation), v.openAPI)
		}
	}
}

// describe tells the schemas of a kind to the parts that need them before objects are read.
func (r *Registry) describe(s, was *served, k *Kind) error {
	for _, v := range k.all {
		if !v.spec.Served && v != k.hub {
			continue
		}
		s.gvks = append(s.gvks, v.gvk)
		r.Fields.SetSchemaLater(v.gvk, v.openAPI)
	}
	if was == nil {
		return nil
	}
	return r.forget(was.gvks, s.gvks)
}

// forget takes back the schemas of versions that are not among those that stay.
func (r *Registry) forget(gvks, stay []schema.GroupVersionKind) error {
	var errs []error
	for _, gvk := range gvks {
		kept := false
		for _, s := range stay {
			kept = kept || s == gvk
		}
		if !kept {
			errs = append(errs, r.Fields.SetSchema(gvk, nil))
			r.Docs.RemoveSchema(gvk)
		}
	}
	return errors.Join(errs...)
}

// Forget makes the kind of a definition unknown.
func (r *Registry) Forget(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.known[name]
	if s == nil {
		return nil
	}
	return r.drop(name, s)
}

func (r *Registry) drop(name string, s *served) error {
	delete(r.known, name)
	gr := s.kind.Info().GR()
	r.Kinds.Remove(gr)
	err := r.View.Drop(gr)
	if err := errors.Join(err, r.forget(s.gvks, nil)); err != nil {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}

// Kind returns the kind that a definition is served as, or nil.
func (r *Registry) Kind(name string) resource.Kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.known[name]; s != nil {
		return s.kind
	}
	return nil
}
