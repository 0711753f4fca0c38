package loadbalancer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// leases writes which nodes may answer for which address. A Lease that is not wanted loses its candidates first: it goes when the
// node that answers has let go of it, or is gone.
func leases(ctx context.Context, c *loop.Ctx, w *world, list []announcement) error {
	have := map[string]*coordinationv1.Lease{}
	for obj := range c.ByLabel(kinds.Leases, wellknown.AnnounceSpace, wellknown.AnnounceLabel, "layer2") {
		have[obj.GetName()] = resource.As[*coordinationv1.Lease](obj)
	}
	var errs []error
	for _, a := range list {
		notes, err := a.annotations()
		if err != nil {
			return err
		}
		errs = append(errs, lease(ctx, c, have[a.lease()], a.lease(), "layer2", notes))
		delete(have, a.lease())
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		l := have[name]
		if free(l, w.nodes) {
			errs = append(errs, c.Delete(ctx, kinds.Leases, l))
			continue
		}
		errs = append(errs, lease(ctx, c, l, name, "layer2", map[string]string{wellknown.AnnouncedCandidates: "[]"}))
	}
	return errors.Join(errs...)
}

// lease brings one to its annotations. label is by what it announces; l is nil where none of the name has it: somebody may have taken it.
func lease(ctx context.Context, c *loop.Ctx, l *coordinationv1.Lease, name, label string, notes map[string]string) error {
	if l == nil {
		l = resource.Get(c, kinds.Leases, wellknown.AnnounceSpace, name)
	}
	if l == nil {
		_, err := c.Create(ctx, kinds.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wellknown.AnnounceSpace,
			Name:   name,
			Labels: map[string]string{wellknown.AnnounceLabel: label}, Annotations: notes}})
		return err
	}
	next := resource.Clone(l)
	if next.Annotations == nil { // somebody took all of them
		next.Annotations = map[string]string{}
	}
	maps.Copy(next.Annotations, notes)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	next.Labels[wellknown.AnnounceLabel] = label
	if maps.Equal(next.Annotations, l.Annotations) && l.Labels[wellknown.AnnounceLabel] == label {
		return nil
	}
	return c.Update(ctx, kinds.Leases, next)
}

// free says that no node answers by the Lease: nobody holds it, or its holder is no node any more, or not ready.
func free(l *coordinationv1.Lease, nodes []*corev1.Node) bool {
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return true
	}
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == *l.Spec.HolderIdentity })
	return i < 0 || unfit(nodes[i]) == "not ready"
}

// poolStatuses writes how many addresses of each pool are in use.
func poolStatuses(ctx context.Context, c *loop.Ctx, set *resource.Set, pools []*pool) error {
	k, ok := set.GR(schema.GroupResource{Group: group, Resource: "ipaddresspools"})
	if !ok {
		return nil
	}
	var errs []error
	for _, p := range pools {
		if p.object == nil || p.broken != "" || p.want == p.status {
			continue
		}
		data, err := json.Marshal(map[string]any{"status": p.want})
		if err != nil {
			return err
		}
		err = c.Patch(ctx, k, p.object, client.Patch{Type: types.MergePatchType, Data: data, Sub: "status"})
		if !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// origin writes the annotation that names the pool, as MetalLB does; without a pool there is none.
func origin(ctx context.Context, c *loop.Ctx, d decision) error {
	var want any
	if d.pool != nil {
		want = d.pool.name
	}
	now, there := d.service.Annotations[annotationFrom]
	if want == nil && !there || want == now && there {
		return nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationFrom: want}}})
	if err != nil {
		return err
	}
	err = c.Patch(ctx, kinds.Services, d.service, client.Patch{Type: types.MergePatchType, Data: data})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return cmp.Or(err)
}
