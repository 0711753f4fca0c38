package crd

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/resource"
)

// A Registry makes the kinds of definitions known to the parts of a server, and unknown again. It is safe for
// concurrent use.
type Registry struct {
	// Kinds is what the server serves.
	Kinds *resource.Set
	// View holds the objects; package view has it.
	View interface {
		Adopt(k resource.Kind) error
		Drop(gr schema.GroupResource) error
	}
	// Fields tracks who owns what; package apply has it.
	Fields interface {
		SetSchema(gvk schema.GroupVersionKind, s *spec.Schema) error
	}
	// Docs describes what is served; package openapi has it.
	Docs interface {
		AddSchema(gvk schema.GroupVersionKind, s *spec.Schema) error
		RemoveSchema(gvk schema.GroupVersionKind)
	}

	mu    sync.Mutex
	known map[string]*served // by the definition's name
}

// served is what the parts know of one definition.
type served struct {
	uid         types.UID
	spec        *v1.CustomResourceDefinitionSpec
	names       v1.CustomResourceDefinitionNames
	terminating bool
	kind        resource.Kind
	gvks        []schema.GroupVersionKind
}

func (s *served) says(def *v1.CustomResourceDefinition) bool {
	return s.uid == def.UID && s.terminating == Is(def, v1.Terminating) &&
		equality.Semantic.DeepEqual(s.names, def.Status.AcceptedNames) && equality.Semantic.DeepEqual(s.spec, &def.Spec)
}

// Serve makes the kind of a definition known as the definition has it now. It does nothing when that is so
// already. Requests are answered from then on. The definition is kept and must not change.
func (r *Registry) Serve(def *v1.CustomResourceDefinition) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.known[def.Name]
	if was != nil && was.says(def) {
		return nil
	}
	k, err := NewKind(def)
	if err != nil {
		return err
	}
	if was != nil && was.uid != def.UID { // another one took its place unseen
		if err := r.drop(def.Name, was); err != nil {
			return err
		}
		was = nil
	}
	s := &served{uid: def.UID, spec: &def.Spec, names: def.Status.AcceptedNames, terminating: Is(def, v1.Terminating), kind: k}
	if err := r.describe(s, was, k.(*Kind)); err != nil {
		return fmt.Errorf("serve %s: %w", def.Name, err)
	}
	if err := r.View.Adopt(k); err != nil {
		return fmt.Errorf("serve %s: %w", def.Name, err)
	}
	if err := r.Kinds.Put(k); err != nil {
		return fmt.Errorf("serve %s: %w", def.Name, err)
	}
	if r.known == nil {
		r.known = map[string]*served{}
	}
	r.known[def.Name] = s
	return nil
}

// describe tells the schemas of a kind to the parts that need them before objects are read.
func (r *Registry) describe(s, was *served, k *Kind) error {
	for _, v := range k.all {
		if !v.spec.Served && v != k.hub {
			continue
		}
		doc, err := v.openAPI()
		if err != nil {
			return err
		}
		s.gvks = append(s.gvks, v.gvk)
		if err := r.Fields.SetSchema(v.gvk, doc); err != nil {
			return err
		}
		if err := r.Docs.AddSchema(v.gvk, doc); err != nil {
			return err
		}
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

// openAPI is the schema as clients may read it; nil when there is none.
func (v *version) openAPI() (*spec.Schema, error) {
	s, err := v.schema()
	if s == nil || err != nil {
		return nil, err
	}
	return s.Unfold().ToKubeOpenAPI(), nil
}
