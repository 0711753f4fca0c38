//go:build !reader

package apiextensions

import (
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var schemaTypes = []string{"array", "boolean", "integer", "number", "object", "string"}

// A walk checks all schemas below a root: what being structural does not cover, and their rules.
type walk struct {
	l    ratcheting
	same bool // the schema has not changed: its rules may be dear
	bill celCost
}

// A schemaPosition is a place in the schema, with what follows from the levels above.
type schemaPosition struct {
	path    *field.Path
	s       *structural.Structural // what stands here; nil: rules are not looked at
	root    bool
	known   bool   // there is a bound to how often such a value may be there
	times   uint64 // the bound
	meta    bool   // within apiVersion, kind or metadata of an object
	undef   string // why there may be no defaults; "": there may be
	noOlder *field.Path
	ruled   bool // there are rules here or above
	untyped bool // and it can't be told of what type a value is that they see
}

// below is a position under another one. Rules are looked at if s is not nil.
func (at schemaPosition) below(of *props, path *field.Path, s *structural.Structural) schemaPosition {
	at.root, at.path, at.s = false, path, s
	times, bounded := mostOf(of)
	if at.known = at.known && bounded; at.known {
		at.times = product(at.times, times)
	}
	return at
}

// mostOf is the number of values that there are at most in one of a schema, each at the same position.
func mostOf(s *props) (n uint64, bounded bool) {
	limit, many := s.MaxItems, s.Type == "array"
	if s.Type == "object" && s.AdditionalProperties != nil {
		limit, many = s.MaxProperties, true
	}
	switch {
	case !many:
		return 1, true
	case limit == nil:
		return 0, false
	}
	return uint64(max(*limit, 0)), true
}

// barred is a position below which there is no telling which value was which.
func (at schemaPosition) barred(path *field.Path) schemaPosition {
	if at.noOlder == nil {
		at.noOlder = path
	}
	return at
}

// visit checks a schema and all below it. Rules are compiled where there is nothing else to complain of.
func (w *walk) visit(v props, at schemaPosition) (schema, rules field.ErrorList) {
	s := &v
	at.ruled = at.ruled || len(s.XValidations) > 0
	at.untyped = at.untyped || at.ruled && at.s != nil && !at.root && !s.XEmbeddedResource && untyped(at.s)
	f := findings{w: w, schema: w.here(s, at)}
	f.values(s, at)
	f.list(s.AllOf, "allOf", s, at)
	f.list(s.OneOf, "oneOf", s, at)
	f.list(s.AnyOf, "anyOf", s, at)
	f.pointed(s.Not, at.below(s, at.path.Child("not"), nil))
	for _, name := range slices.Sorted(maps.Keys(s.Definitions)) {
		f.visit(s.Definitions[name], at.below(s, at.path.Child("definitions").Key(name), nil))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		f.pointed(s.Dependencies[name].Schema, at.below(s, at.path.Child("dependencies").Key(name), nil))
	}
	f.schema = append(f.schema, w.listAndMap(s, at.path)...)
	if len(s.XValidations) > 0 {
		f.schema = append(f.schema, texts(s, at)...)
		if len(f.schema) == 0 && at.s != nil {
			f.rules = append(f.rules, w.compile(s, at)...)
		}
	}
	return f.schema, f.rules
}

// findings are the errors of a schema and all below it.
type findings struct {
	w             *walk
	schema, rules field.ErrorList
}

func (f *findings) visit(s props, at schemaPosition) {
	schema, rules := f.w.visit(s, at)
	f.schema, f.rules = append(f.schema, schema...), append(f.rules, rules...)
}

func (f *findings) pointed(s *props, at schemaPosition) {
	if s != nil {
		f.visit(*s, at)
	}
}

func (f *findings) list(list []props, name string, s *props, at schemaPosition) {
	for i := range list {
		f.visit(list[i], at.below(s, at.path.Child(name).Index(i), nil))
	}
}

// values visits the schemas of what a value consists of.
func (f *findings) values(s *props, at schemaPosition) {
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		var t *structural.Structural
		if at.s != nil && at.s.AdditionalProperties != nil {
			t = at.s.AdditionalProperties.Structural
		}
		next := at.below(s, at.path.Child("additionalProperties"), t)
		if at.meta {
			next.undef = "inside additionalProperties applying to object metadata"
		}
		f.visit(*a.Schema, next)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		next := at.below(s, at.path.Child("properties").Key(name), at.property(name, &p))
		if !cel.MapIsCorrelatable(s.XMapType) {
			next = next.barred(at.path)
		}
		if (at.root || s.XEmbeddedResource) && (name == "metadata" || name == "kind" || name == "apiVersion") {
			if next.meta = true; at.root {
				next.undef = "in top-level " + name
			}
		}
		f.visit(p, next)
	}
	if s.Items == nil {
		return
	}
	next := at
	if s.XListType == nil || *s.XListType != "map" {
		next = at.barred(at.path)
	}
	var t *structural.Structural
	if at.s != nil {
		t = at.s.Items
	}
	f.pointed(s.Items.Schema, next.below(s, at.path.Child("items"), t))
	for i := range s.Items.JSONSchemas {
		f.visit(s.Items.JSONSchemas[i], next.below(s, at.path.Child("items").Index(i), nil))
	}
}

// property returns the schema of a property, nil where there can be no rules to look at.
func (at schemaPosition) property(name string, p *props) *structural.Structural {
	if at.s == nil || len(p.XValidations) == 0 && p.Properties == nil && p.Items == nil && p.AdditionalProperties == nil {
		return nil
	}
	if of, ok := at.s.Properties[name]; ok {
		return &of
	}
	return nil
}

// here checks what a schema says itself.
func (w *walk) here(s *props, at schemaPosition) (errs field.ErrorList) {
	forbid := func(name, says string) { errs = append(errs, field.Forbidden(at.path.Child(name), says)) }
	if !w.l.types && strangeType(s) {
		errs = append(errs, field.NotSupported(at.path.Child("type"), s.Type, schemaTypes))
	}
	if s.Default != nil && at.undef != "" {
		forbid("default", "must not be set "+at.undef)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"id", s.ID != ""}, {"additionalItems", s.AdditionalItems != nil}, {"patternProperties", len(s.PatternProperties) > 0},
		{"definitions", len(s.Definitions) > 0}, {"dependencies", s.Dependencies != nil}, {"$ref", s.Ref != nil}} {
		if f.set {
			forbid(f.name, f.name+" is not supported")
		}
	}
	if s.Type == "null" {
		forbid("type", "type cannot be set to null, use nullable as an alternative")
	}
	if s.Items != nil && len(s.Items.JSONSchemas) > 0 {
		forbid("items", "items must be a schema object and not an array")
	}
	if at.meta && s.XEmbeddedResource {
		forbid("x-kubernetes-embedded-resource", "must not be used inside of resource meta")
	}
	if s.UniqueItems {
		forbid("uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic")
	}
	if a := s.AdditionalProperties; a != nil && len(s.Properties) > 0 && (!a.Allows || a.Schema != nil) {
		forbid("additionalProperties", "additionalProperties and properties are mutual exclusive")
	}
	if keep := s.XPreserveUnknownFields; keep != nil && !*keep {
		errs = append(errs, field.Invalid(at.path.Child("x-kubernetes-preserve-unknown-fields"), *keep, "must be true or undefined"))
	}
	return errs
}

// listAndMap checks the extensions that say how lists and maps are merged.
func (w *walk) listAndMap(s *props, path *field.Path) (errs field.ErrorList) {
	typed := func(want, why string) {
		if says := "must be " + want + " if " + why + " is specified"; s.Type == "" {
			errs = append(errs, field.Required(path.Child("type"), says))
		} else if s.Type != want {
			errs = append(errs, field.Invalid(path.Child("type"), s.Type, says))
		}
	}
	if t := s.XMapType; t != nil {
		typed("object", "x-kubernetes-map-type")
		if *t != "atomic" && *t != "granular" {
			errs = append(errs, field.NotSupported(path.Child("x-kubernetes-map-type"), *t, []string{"atomic", "granular"}))
		}
	}
	list, is := path.Child("x-kubernetes-list-type"), ""
	if t := s.XListType; t != nil {
		is = *t
		typed("array", "x-kubernetes-list-type")
		if s.Type == "array" && !w.l.sets {
			errs = append(errs, atomicSet(s, path)...)
		}
		if is != "atomic" && is != "set" && is != "map" {
			errs = append(errs, field.NotSupported(list, is, []string{"atomic", "set", "map"}))
		}
	}
	if says := "must be map if x-kubernetes-list-map-keys is non-empty"; len(s.XListMapKeys) > 0 && s.XListType == nil {
		errs = append(errs, field.Required(list, says))
	} else if len(s.XListMapKeys) > 0 && is != "map" {
		errs = append(errs, field.Invalid(list, is, says))
	}
	if is == "map" {
		errs = append(errs, mapRules(s, path)...)
	}
	if !w.l.keys {
		errs = append(errs, keyRules(s, path)...)
	}
	return errs
}

// mapRules checks a list whose items are found by keys.
func mapRules(s *props, path *field.Path) (errs field.ErrorList) {
	keys, items := path.Child("x-kubernetes-list-map-keys"), path.Child("items")
	if len(s.XListMapKeys) == 0 {
		errs = append(errs, field.Required(keys, "must not be empty if x-kubernetes-list-type is map"))
	}
	switch {
	case s.Items == nil:
		return append(errs, field.Required(items, "must have a schema if x-kubernetes-list-type is map"))
	case s.Items.Schema == nil:
		return append(errs, field.Invalid(items, s.Items, "must only have a single schema if x-kubernetes-list-type is map"))
	case s.Items.Schema.Type != "object":
		return append(errs, field.Invalid(items.Child("type"), s.Items.Schema.Type,
			"must be object if parent array's x-kubernetes-list-type is map"))
	}
	seen := sets.New[string]()
	for _, k := range s.XListMapKeys {
		if p, ok := s.Items.Schema.Properties[k]; !ok {
			errs = append(errs, field.Invalid(keys, s.XListMapKeys, "entries must all be names of item properties"))
		} else if p.Type == "array" || p.Type == "object" {
			errs = append(errs, field.Invalid(items.Child("properties").Key(k).Child("type"), s.Items.Schema.Type,
				"must be a scalar type if parent array's x-kubernetes-list-type is map"))
		}
		if seen.Has(k) {
			errs = append(errs, field.Invalid(keys, s.XListMapKeys, "must not contain duplicate entries"))
		}
		seen.Insert(k)
	}
	return errs
}

// reasons are the error types that a rule may name.
var reasons = []apiextensions.FieldValueErrorReason{apiextensions.FieldValueDuplicate, apiextensions.FieldValueForbidden,
	apiextensions.FieldValueInvalid, apiextensions.FieldValueRequired}
