package simbugs

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kloop-dev/kloop/simtest"
)

// within is the number of seeds that a bug must show itself in.
const within = 200

// Each bug is found, and what shows it is what was published.
func TestBugs(t *testing.T) {
	for _, bug := range []struct {
		name    string
		op      func(client.Client) reconcile.Reconciler
		program func(*simtest.User)
		keep    []string
	}{
		{"zookeeper-operator 314", func(c client.Client) reconcile.Reconciler { return staleScale{c} }, upDownUp, nil},
		{"zookeeper-operator 312", func(c client.Client) reconcile.Reconciler { return staleDeletion{c, false} }, bornAgain, nil},
		{"rabbitmq cluster-operator 648", func(c client.Client) reconcile.Reconciler { return staleDeletion{c, true} }, bornAgain,
			[]string{"configmaps"}},
		{"rabbitmq cluster-operator 782", func(c client.Client) reconcile.Reconciler { return halfGrown{c} }, grow, nil},
		{"casskop 370", func(c client.Client) reconcile.Reconciler { return halfShrunk{c} }, upDown, nil},
	} {
		t.Run(bug.name, func(t *testing.T) {
			found := simtest.Find(t, simtest.Config{Program: bug.program, Keep: bug.keep, Seeds: within, Start: start(bug.op)})
			if found == nil {
				t.Fatalf("not found in %d seeds", within)
			}
			t.Logf("after %d seeds: %v", found.Seeds, found)
		})
	}
}

// start runs a manager with one controller over clusters and what they own.
func start(op func(client.Client) reconcile.Reconciler) func(context.Context, *simtest.World) error {
	return func(ctx context.Context, w *simtest.World) error {
		mgr, err := ctrl.NewManager(w.Rest(), w.Options(ctrl.Options{}))
		if err != nil {
			return err
		}
		err = ctrl.NewControllerManagedBy(mgr).Named("clusters").For(&corev1.ConfigMap{}).Owns(&corev1.PersistentVolumeClaim{}).
			Complete(op(mgr.GetClient()))
		if err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
}

// A cluster is a ConfigMap with this name; its data are what the user asks for.
const cluster = "cluster"

const finalizer = "example.com/cleanup"

func wanted(field, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: cluster, Namespace: "default"}, Data: map[string]string{field: value}}
}

func set(u *simtest.User, field, value string) {
	simtest.Change(u, wanted(field, value), func(c *corev1.ConfigMap) { c.Data[field] = value })
	u.Settle()
}

func upDownUp(u *simtest.User) {
	upDown(u)
	set(u, "replicas", "2")
}

func upDown(u *simtest.User) {
	u.Create(wanted("replicas", "2"))
	u.Settle()
	set(u, "replicas", "1")
}

func bornAgain(u *simtest.User) {
	u.Create(wanted("replicas", "1"))
	u.Settle()
	u.Delete(wanted("", ""))
	u.Gone(wanted("", ""))
	u.Create(wanted("replicas", "1"))
	u.Settle()
}

func grow(u *simtest.User) {
	u.Create(wanted("size", "10Gi"))
	u.Settle()
	set(u, "size", "20Gi")
}

func claim(i int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-%d", i), Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")}}}}
}

// owned is the part of a cluster that stands for its StatefulSet.
func owned(field, value string) *corev1.ConfigMap {
	c := wanted(field, value)
	c.Name = "set"
	return c
}

func there(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// observe returns the cluster, nil if it is none or gone.
func observe(ctx context.Context, c client.Client, req ctrl.Request) (*corev1.ConfigMap, error) {
	x := &corev1.ConfigMap{}
	if req.Namespace != "default" || req.Name != cluster && req.Name != "set" {
		return nil, nil
	}
	err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: cluster}, x)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return x, nil
}

// staleScale deletes the claims beyond the size that its cache shows (pravega/zookeeper-operator 314).
type staleScale struct{ client.Client }

func (r staleScale) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	x, err := observe(ctx, r, req)
	if x == nil {
		return ctrl.Result{}, err
	}
	want, _ := strconv.Atoi(x.Data["replicas"])
	for i := range 3 {
		if i < want {
			err = there(r.Create(ctx, claim(i)))
		} else {
			err = client.IgnoreNotFound(r.Delete(ctx, claim(i)))
		}
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// staleDeletion cleans up by name when its cache shows a cluster that is being deleted, whichever cluster has the name now
// (pravega/zookeeper-operator 312; rabbitmq/cluster-operator 648, where it is the set).
type staleDeletion struct {
	client.Client
	set bool
}

func (r staleDeletion) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	x, err := observe(ctx, r, req)
	if x == nil {
		return ctrl.Result{}, err
	}
	var part client.Object = claim(0)
	if r.set {
		part = owned("replicas", "1")
	}
	if x.DeletionTimestamp != nil {
		if err := client.IgnoreNotFound(r.Delete(ctx, part)); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(x, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, x))
	}
	if controllerutil.AddFinalizer(x, finalizer) {
		return ctrl.Result{}, r.Update(ctx, x)
	}
	return ctrl.Result{}, there(r.Create(ctx, part))
}

// halfGrown deletes the set, grows the claim and makes the set anew, and finds out from the set whether there is something to grow
// (rabbitmq/cluster-operator 782).
type halfGrown struct{ client.Client }

func (r halfGrown) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	x, err := observe(ctx, r, req)
	if x == nil {
		return ctrl.Result{}, err
	}
	size, s, c := x.Data["size"], &corev1.ConfigMap{}, claim(0)
	c.Annotations = map[string]string{"size": size}
	if err := there(r.Create(ctx, c)); err != nil {
		return ctrl.Result{}, err
	}
	err = r.Get(ctx, client.ObjectKeyFromObject(owned("", "")), s)
	if err == nil && s.Data["size"] != size {
		if err := r.Delete(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.Patch(ctx, claim(0), client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"size":"`+size+`"}}}`))); err != nil {
			return ctrl.Result{}, err
		}
		err = r.Create(ctx, owned("size", size))
	} else if apierrors.IsNotFound(err) {
		err = there(r.Create(ctx, owned("size", size)))
	}
	return ctrl.Result{}, err
}

// halfShrunk makes the set smaller, then deletes the claim, and finds out from the set whether there is something to delete
// (Orange-OpenSource/casskop 370).
type halfShrunk struct{ client.Client }

func (r halfShrunk) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	x, err := observe(ctx, r, req)
	if x == nil {
		return ctrl.Result{}, err
	}
	want, _ := strconv.Atoi(x.Data["replicas"])
	s := &corev1.ConfigMap{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(owned("", "")), s); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		for i := range want {
			if err := there(r.Create(ctx, claim(i))); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, there(r.Create(ctx, owned("replicas", x.Data["replicas"])))
	}
	if has, _ := strconv.Atoi(s.Data["replicas"]); has > want {
		s.Data["replicas"] = x.Data["replicas"]
		if err := r.Update(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
		for i := want; i < has; i++ {
			if err := client.IgnoreNotFound(r.Delete(ctx, claim(i))); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	return ctrl.Result{}, nil
}
