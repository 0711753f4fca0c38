//go:build !reader

package apiextensions

import (
	"reflect"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A ratcheting lists the rules that a definition may break because it broke them before.
type ratcheting struct {
	reviews      bool            // name no version of ConversionReview that is known
	noSchema     bool            // have versions without a schema
	types        bool            // have types that do not exist
	unstructural bool            // have schemas that are not structural
	unpruned     bool            // have defaults that would be pruned
	sets         bool            // have sets of what is not atomic
	keys         bool            // have lists with keys that may be missing
	ca           bool            // have a CA bundle that can't be read
	many         map[string]bool // versions that may have too many selectable fields; "": what they have in common
	same         map[string]bool // versions whose schemas have not changed: their rules may be dear
	rules        map[string]bool // rules and messages that are there already
	messages     map[string]bool
}

// strict is for new definitions. A certificate is only looked at when the definition is established.
func strict() ratcheting { return ratcheting{ca: true} }

// ratchetingOf looks what was wrong with the stored definition already: rules that came with later releases must not keep a definition from
// being changed that was fine when it was made (KEP-4008 is the same idea for objects).
func ratchetingOf(c, old *definition) ratcheting {
	o := &old.Spec
	l := ratcheting{
		noSchema:     !allSchemas(o),
		types:        anySchema(o, anywhere(func(s props) bool { return strangeType(&s) })),
		unstructural: anySchema(o, notStructural),
		unpruned:     anySchema(o, prunable),
		sets:         anySchema(o, anywhere(func(s props) bool { return len(atomicSet(&s, nil)) > 0 })),
		keys:         anySchema(o, anywhere(func(s props) bool { return len(keyRules(&s, nil)) > 0 })),
		ca:           !apiextensions.IsCRDConditionTrue(old, apiextensions.Established),
		many:         map[string]bool{}, same: map[string]bool{}, rules: map[string]bool{}, messages: map[string]bool{},
	}
	if conv := o.Conversion; conv != nil {
		list := conv.ConversionReviewVersions
		l.reviews = len(list) > 0 && !slices.ContainsFunc(list, func(v string) bool { return slices.Contains(reviewVersions, v) })
		if w := conv.WebhookClientConfig; w != nil && len(w.CABundle) > 0 {
			l.ca = l.ca || badCertificates(w.CABundle) != nil
		}
	}
	anySchema(o, anywhere(func(s props) bool {
		for _, r := range s.XValidations {
			l.rules[r.Rule], l.messages[r.MessageExpression] = true, true
		}
		return false
	}))
	l.compare(c, old)
	return l
}

// compare notes what has not changed.
func (l *ratcheting) compare(c, old *definition) {
	tooMany := func(is, was []apiextensions.SelectableField) bool {
		return len(was) > maxSelectableFields && equality.Semantic.DeepEqual(is, was)
	}
	l.many[""] = tooMany(c.Spec.SelectableFields, old.Spec.SelectableFields)
	for _, v := range c.Spec.Versions {
		if at := slices.IndexFunc(old.Spec.Versions, func(o version) bool { return o.Name == v.Name }); at >= 0 {
			l.many[v.Name] = tooMany(v.SelectableFields, old.Spec.Versions[at].SelectableFields)
		}
		is, err := apiextensions.GetSchemaForVersion(c, v.Name)
		was, err2 := apiextensions.GetSchemaForVersion(old, v.Name)
		l.same[v.Name] = err == nil && err2 == nil && equality.Semantic.DeepEqual(is, was)
	}
}

// allSchemas says that each version has a schema.
func allSchemas(s *spec) bool {
	return s.Validation != nil && s.Validation.OpenAPIV3Schema != nil ||
		!slices.ContainsFunc(s.Versions, func(v version) bool { return v.Schema == nil || v.Schema.OpenAPIV3Schema == nil })
}

// anySchema says whether something is so with the schema of some version.
func anySchema(s *spec, is func(*props) bool) bool {
	if s.Validation != nil && s.Validation.OpenAPIV3Schema != nil && is(s.Validation.OpenAPIV3Schema) {
		return true
	}
	return slices.ContainsFunc(s.Versions, func(v version) bool {
		return v.Schema != nil && v.Schema.OpenAPIV3Schema != nil && is(v.Schema.OpenAPIV3Schema)
	})
}

// anywhere asks of a schema and of all below it. Schemas go by value: they are large and stand in maps, and what has no
// address is not copied to the heap.
func anywhere(is func(props) bool) func(*props) bool {
	return func(s *props) bool { return s != nil && somewhere(*s, is) }
}

// somewhere looks through a schema and all that it holds, the parts that structural schemas may not have too: stored definitions may.
func somewhere(s props, is func(props) bool) bool {
	in := func(s *props) bool { return s != nil && somewhere(*s, is) }
	if is(s) || in(s.Not) {
		return true
	}
	lists := [...][]props{s.AllOf, s.AnyOf, s.OneOf, nil}
	if s.Items != nil {
		lists[3] = s.Items.JSONSchemas
		if in(s.Items.Schema) {
			return true
		}
	}
	for _, l := range lists {
		for i := range l {
			if somewhere(l[i], is) {
				return true
			}
		}
	}
	for _, m := range [...]map[string]props{s.Properties, s.PatternProperties, s.Definitions} {
		for _, p := range m {
			if somewhere(p, is) {
				return true
			}
		}
	}
	for _, b := range [...]*apiextensions.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if b != nil && in(b.Schema) {
			return true
		}
	}
	for _, d := range s.Dependencies {
		if in(d.Schema) {
			return true
		}
	}
	return false
}

var hasDefaults = anywhere(func(s props) bool { return s.Default != nil })

// hasExtensions says that a schema uses what only structural ones may.
var hasExtensions = anywhere(func(s props) bool {
	return s.XEmbeddedResource || s.XPreserveUnknownFields != nil || s.XIntOrString || len(s.XListMapKeys) > 0 || s.XListType != nil ||
		len(s.XValidations) > 0
})

func strangeType(s *props) bool { return s.Type != "" && !slices.Contains(schemaTypes, s.Type) }

func notStructural(s *props) bool {
	t, err := structural.NewStructural(s)
	return err != nil || len(structural.ValidateStructural(nil, t)) > 0
}

// prunable says that there are defaults which hold what the schema does not know.
func prunable(s *props) bool {
	if !hasDefaults(s) || notStructural(s) {
		return false
	}
	t, err := structural.NewStructural(s)
	if err != nil {
		return false
	}
	pruned := t.DeepCopy()
	return defaulting.PruneDefaults(pruned) == nil && !reflect.DeepEqual(t, pruned)
}

// atomicSet wants the items of a set to be of one piece.
func atomicSet(s *props, path *field.Path) field.ErrorList {
	if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
		return nil
	}
	const says = "must be atomic as item of a list with x-kubernetes-list-type=set"
	switch item := s.Items.Schema; {
	case item.Type == "array" && item.XListType != nil && *item.XListType != "atomic":
		return field.ErrorList{field.Invalid(path.Child("items", "x-kubernetes-list-type"), item.XListType, says)}
	case item.Type == "object" && (item.XMapType == nil || *item.XMapType != "atomic"):
		return field.ErrorList{field.Invalid(path.Child("items", "x-kubernetes-map-type"), item.XListType, says)}
	}
	return nil
}

// keyRules wants items of sets and maps, and the keys of maps, to be there.
func keyRules(s *props, path *field.Path) (errs field.ErrorList) {
	if s.Items == nil || s.Items.Schema == nil || s.XListType == nil || *s.XListType != "set" && *s.XListType != "map" {
		return nil
	}
	item, at := s.Items.Schema, path.Child("items")
	if item.Nullable {
		errs = append(errs, field.Forbidden(at.Child("nullable"), "cannot be nullable when x-kubernetes-list-type is "+*s.XListType))
	}
	if *s.XListType == "set" {
		return errs
	}
	for _, k := range s.XListMapKeys {
		p, ok := item.Properties[k]
		if !ok {
			continue
		}
		if !slices.Contains(item.Required, k) && p.Default == nil {
			errs = append(errs, field.Required(at.Child("properties").Key(k).Child("default"),
				"this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
		if p.Nullable {
			errs = append(errs, field.Forbidden(at.Child("properties").Key(k).Child("nullable"),
				"this property is in x-kubernetes-list-map-keys, so it cannot be nullable"))
		}
	}
	return errs
}
