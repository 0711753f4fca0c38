// Package namespace empties namespaces that are being deleted, and then lets them go.
//
//	reads   Namespace, every namespaced kind
//	writes  every namespaced kind: delete; Namespace: status, finalizers
//	rule    a deleted namespace loses its pods, then all else, then its finalizer; until then its conditions say what remains
package namespace

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a Namespace, and when an object leaves a terminating one.
var Controller = &loop.Controller[*corev1.Namespace]{
	Name:      "namespace",
	For:       kinds.Namespaces,
	Wake:      []loop.Wake{{Keys: left}},
	Writes:    loop.Anything,
	Skip:      func(ns *corev1.Namespace) bool { return ns.DeletionTimestamp == nil },
	Workers:   8,
	Reconcile: reconcile,
}

// recheck is how soon a namespace that waits for finalizers or for pods to end is looked at again, should no
// change wake it: objects of kinds that the view doesn't hold may be among what remains.
const recheck = 15 * time.Second

func reconcile(ctx context.Context, c *loop.Ctx, ns *corev1.Namespace) (time.Duration, error) {
	if len(ns.Spec.Finalizers) == 0 {
		return 0, nil // nothing holds it any more: the server removes it
	}
	seen := survey(c, c.Client().Kinds().All(), ns.Name) // observe
	todo := plan(seen)                                   // decide
	done, err := loop.Batch(len(todo), func(i int) error {
		return c.Delete(ctx, todo[i].kind, todo[i].obj)
	})
	if status := conditions(ns, seen, err, c.Now()); !equality.Semantic.DeepEqual(status, ns.Status) {
		next := resource.Clone(ns)
		next.Status = status
		if serr := c.UpdateStatus(ctx, kinds.Namespaces, next); serr != nil {
			return 0, errors.Join(err, serr)
		}
		return time.Millisecond, err // finish on the object as it is now
	}
	switch {
	case err != nil:
		return 0, err
	case len(seen) == 0:
		return 0, finalize(ctx, c, ns)
	case done > 0:
		return recheck, nil
	}
	c.Waiting("%s", remaining(seen))
	return recheck, nil
}

// finalize takes kloop's finalizer off: the server then removes the namespace.
func finalize(ctx context.Context, c *loop.Ctx, ns *corev1.Namespace) error {
	next := resource.Clone(ns)
	next.Spec.Finalizers = nil
	for _, f := range ns.Spec.Finalizers {
		if f != corev1.FinalizerKubernetes {
			next.Spec.Finalizers = append(next.Spec.Finalizers, f)
		}
	}
	_, err := c.Client().Update(ctx, kinds.Namespaces, next, "finalize")
	return err
}

// left wakes the namespace that an object was removed from, or that got another object while it goes away.
func left(c client.Change, read resource.Reader, wake func(ns, name string)) {
	ns := c.Object().GetNamespace()
	if ns == "" || (c.New != nil && c.Old != nil) {
		return
	}
	if n := resource.Get(read, kinds.Namespaces, "", ns); n != nil && n.DeletionTimestamp != nil {
		wake("", ns)
	}
}
