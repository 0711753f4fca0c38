package cel

import (
	"context"
	"fmt"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// Seen returns an object of a request as a rule that matched the kind sees it: in that version, or the scale of it.
// Bodies of calls (an Eviction, a Binding) stay as they came.
func Seen(ctx context.Context, r *admission.Request, obj resource.Object, kind schema.GroupVersionKind) (runtime.Object, error) {
	switch {
	case obj == nil:
		return nil, nil
	case r.Sub == "scale":
		sc, ok := admission.ScaleOf(r.Kind, obj)
		if !ok {
			return nil, fmt.Errorf("%s %s has no scale", r.Kind.Info().GVK.Kind, obj.GetName())
		}
		return sc, nil
	}
	if is := obj.GetObjectKind().GroupVersionKind(); is == kind || is.Kind != r.Kind.Info().GVK.Kind {
		return obj, nil
	}
	out, err := r.Kind.ConvertTo(ctx, obj, kind)
	if err != nil {
		return nil, fmt.Errorf("convert to %s: %w", kind, err)
	}
	return out, nil
}

// Adopt returns what becomes the request's object when before, as a rule saw it, was changed to after: the object in
// the version that is stored. Of a scale the replicas are taken over; the body of a call, on which others hold, is
// overwritten.
func Adopt(ctx context.Context, r *admission.Request, before, after resource.Object) (resource.Object, error) {
	if sc, ok := after.(*autoscalingv1.Scale); ok && r.Sub == "scale" {
		r.Kind.Scaled().Set(r.Object, sc.Spec.Replicas)
		return r.Object, nil
	}
	if before.GetObjectKind().GroupVersionKind().Kind != r.Kind.Info().GVK.Kind {
		reflect.ValueOf(r.Object).Elem().Set(reflect.ValueOf(after).Elem())
		return r.Object, nil
	}
	hub, err := r.Kind.ConvertTo(ctx, after, r.Kind.Info().GVK)
	if err == nil {
		r.Kind.SetDefaults(r.Features, hub)
	}
	return hub, err
}

// Decode reads the JSON of what a rule made of an object that it saw. Fields that a type does not have are an error;
// a custom resource loses what its schema does not know.
func Decode(r *admission.Request, like resource.Object, doc []byte) (resource.Object, error) {
	if r.Kind.Info().Custom {
		out := r.Kind.New(like.GetObjectKind().GroupVersionKind())
		_, err := codec.UnmarshalJSON(doc, out)
		return out, err
	}
	out := reflect.New(reflect.TypeOf(like).Elem()).Interface().(resource.Object)
	strict, err := codec.UnmarshalJSON(doc, out)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	return out, err
}
