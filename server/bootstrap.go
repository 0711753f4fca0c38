package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/auth/bootstrap"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

const (
	serverUser = "system:apiserver"
	serverName = "kube-apiserver" // as field manager
)

// planters is the number of objects that are written at a time when the server starts, so that they share an fsync.
const planters = 64

// Bootstrap writes the objects that every cluster has, in the order given where namespaces are concerned, and
// brings up to date those that exist. Admission is not asked. Kinds that the server does not serve are left out.
func (s *Server) Bootstrap(ctx context.Context, objects []resource.Object) error {
	var rest []resource.Object
	var first []resource.Object
	for _, obj := range objects {
		if k, ok := s.Kinds.Kind(obj.GetObjectKind().GroupVersionKind()); ok && s.extension(k).OwnNamespace {
			first = append(first, obj)
			continue
		}
		rest = append(rest, obj)
	}
	if err := s.plantAll(ctx, first); err != nil {
		return err
	}
	return s.plantAll(ctx, rest)
}

// A planter writes what a cluster begins with. It looks once at what there is: with an etcd elsewhere that costs a round trip.
type planter struct {
	s    *Server
	snap *view.Snapshot
}

func (s *Server) plantAll(ctx context.Context, objects []resource.Object) error {
	snap, err := s.Fresh(ctx)
	if err != nil {
		return err
	}
	p := planter{s: s, snap: snap}
	var wg sync.WaitGroup
	slots := make(chan struct{}, planters)
	fails := make([]error, len(objects))
	for i, obj := range objects {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			fails[i] = p.plant(ctx, obj)
		})
	}
	wg.Wait()
	return errors.Join(fails...)
}

// plant makes one object, or brings it up to date. What others wrote since the snapshot shows as a conflict.
func (p planter) plant(ctx context.Context, obj resource.Object) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	k, ok := p.s.Kinds.Kind(gvk)
	if !ok {
		return nil
	}
	r := ServerRequest(k, obj.GetNamespace(), obj.GetName())
	r.GVK = gvk
	r.Manager = cmp.Or(k.Info().Planter, r.Manager)
	var err error
	old := p.snap.Lookup(k, r.Scope(), r.Name)
	if old == nil {
		_, err = p.s.Create(ctx, r, resource.Clone(obj))
		if err == nil || !apierrors.IsAlreadyExists(err) {
			return planting(obj, err)
		}
		if old, err = p.s.Live(ctx, k, r.Scope(), r.Name); err != nil || old == nil {
			return err
		}
	}
	next, replace := bootstrap.Reconcile(old, obj)
	switch {
	case next == nil:
		return nil
	case replace:
		if _, _, err := p.s.Delete(ctx, r, nil); err != nil && !apierrors.IsNotFound(err) {
			return planting(obj, err)
		}
		_, err = p.s.Create(ctx, r, resource.Clone(obj))
	default:
		_, _, err = p.s.Update(ctx, r, next)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // another server does the same
		return nil
	}
	return planting(obj, err)
}

func planting(obj resource.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bootstrap %s %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), err)
}
