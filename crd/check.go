package crd

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// Check implements resource.Kind: it validates by the schema and the rules of the version that k is of.
func (k *Kind) Check(on *features.Set, _ *schema.GroupVersionKind, sub string, obj, old resource.Object) field.ErrorList {
	return k.CheckWarn(context.Background(), on, sub, obj, old, func(string) {})
}

// CheckWarn is Check that also warns: of what is invalid, was so before, and is let through therefore. When ctx ends it gives up.
func (k *Kind) CheckWarn(ctx context.Context, on *features.Set, sub string, obj, old resource.Object,
	warn func(text string)) field.ErrorList {
	r, err := k.at.rules()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	c := &checking{at: k.at, old36: on != nil && !on.AtLeast(37), ctx: warning.WithWarningRecorder(ctx, recorder(warn))}
	if c.obj, err = k.tree(obj); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if old != nil {
		if c.old, err = k.tree(old); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
	}
	if c.sound(r, sub) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if c.libraryValidator, err = r.stock(); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	all := c.obj
	whole := r.shape == nil
	if !whole {
		c.obj, whole = r.shape.cut(all)
	}
	if c.judge(r, sub); len(c.errs) == 0 && !whole { // what was cut off may be wrong
		c.obj = all
		c.judge(r, sub)
	}
	return c.errs
}

// judge asks the library.
func (c *checking) judge(r *rules, sub string) {
	if c.old != nil {
		c.pair = common.NewCorrelatedObject(c.obj, c.old, &model.Structural{Structural: r.schema})
	}
	if sub == "status" {
		c.status()
	} else {
		c.whole()
	}
	c.lists()
	c.evaluate()
}

// sound says that the object is valid for sure. What is so by itself needs no comparison with what it was.
func (c *checking) sound(r *rules, sub string) bool {
	if r.shape == nil || len(c.at.checkScaleStatus(c.obj)) > 0 {
		return false
	}
	if sub != "status" {
		if len(c.at.checkScaleSpec(c.obj)) > 0 {
			return false
		}
	}
	var old any
	if c.old != nil {
		old = c.old
	}
	budget := int64(celconfig.RuntimeCELCostBudget)
	return r.shape.fits(c.obj) && r.tree.holds(c.ctx, c.obj, old, &budget)
}

// recorder takes warnings.
type recorder func(text string)

// AddWarning implements the library's recorder.
func (r recorder) AddWarning(_, text string) { r(text) }

// tree returns an object in the version that is spoken.
func (k *Kind) tree(obj resource.Object) (map[string]any, error) {
	out, err := k.ConvertTo(context.Background(), obj, k.at.gvk)
	if err != nil {
		return nil, err
	}
	o, err := k.object(out)
	if err != nil {
		return nil, err
	}
	return o.Object, nil
}

// checking is one validation under way.
type checking struct {
	*libraryValidator
	ctx      context.Context // carries where warnings go, as the library wants it
	at       *version
	old36    bool           // errors in the words of up to 1.36
	obj, old map[string]any // old: nil for a new object
	pair     *common.CorrelatedObject
	errs     field.ErrorList
}

func (c *checking) add(errs field.ErrorList) { c.errs = append(c.errs, errs...) }

// whole validates the object. What an update leaves as it was may stay invalid.
func (c *checking) whole() {
	if c.old == nil {
		c.add(validation.ValidateCustomResource(nil, c.obj, c.libraryValidator.whole))
	} else {
		c.add(validation.ValidateCustomResourceUpdate(nil, c.obj, c.old, c.libraryValidator.whole, validation.WithRatcheting(c.pair)))
	}
	c.add(c.at.checkScaleSpec(c.obj))
	c.add(c.at.checkScaleStatus(c.obj))
	inside := objectmeta.Validate(c.ctx, nil, c.obj, c.schema, false)
	if c.old36 {
		for _, e := range inside {
			resource.MetaBefore37(e)
		}
	}
	c.add(inside)
}

// status validates the status alone.
func (c *checking) status() {
	if status, has := c.obj["status"]; has && c.libraryValidator.status != nil {
		var opts []validation.ValidationOption
		if c.schema != nil {
			opts = append(opts, validation.WithRatcheting(c.pair.Key("status")))
		}
		c.add(validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, c.old["status"], c.libraryValidator.status, opts...))
	}
	c.add(c.at.checkScaleStatus(c.obj))
}

// lists holds sets and maps to having no item twice, unless they had before.
func (c *checking) lists() {
	errs := listtype.ValidateListSetsAndMaps(nil, c.schema, c.obj)
	if len(errs) > 0 && (c.old == nil || len(listtype.ValidateListSetsAndMaps(nil, c.schema, c.old)) == 0) {
		c.add(errs)
	}
}

// evaluate runs the rules, if the object is sound enough for them.
func (c *checking) evaluate() {
	if c.cel == nil {
		return
	}
	for _, err := range c.errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			c.add(field.ErrorList{field.Invalid(nil, nil,
				"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")})
			return
		}
	}
	var old any // a nil map would count as an old object
	var opts []cel.Option
	if c.old != nil {
		old, opts = c.old, append(opts, cel.WithRatcheting(c.pair))
	}
	errs, _ := c.cel.Validate(c.ctx, nil, c.schema, c.obj, old, celconfig.RuntimeCELCostBudget, opts...)
	c.add(errs)
}
