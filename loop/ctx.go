package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// A Ctx is one reconcile's hands: an unchanging state to read, and writes that are fenced, recorded and
// limited to the kinds that the controller declared. Writes may be made concurrently (see Batch).
type Ctx struct {
	resource.Reader
	env    Env
	loop   string
	writes []resource.Kind

	mu    sync.Mutex
	wrote map[resource.Kind]int64
	did   []string
	note  string
}

// Now is the engine's clock.
func (c *Ctx) Now() time.Time { return c.env.Now() }

// Client is the way to reads and writes that the others here do not cover. Its writes are neither fenced nor recorded.
func (c *Ctx) Client() client.Client { return c.env.Client }

// Count counts one more of a figure.
func (c *Ctx) Count(of *Figure, labels ...string) { c.env.Figures.Series(of, labels...).Add(1) }

// Measure counts something of size v in a figure.
func (c *Ctx) Measure(v float64, of *Figure, labels ...string) {
	c.env.Figures.Series(of, labels...).Add(v)
}

// Waiting records, for people who ask, what the key waits for. The note is dropped by the next reconcile.
func (c *Ctx) Waiting(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note = fmt.Sprintf(format, args...)
}

// Create stores a new object and returns it as stored.
func (c *Ctx) Create(ctx context.Context, k resource.Kind, obj resource.Object) (resource.Object, error) {
	return c.do("create", k, obj, func() (resource.Object, error) { return c.env.Client.Create(ctx, k, obj) })
}

// Update replaces the object if it has not changed since it was read.
func (c *Ctx) Update(ctx context.Context, k resource.Kind, obj resource.Object) error {
	_, err := c.do("update", k, obj, func() (resource.Object, error) { return c.env.Client.Update(ctx, k, obj, "") })
	return err
}

// UpdateStatus replaces the object's status if the object has not changed since it was read.
func (c *Ctx) UpdateStatus(ctx context.Context, k resource.Kind, obj resource.Object) error {
	_, err := c.do("status of", k, obj, func() (resource.Object, error) { return c.env.Client.Update(ctx, k, obj, "status") })
	return err
}

// UpdateScale has the object that the Scale names scaled, if it has not changed since it was read.
func (c *Ctx) UpdateScale(ctx context.Context, k resource.Kind, s *autoscalingv1.Scale) error {
	_, err := c.do("scale of", k, s, func() (resource.Object, error) { return c.env.Client.Update(ctx, k, s, "scale") })
	return err
}

// Patch changes the object that obj names.
func (c *Ctx) Patch(ctx context.Context, k resource.Kind, obj resource.Object, p client.Patch) error {
	_, err := c.do("patch", k, obj, func() (resource.Object, error) {
		return c.env.Client.Patch(ctx, k, obj.GetNamespace(), obj.GetName(), p)
	})
	return err
}

// Delete removes exactly the object that was read (its uid is a precondition); one that is already gone, or
// replaced by a namesake, is fine.
func (c *Ctx) Delete(ctx context.Context, k resource.Kind, obj resource.Object) error {
	uid := obj.GetUID()
	return c.DeleteWith(ctx, k, obj, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}

// DeleteWith is Delete with options of the caller's. A conflict about a revision that they name is fine as well: the change
// that caused it wakes the key.
func (c *Ctx) DeleteWith(ctx context.Context, k resource.Kind, obj resource.Object, opts *metav1.DeleteOptions) error {
	_, err := c.do("delete", k, obj, func() (resource.Object, error) {
		return nil, c.env.Client.Delete(ctx, k, obj.GetNamespace(), obj.GetName(), opts)
	})
	switch pre := opts.Preconditions; {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err) && pre != nil && pre.UID != nil && (pre.ResourceVersion != nil || c.replaced(ctx, k, obj, *pre.UID)):
		return nil
	}
	return err
}

// replaced says whether the object of that uid is gone: who refuses to delete it may also mean that others were faster.
func (c *Ctx) replaced(ctx context.Context, k resource.Kind, obj resource.Object, uid types.UID) bool {
	now, err := c.env.Client.Get(ctx, k, obj.GetNamespace(), obj.GetName())
	return apierrors.IsNotFound(err) || err == nil && now.GetUID() != uid
}

// Event tells people what happened to obj. It never fails and never waits.
func (c *Ctx) Event(k resource.Kind, obj resource.Object, typ, reason, format string, args ...any) {
	c.env.Events.Event(k, obj, typ, reason, format, args...)
}

// Recorder tells events, for those who speak in others' names. It may be nil, which tells nobody.
func (c *Ctx) Recorder() *client.Recorder { return c.env.Events }

func (c *Ctx) do(verb string, k resource.Kind, obj resource.Object, write func() (resource.Object, error)) (resource.Object, error) {
	if !slices.Contains(c.writes, k) && !slices.Contains(c.writes, nil) {
		return nil, fmt.Errorf("%s %s: %w", verb, KeyOf(k, obj), errUndeclared)
	}
	out, err := write()
	c.mu.Lock()
	defer c.mu.Unlock()
	text := verb + " " + KeyOf(k, obj).String()
	if err != nil {
		c.did = keep(c.did, maxWrites, text+": "+err.Error())
		return nil, err
	}
	c.did = keep(c.did, maxWrites, text)
	if out != nil {
		if rev := resource.Revision(out); rev > 0 {
			if c.wrote == nil {
				c.wrote = map[resource.Kind]int64{}
			}
			c.wrote[k] = max(c.wrote[k], rev)
		}
	}
	return out, nil
}

// Batch calls f for 0 … n-1, more and more of them at once while all goes well (1, 2, 4 … 64): a refusal that
// would hit all of them is met by few. It stops after the first round with an error and returns how many succeeded.
func Batch(n int, f func(i int) error) (done int, err error) {
	for at, size := 0, 1; at < n; size = min(size*2, 64) {
		size = min(size, n-at)
		errs := make([]error, size)
		var wg sync.WaitGroup
		for i := range size {
			wg.Go(func() { errs[i] = caught(f, at+i) })
		}
		wg.Wait()
		for _, e := range errs {
			if e == nil {
				done++
			} else if err == nil {
				err = e
			}
		}
		if err != nil {
			return done, err
		}
		at += size
	}
	return done, nil
}

// caught is f(i), whose panic is an error: it would end the program, as who calls Batch can't catch it.
func caught(f func(i int) error, i int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f(i)
}

// All calls f for 0 … n-1, as many at once as Batch, and goes on when some are refused: what stands alone waits for nothing that can't be
// done. It returns how many succeeded, and the first few errors.
func All(n int, f func(i int) error) (done int, err error) {
	const most = 8
	all := make([]error, n)
	_, _ = Batch(n, func(i int) error { all[i] = caught(f, i); return nil })
	failed := slices.DeleteFunc(all, func(err error) bool { return err == nil })
	return n - len(failed), errors.Join(failed[:min(most, len(failed))]...)
}
