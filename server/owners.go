package server

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/resource"
)

// owners are the bookkeeping of field ownership: of managedFields, on every write.
type owners struct{ *Core }

// track records in obj who owns its fields. It runs before admission: what admission adds has no owner.
func (s owners) track(ctx context.Context, r *Request, old, obj resource.Object) error {
	if s.Fields == nil {
		return nil
	}
	spoken, err := s.requestVersion(ctx, r, obj)
	if err != nil {
		return err
	}
	var before resource.Object
	if old != nil {
		if before, err = s.requestVersion(ctx, r, old); err != nil {
			return err
		}
	}
	if err := s.Fields.Update(s.write(r), before, spoken); err != nil {
		return apierrors.NewInternalError(err)
	}
	if spoken != obj {
		obj.SetManagedFields(spoken.GetManagedFields())
	}
	return nil
}

// Own has the server itself own what it changed in an object, as where upstream's is a client of itself.
func (s *Core) Own(ctx context.Context, r *Request, old, obj resource.Object) error {
	obj.SetManagedFields(slices.Clone(old.GetManagedFields()))
	return owners{s}.track(ctx, r, old, obj)
}

// requestVersion is the object in the version that the caller speaks. It may share memory with obj.
func (s owners) requestVersion(ctx context.Context, r *Request, obj resource.Object) (resource.Object, error) {
	gvk := r.Spoken()
	if gvk == r.Kind.Info().GVK {
		return obj, nil
	}
	out, err := r.Kind.ConvertTo(ctx, obj, gvk)
	if err != nil {
		return nil, unconverted(r.Kind, err)
	}
	return out, nil
}

// unconverted says that an object is not to be had in a version. Of a custom resource that is a webhook's failure.
func unconverted(k resource.Kind, err error) error {
	if k.Info().Custom {
		return PlainError(err.Error())
	}
	return apierrors.NewInternalError(err)
}

// write describes the request for the bookkeeping of field ownership.
func (s owners) write(r *Request) apply.Write {
	return apply.Write{Kind: r.Kind, GVK: r.Spoken(), Manager: r.manager(), Sub: r.Sub, Now: s.Time(),
		Loses: !s.Kinds.Features().AtLeast(37)}
}
