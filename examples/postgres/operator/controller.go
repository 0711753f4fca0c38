// Package operator is the controller of PostgresClusters: it owns their pods, claims and Services and decides who is to be primary. What
// it decides stands in status before anything acts on it, and instances act by themselves.
//
//	reads   PostgresCluster, PostgresBackup; Pods with what instances report, claims, the Lease
//	writes  PostgresCluster: status, finalizer; Pod, PersistentVolumeClaim, Service, Secret, ServiceAccount, RoleBinding, PostgresBackup
//	rule    one primary, the wished number of standbys, nothing acknowledged lost
package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 rbac:roleName=postgres-operator output:dir=../config/rbac

// +kubebuilder:rbac:groups=database.example.com,resources=postgresclusters,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=database.example.com,resources=postgresclusters/status;postgresclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=database.example.com,resources=postgresbackups,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;secrets;serviceaccounts,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=postgres-instance,verbs=bind
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch

// A Reconciler reconciles one PostgresCluster at a time.
type Reconciler struct {
	Client   client.Client
	Patience Patience
	Random   func() string // what passwords are made of; nil: crypto/rand

	memory memory
}

// SetUp adds the controller to a manager.
func (r *Reconciler) SetUp(mgr ctrl.Manager) error {
	r.memory = memory{}
	if r.Random == nil {
		r.Random = rand.Text
	}
	mine := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		name := obj.GetLabels()[v1alpha1.ClusterLabel]
		if b, ok := obj.(*v1alpha1.PostgresBackup); ok {
			name = b.Spec.Cluster
		}
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
	})
	return ctrl.NewControllerManagedBy(mgr).For(&v1alpha1.PostgresCluster{}).
		Owns(&corev1.Pod{}).Owns(&corev1.Service{}).Owns(&corev1.Secret{}).Owns(&corev1.ServiceAccount{}).Owns(&rbacv1.RoleBinding{}).
		Owns(&coordinationv1.Lease{}).
		Watches(&corev1.PersistentVolumeClaim{}, mine).Watches(&v1alpha1.PostgresBackup{}, mine).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler. The memory is not locked: there is one worker.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var c v1alpha1.PostgresCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if c.DeletionTimestamp == nil && controllerutil.AddFinalizer(&c, v1alpha1.Finalizer) {
		return later(r.Client.Update(ctx, &c))
	}
	w, err := r.observe(ctx, &c)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("look at what there is: %w", err)
	}
	if c.DeletionTimestamp != nil {
		return later(r.remove(ctx, w))
	}
	status := c.Status.DeepCopy()
	again := decidePrimary(w, status)
	decideConditions(w, status)
	due, err := schedule(w, status)
	if err != nil {
		return ctrl.Result{}, err
	}
	if due.backup != nil {
		if err := r.make(ctx, due.backup); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !equality.Semantic.DeepEqual(&c.Status, status) {
		c.Status = *status
		if err := r.Client.Status().Update(ctx, &c); err != nil {
			return later(err)
		}
		again = max(again, time.Millisecond) // the next pass sees it
	}
	if err := errors.Join(r.fixtures(ctx, &c), r.act(ctx, w, decidePods(w))); err != nil {
		return later(err)
	}
	return ctrl.Result{RequeueAfter: soonest(again, due.again, r.silence(w))}, nil
}

// later looks again soon after a conflict. That somebody was faster will wake us, but a conflict may have other reasons: one over a quota,
// or with a write of which we have heard already.
func later(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, err
}

// quiet leaves out conflicts.
func quiet(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func soonest(list ...time.Duration) (least time.Duration) {
	for _, d := range list {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}

// silence is the time until a Lease that is not renewed is due.
func (r *Reconciler) silence(w World) time.Duration {
	return max(w.limit()-w.LeaseAge, 0) + 100*time.Millisecond
}

func (r *Reconciler) observe(ctx context.Context, c *v1alpha1.PostgresCluster) (World, error) {
	w := World{Cluster: c, Pods: map[string]*corev1.Pod{}, Claims: map[string]*corev1.PersistentVolumeClaim{},
		Now: time.Now(), Patience: r.Patience}
	mine := []client.ListOption{client.InNamespace(c.Namespace), client.MatchingLabels{v1alpha1.ClusterLabel: c.Name}}
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	var lease coordinationv1.Lease
	if err := errors.Join(r.Client.List(ctx, &pods, mine...), r.Client.List(ctx, &claims, mine...)); err != nil {
		return w, err
	}
	for i := range pods.Items {
		if metav1.IsControlledBy(&pods.Items[i], c) {
			w.Pods[pods.Items[i].Name] = &pods.Items[i]
		}
	}
	for i := range claims.Items {
		w.Claims[claims.Items[i].Name] = &claims.Items[i]
	}
	err := r.backups(ctx, c, &w)
	if err != nil {
		return w, err
	}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(c), &lease)
	if client.IgnoreNotFound(err) != nil {
		return w, err
	}
	if err == nil {
		w.Lease = &lease
	}
	key := string(c.UID)
	// Who has won an election gets time to take the Lease.
	w.LeaseAge = r.memory.age(key+"/lease", fmt.Sprint(lease.ResourceVersion, c.Status.Epoch, c.Status.Election != nil))
	w.ElectionAge = r.memory.age(key+"/election", strconv.FormatInt(c.Status.Epoch, 10))
	return w, nil
}

// backups finds the newest backup that is complete, and the newest that has ended.
func (r *Reconciler) backups(ctx context.Context, c *v1alpha1.PostgresCluster, w *World) error {
	var list v1alpha1.PostgresBackupList
	if err := r.Client.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		b := &list.Items[i]
		if b.Spec.Cluster != c.Name || b.Status.Phase == "" {
			continue
		}
		if w.LastEnded == nil || w.LastEnded.CreationTimestamp.Before(&b.CreationTimestamp) {
			w.LastEnded = b
		}
		done := b.Status.Completed
		if b.Status.Phase == v1alpha1.BackupCompleted && done != nil && (w.LastBackup == nil || w.LastBackup.Before(done)) {
			w.LastBackup = done
		}
	}
	return nil
}

// act makes the changes, all of them if need be, and returns what failed.
func (r *Reconciler) act(ctx context.Context, w World, s Steps) error {
	var errs []error
	for _, c := range s.MakeClaims {
		errs = append(errs, r.make(ctx, c))
	}
	for _, p := range s.MakePods {
		errs = append(errs, r.make(ctx, p))
	}
	for name, role := range s.Roles {
		errs = append(errs, r.mark(ctx, w.Pods[name], role))
	}
	for name, role := range s.ClaimRoles {
		errs = append(errs, r.mark(ctx, w.Claims[name], role))
	}
	for name, size := range s.Grow {
		errs = append(errs, r.grow(ctx, w.Claims[name], size))
	}
	for _, name := range s.StopPods {
		errs = append(errs, r.drop(ctx, w.Pods[name]))
	}
	for _, name := range s.DropClaims {
		errs = append(errs, r.drop(ctx, w.Claims[name]))
	}
	return errors.Join(errs...)
}

// make creates what is not there. What is there although it was not seen is seen soon.
func (r *Reconciler) make(ctx context.Context, obj client.Object) error {
	if err := r.Client.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

// drop deletes exactly what was seen, not what was made anew under its name.
func (r *Reconciler) drop(ctx context.Context, obj client.Object) error {
	err := r.Client.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())})
	if client.IgnoreNotFound(quiet(err)) != nil {
		return fmt.Errorf("delete %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

func (r *Reconciler) mark(ctx context.Context, seen client.Object, role string) error {
	obj := seen.DeepCopyObject().(client.Object)
	labels := obj.GetLabels()
	labels[v1alpha1.RoleLabel] = role
	if role == "" {
		delete(labels, v1alpha1.RoleLabel)
	}
	return client.IgnoreNotFound(r.Client.Patch(ctx, obj, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{})))
}

func (r *Reconciler) grow(ctx context.Context, seen *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	claim := seen.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
	return client.IgnoreNotFound(r.Client.Patch(ctx, claim, client.MergeFrom(seen)))
}

// fixtures makes what every cluster has, if it is missing.
func (r *Reconciler) fixtures(ctx context.Context, c *v1alpha1.PostgresCluster) error {
	var errs []error
	want := []client.Object{account(c), binding(c), credentials(c, r.Random)}
	for _, s := range services(c) {
		want = append(want, s)
	}
	for _, obj := range want {
		have := obj.DeepCopyObject().(client.Object)
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(obj), have)
		if apierrors.IsNotFound(err) {
			err = r.make(ctx, obj)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// remove ends a cluster in order, and then lets it go.
func (r *Reconciler) remove(ctx context.Context, w World) error {
	if !controllerutil.ContainsFinalizer(w.Cluster, v1alpha1.Finalizer) {
		return nil
	}
	s := decidePods(w)
	if err := r.act(ctx, w, s); err != nil || len(w.Pods) > 0 || len(s.DropClaims) > 0 {
		return err
	}
	controllerutil.RemoveFinalizer(w.Cluster, v1alpha1.Finalizer)
	return client.IgnoreNotFound(r.Client.Update(ctx, w.Cluster))
}
