package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	celmutation "k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A mutation is a compiled mutation of a policy: one of the two.
type mutation struct {
	patch   *cel.Program // makes a JSON patch
	overlay *cel.Program // makes an apply configuration
}

// mutated returns the object as a mutation wants it. Every mutation has the whole budget.
func (c *changing) mutated(ctx context.Context, r *rule, m mutation, in *cel.Input) (resource.Object, error) {
	program := m.patch
	if program == nil {
		program = m.overlay
	}
	if err := program.Err(); err != nil {
		return nil, err
	}
	v, _, err := in.Run(ctx, r.scope, cel.Budget).Eval(program)
	if err != nil {
		return nil, err
	}
	live := in.Object.(resource.Object)
	var next resource.Object
	if m.patch != nil {
		next, err = patched(c.r, live, v)
	} else {
		next, err = c.overlaid(live, v)
	}
	if err == nil && c.r.Kind.Info().GVK == next.GetObjectKind().GroupVersionKind() {
		c.r.Kind.SetDefaults(c.r.Features, next)
	}
	return next, err
}

// overlaid merges what an expression made as server-side apply would.
func (c *changing) overlaid(live resource.Object, v ref.Val) (resource.Object, error) {
	made, ok := v.(*dynamic.ObjectVal)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", v.Type())
	}
	if err := made.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	fields, ok := made.Value().(map[string]any)
	switch {
	case !ok:
		return nil, fmt.Errorf("invalid return type: %T", v)
	case c.Overlay == nil:
		return nil, errors.New("apply configurations are not supported here")
	case isScale(live): // has no schema by which to merge
		return nil, fmt.Errorf("error applying patch: failed to convert patch object to typed object: no corresponding type for %s",
			live.GetObjectKind().GroupVersionKind())
	}
	next, err := c.Overlay(c.r.Kind, live, fields)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return next, nil
}

// patched applies the JSON patch that an expression made. A test that fails leaves the object as it is.
func patched(r *admission.Request, live resource.Object, v ref.Val) (resource.Object, error) {
	ops, err := operations(v)
	if err != nil {
		return nil, err
	}
	if r.Kind.Info().Custom && isScale(live) { // nobody's definition makes a scale of what was patched
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", autoscalingv1.SchemeGroupVersion)
	}
	doc, err := codec.MarshalJSON(live)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	out, err := ops.Apply(doc)
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return live, nil
	}
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	next, err := cel.Decode(r, live, out)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return next, nil
}

func isScale(obj resource.Object) bool {
	_, ok := obj.(*autoscalingv1.Scale)
	return ok
}

// operations turns a list of the language into a JSON patch.
func operations(v ref.Val) (jsonpatch.Patch, error) {
	list, ok := v.(traits.Lister)
	if !ok {
		return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	patch := jsonpatch.Patch{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		op, ok := it.Next().(*celmutation.JSONPatchVal)
		if !ok {
			return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
		}
		one := jsonpatch.Operation{"op": text(op.Op), "path": text(op.Path)}
		if op.From != "" {
			one["from"] = text(op.From)
		}
		if op.Val != nil {
			value, err := valueOf(op.Val)
			if err != nil {
				return nil, err
			}
			one["value"] = &value
		}
		patch = append(patch, one)
	}
	return patch, nil
}

func text(s string) *json.RawMessage {
	raw, _ := json.Marshal(s) // a string never fails
	return (*json.RawMessage)(&raw)
}

// valueOf is a value of the language in JSON.
func valueOf(v ref.Val) (json.RawMessage, error) {
	if made, ok := v.(*dynamic.ObjectVal); ok {
		if err := made.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	native, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err == nil {
		var raw []byte
		if raw, err = json.Marshal(native); err == nil {
			return raw, nil
		}
	}
	return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
}
