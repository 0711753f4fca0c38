package crd

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/kloop-dev/kloop/kinds/expression"
	"github.com/kloop-dev/kloop/resource"
)

// A version is one version of a kind and what was compiled of it so far.
type version struct {
	spec *apiextensionsv1.CustomResourceDefinitionVersion // its schema may be missing
	text *text
	gvk  schema.GroupVersionKind
	keep bool // unknown fields stay, whatever the schema says

	// schema prunes and defaults objects; nil stands for no schema.
	schema func() (*structural.Structural, error)
	used   atomic.Bool // schema was asked for
	// defaulter sets defaults; nil when there are none.
	filler func() *defaulter
	// rules validates objects; made at the first write.
	rules func() (*rules, error)
	table func() []column
	paths func() []path
}

// rules are the compiled ways to validate an object: a quick one, which tells that all is well, and the library, which
// tells what is wrong.
type rules struct {
	schema *structural.Structural
	shape  *fastSchema // nil: there is no schema
	tree   *fastRules  // nil: there are no rules
	stock  func() (*libraryValidator, error)
}

// libraryValidator is the library's validation.
type libraryValidator struct {
	schema *structural.Structural
	whole  validation.SchemaValidator
	status validation.SchemaValidator // nil: status is not described
	cel    *cel.Validator             // nil: there are no rules
}

func newVersion(def Source, spec *apiextensionsv1.CustomResourceDefinitionVersion, kind string) *version {
	v := &version{spec: spec, text: &text{version: spec.Name}, keep: def.Spec.PreserveUnknownFields,
		gvk: schema.GroupVersionKind{Group: def.Spec.Group, Version: spec.Name, Kind: kind}}
	v.text.at.Store(&def)
	v.schema = sync.OnceValues(func() (*structural.Structural, error) {
		v.used.Store(true)
		return v.compileSchema()
	})
	v.filler = sync.OnceValue(func() *defaulter {
		s, err := v.schema()
		if err != nil {
			return nil
		}
		return newFiller(s)
	})
	v.rules = sync.OnceValues(v.compileRules)
	v.table = sync.OnceValue(v.compileTable)
	v.paths = sync.OnceValue(v.compilePaths)
	return v
}

// props is the schema as the library's internal type; nil when there is none.
func (v *version) props() (*apiextensions.JSONSchemaProps, error) {
	in := v.text.read()
	if in == nil {
		return nil, nil
	}
	var out apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, &out, nil); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", v.gvk, err)
	}
	return &out, nil
}

func (v *version) compileSchema() (*structural.Structural, error) {
	in, err := v.props()
	if in == nil || err != nil {
		return nil, err
	}
	s, err := structural.NewStructural(in)
	if err != nil {
		if v.keep { // of an old definition, which need not be structural
			return nil, nil
		}
		return nil, fmt.Errorf("read the schema of %s: %w", v.gvk, err)
	}
	// The defaults themselves must hold nothing that the schema would prune.
	if err := defaulting.PruneDefaults(s); err != nil {
		return nil, fmt.Errorf("prune the defaults of %s: %w", v.gvk, err)
	}
	return s, nil
}

func (v *version) compileRules() (*rules, error) {
	s, err := v.schema()
	if err != nil {
		return nil, err
	}
	r := &rules{schema: s, stock: sync.OnceValues(v.compileStock)}
	if s != nil {
		r.shape, r.tree = newShape(s), newRuleTree(s, true, model.SchemaDeclType(s, true))
	}
	return r, nil
}

func (v *version) compileStock() (*libraryValidator, error) {
	s, err := v.schema()
	if err != nil {
		return nil, err
	}
	in, err := v.props()
	if err != nil {
		return nil, err
	}
	r := &libraryValidator{schema: s}
	if r.whole, _, err = validation.NewSchemaValidator(in); err != nil {
		return nil, fmt.Errorf("compile the schema of %s: %w", v.gvk, err)
	}
	if in != nil && v.hasStatus() {
		if status, ok := in.Properties["status"]; ok {
			if r.status, _, err = validation.NewSchemaValidator(&status); err != nil {
				return nil, fmt.Errorf("compile the status schema of %s: %w", v.gvk, err)
			}
		}
	}
	expression.Bound()
	r.cel = cel.NewValidator(s, true, celconfig.PerCallLimit)
	return r, nil
}

func (v *version) hasStatus() bool {
	return v.spec.Subresources != nil && v.spec.Subresources.Status != nil
}

func (v *version) scale() *apiextensionsv1.CustomResourceSubresourceScale {
	if v.spec.Subresources == nil {
		return nil
	}
	return v.spec.Subresources.Scale
}

// coerce makes a tree what the schema allows: metadata is typed, unknown fields go, and so do nulls where there may
// be none. With track it names what went. lenient drops broken metadata instead of failing.
func (v *version) coerce(u map[string]any, track, lenient bool) (unknown []string, err error) {
	s, err := v.schema()
	if err != nil {
		return nil, err
	}
	if !v.keep && (!lenient || counted(u)) && plain(u, s) {
		return nil, nil
	}
	kind, hasKind, err := unstructured.NestedString(u, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, hasVersion, err := unstructured.NestedString(u, "apiVersion")
	if err != nil {
		return nil, err
	}
	meta, hasMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(u,
		objectmeta.ObjectMetaOptions{DropMalformedFields: lenient, ReturnUnknownFieldPaths: track})
	if err != nil {
		return nil, err
	}
	if !v.keep {
		unknown = append(unknown, pruning.PruneWithOptions(u, s, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: track})...)
		defaulting.PruneNonNullableNullsWithoutDefaults(u, s)
	}
	ferr, paths := objectmeta.CoerceWithOptions(nil, u, s, false,
		objectmeta.CoerceOptions{DropInvalidFields: lenient, ReturnUnknownFieldPaths: track})
	if ferr != nil {
		return nil, ferr
	}
	if hasKind {
		u["kind"] = kind
	}
	if hasVersion {
		u["apiVersion"] = apiVersion
	}
	if !hasMeta {
		return append(unknown, paths...), nil
	}
	if lenient && meta.Generation == 0 {
		meta.Generation = 1
	}
	return append(unknown, paths...), objectmeta.SetObjectMeta(u, meta)
}

// counted says that an object has a generation.
func counted(u map[string]any) bool {
	meta, ok := u["metadata"].(map[string]any)
	return !ok || meta["generation"] != nil
}

// Tidy leaves out of the metadata of an object that was merged, and of objects in it, what says nothing.
func (k *Kind) Tidy(obj resource.Object) {
	o, err := k.object(obj)
	if err != nil {
		return
	}
	if s, err := k.at.schema(); err == nil {
		_, _ = objectmeta.CoerceWithOptions(nil, o.Object, s, false, objectmeta.CoerceOptions{}) // what is malformed is found later
	}
	meta, _ := o.Object["metadata"].(map[string]any)
	for name, v := range meta {
		switch v := v.(type) {
		case nil:
			delete(meta, name)
		case string:
			if v == "" {
				delete(meta, name)
			}
		case map[string]any:
			if len(v) == 0 {
				delete(meta, name)
			}
			for key, text := range v {
				if text == nil && (name == "labels" || name == "annotations") { // what is typed has no null there
					v[key] = ""
				}
			}
		case []any:
			if len(v) == 0 {
				delete(meta, name)
			}
		}
	}
}

// fill sets defaults.
func (v *version) fill(u map[string]any) { v.filler().fill(u) }
