// Package namespace empties namespaces that are being deleted, and then lets them go.
//
//	reads   Namespace, every namespaced kind, Pods first
//	writes  every namespaced kind: delete; Namespace: status, finalize
//	rule    a deleted namespace loses its pods, then all else, then its finalizer; until then its conditions say what remains
package namespace

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Others are the servers behind APIServices.
type Others interface {
	// Empty deletes what other servers hold in a namespace. left counts what remains, by plural and group; dead says which
	// group versions could not be asked for their resources, and why. The error is that of a deletion.
	Empty(ctx context.Context, ns string) (left map[string]int, dead []string, err error)
}

// Controller is the loop: wake on a Namespace, and when an object leaves a terminating one. others may be nil.
func Controller(others Others) *loop.Controller[*corev1.Namespace] {
	return &loop.Controller[*corev1.Namespace]{
		Name:    "namespace",
		For:     core.Namespaces,
		Wake:    []loop.Wake{{Keys: left}},
		Writes:  loop.Anything,
		Skip:    func(ns *corev1.Namespace) bool { return ns.DeletionTimestamp == nil },
		Workers: 8,
		Reconcile: func(ctx context.Context, c *loop.Ctx, ns *corev1.Namespace) (time.Duration, error) {
			return reconcile(ctx, c, others, ns)
		},
	}
}

// recheck is the time until a namespace that waits for finalizers or for pods to end is looked at again, should no
// change wake it: objects of kinds that the view doesn't hold may be among what remains.
const recheck = 15 * time.Second

func reconcile(ctx context.Context, c *loop.Ctx, others Others, ns *corev1.Namespace) (time.Duration, error) {
	if len(ns.Spec.Finalizers) == 0 {
		return 0, nil // nothing holds it any more: the server removes it
	}
	seen := survey(c, c.Client().Kinds().All(), ns.Name) // observe
	todo := plan(seen)                                   // decide
	done, err := loop.All(len(todo), func(i int) error {
		return c.Delete(ctx, todo[i].kind, todo[i].obj)
	})
	far := elsewhere{}
	if others != nil {
		var ferr error
		far.left, far.dead, ferr = others.Empty(ctx, ns.Name)
		err = errors.Join(err, ferr)
	}
	if status := conditions(ns, seen, far, err, c.Now()); !equality.Semantic.DeepEqual(status, ns.Status) {
		next := resource.Clone(ns)
		next.Status = status
		if serr := c.UpdateStatus(ctx, core.Namespaces, next); serr != nil {
			return 0, errors.Join(err, serr)
		}
		far.tell(c, ns)
		return loop.Now, err // finish on the object as it is now
	}
	switch {
	case err != nil:
		return 0, err
	case len(seen)+len(far.left) == 0:
		return 0, finalize(ctx, c, ns)
	case done > 0:
		return recheck, nil
	}
	c.Waiting("%s", remaining(seen, far.left))
	return recheck, nil
}

// elsewhere covers the kinds of other servers in a namespace.
type elsewhere struct {
	left map[string]int // objects by plural and group
	dead []string       // group versions whose servers do not answer, and why
}

// tell says that a namespace goes though nobody knows what a server that does not answer holds of it.
//
// Unlike Kubernetes, a server that does not answer keeps no namespace from being deleted.
func (e elsewhere) tell(c *loop.Ctx, ns *corev1.Namespace) {
	if len(e.dead) > 0 {
		c.Event(core.Namespaces, ns, corev1.EventTypeWarning, "DiscoveryFailed", "%s. The namespace is deleted all the same",
			undiscovered(e.dead))
	}
}

// finalize takes kloop's finalizer off, if it is still there: the server then removes the namespace, unless others hold it.
func finalize(ctx context.Context, c *loop.Ctx, ns *corev1.Namespace) error {
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return nil
	}
	next := resource.Clone(ns)
	next.Spec.Finalizers = nil
	for _, f := range ns.Spec.Finalizers {
		if f != corev1.FinalizerKubernetes {
			next.Spec.Finalizers = append(next.Spec.Finalizers, f)
		}
	}
	_, err := c.Client().Update(ctx, core.Namespaces, next, "finalize")
	return err
}

// left wakes the namespace that an object was removed from, or that got another object while it goes away.
func left(c client.Change, read resource.Reader, wake func(ns, name string)) {
	ns := c.Object().GetNamespace()
	if ns == "" || (c.New != nil && c.Old != nil) {
		return
	}
	if n := resource.Get(read, core.Namespaces, "", ns); n != nil && n.DeletionTimestamp != nil {
		wake("", ns)
	}
}
