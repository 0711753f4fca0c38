package crd

import (
	"math"
	"reflect"
	"regexp"
	"unicode/utf8"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// A fastSchema is a schema made for one question: does a value fit for sure? Almost all that is written does, and the
// library, which builds its validators anew for every value, takes thirty times as long to find out. A no only
// means that the library is to be asked, which also words the errors.
type fastSchema struct {
	hard        bool // holds what only the library judges
	typ         string
	nullable    bool
	intOrString bool

	enum                []any
	least, most         *float64
	openLeast, openMost bool
	small               bool // an int32
	minLen, maxLen      *int64
	pattern             *regexp.Regexp
	format              string // of a string, one that is checked
	minItems, maxItems  *int64
	minProps, maxProps  *int64
	required            []string
	props               map[string]*fastSchema
	rest                *fastSchema // of all other properties; nil: anything
	closed              bool        // there are no other properties
	items               *fastSchema
	unique              bool     // the items are a set
	keys                []string // the items are a map by these
}

func newShape(s *structural.Structural) *fastSchema {
	p := &fastSchema{typ: s.Type, nullable: s.Nullable, intOrString: s.XIntOrString}
	if s.XEmbeddedResource {
		p.hard = true // has metadata with rules of its own
	}
	p.values(s.ValueValidation)
	if s.Properties != nil {
		p.props = make(map[string]*fastSchema, len(s.Properties))
		for name, of := range s.Properties {
			p.props[name] = newShape(&of)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		if a.Structural != nil {
			p.rest = newShape(a.Structural)
		} else {
			p.closed = !a.Bool
		}
	}
	if s.Items != nil {
		p.items = newShape(s.Items)
	}
	if s.XListType != nil {
		p.unique = *s.XListType == "set"
		if *s.XListType == "map" {
			p.keys = s.XListMapKeys
		}
	}
	return p
}

// values takes over what a schema says of values.
func (p *fastSchema) values(v *structural.ValueValidation) {
	if v == nil {
		return
	}
	if len(v.AllOf)+len(v.OneOf) > 0 || v.Not != nil || v.MultipleOf != nil || v.UniqueItems ||
		len(v.AnyOf) > 0 && !(p.intOrString && onlyTypes(v.AnyOf)) {
		p.hard = true
	}
	for _, e := range v.Enum {
		p.enum = append(p.enum, e.Object)
	}
	p.least, p.most, p.openLeast, p.openMost = v.Minimum, v.Maximum, v.ExclusiveMinimum, v.ExclusiveMaximum
	p.minLen, p.maxLen, p.minItems, p.maxItems, p.minProps, p.maxProps = v.MinLength, v.MaxLength, v.MinItems, v.MaxItems,
		v.MinProperties, v.MaxProperties
	p.required = v.Required
	if v.Pattern != "" {
		var err error
		if p.pattern, err = regexp.Compile(v.Pattern); err != nil {
			p.hard = true
		}
	}
	switch {
	case p.typ == "integer" || p.typ == "number":
		p.small = v.Format == "int32"
		p.hard = p.hard || !p.small && v.Format != "" && v.Format != "int64" && v.Format != "double"
	case strfmt.Default.ContainsName(v.Format):
		p.format = v.Format
	}
}

// onlyTypes says that alternatives are integer and string, as is said of every value that may be both.
func onlyTypes(list []structural.NestedValueValidation) bool {
	for i := range list {
		n := &list[i]
		if !reflect.DeepEqual(*n, structural.NestedValueValidation{ForbiddenGenerics: structural.Generic{Type: n.ForbiddenGenerics.Type}}) {
			return false
		}
	}
	return true
}

// fits says that a value is valid for sure.
func (p *fastSchema) fits(v any) bool {
	if p.hard {
		return false
	}
	switch x := v.(type) {
	case nil:
		return p.nullable
	case string:
		return (p.typ == "string" || p.intOrString) && p.fitsString(x)
	case int64:
		return (p.typ == "integer" || p.typ == "number" || p.intOrString) && p.fitsInt(x)
	case float64:
		return p.typ == "number" && !p.small && p.inRange(x) && p.listed(x)
	case bool:
		return p.typ == "boolean" && p.listed(x)
	case map[string]any:
		return p.typ == "object" && p.enum == nil && p.fitsObject(x)
	case []any:
		return p.typ == "array" && p.enum == nil && p.fitsList(x)
	}
	return false
}

func (p *fastSchema) fitsString(s string) bool {
	if p.minLen != nil || p.maxLen != nil {
		if n := int64(utf8.RuneCountInString(s)); !within(n, p.minLen, p.maxLen) {
			return false
		}
	}
	return p.listed(s) && (p.pattern == nil || p.pattern.MatchString(s)) && (p.format == "" || strfmt.Default.Validates(p.format, s))
}

func (p *fastSchema) fitsInt(n int64) bool {
	if p.small && (n < math.MinInt32 || n > math.MaxInt32) {
		return false
	}
	return p.inRange(float64(n)) && p.listed(n)
}

func (p *fastSchema) inRange(f float64) bool {
	return (p.least == nil || f > *p.least || f == *p.least && !p.openLeast) && (p.most == nil || f < *p.most || f == *p.most && !p.openMost)
}

// listed says that there is no enumeration, or the scalar is in it.
func (p *fastSchema) listed(v any) bool {
	if p.enum == nil {
		return true
	}
	for _, e := range p.enum {
		switch e.(type) {
		case string, int64, float64, bool:
			if e == v {
				return true
			}
		}
	}
	return false
}

func within(n int64, least, most *int64) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}

func (p *fastSchema) fitsObject(m map[string]any) bool {
	if !within(int64(len(m)), p.minProps, p.maxProps) {
		return false
	}
	for _, name := range p.required {
		if _, ok := m[name]; !ok {
			return false
		}
	}
	for name, v := range m {
		switch of, ok := p.props[name]; {
		case ok && !of.fits(v), !ok && p.closed, !ok && p.rest != nil && !p.rest.fits(v):
			return false
		}
	}
	return true
}

// few is the number of items that are compared each with each.
const few = 32

func (p *fastSchema) fitsList(l []any) bool {
	if !within(int64(len(l)), p.minItems, p.maxItems) || (p.unique || p.keys != nil) && len(l) > few {
		return false
	}
	for i, v := range l {
		if p.items != nil && !p.items.fits(v) {
			return false
		}
		if !p.unique && p.keys == nil {
			continue
		}
		for _, before := range l[:i] {
			if p.unique && !differ(v, before) || p.keys != nil && !p.keyed(v, before) {
				return false
			}
		}
	}
	return p.keys == nil || len(l) != 1 || p.keyed(l[0], nil)
}

// keyed says that an item has all keys, and another one (nil: there is none) differs in some.
func (p *fastSchema) keyed(v, other any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	o, _ := other.(map[string]any)
	apart := other == nil
	for _, key := range p.keys {
		value, ok := m[key]
		if !ok {
			return false
		}
		apart = apart || differ(value, o[key])
	}
	return apart
}

// differ says that two scalars of one type are not the same.
func differ(a, b any) bool {
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && x != y
	case int64:
		y, ok := b.(int64)
		return ok && x != y
	case bool:
		y, ok := b.(bool)
		return ok && x != y
	}
	return false
}
