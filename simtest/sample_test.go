package simtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kloop-dev/kloop/simtest"
)

// The sample of docs/testing.md.
func TestOperator(t *testing.T) {
	site := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Labels: map[string]string{"site": "yes"}}}
	simtest.Run(t, simtest.Config{
		Nodes: 2,
		Seeds: 200,
		Start: simtest.Managed(setUp), // as main does
		Program: func(u *simtest.User) {
			u.Create(site)
			u.Settle()
			simtest.Change(u, site, func(s *corev1.ConfigMap) { s.Data = map[string]string{"replicas": "xxx"} })
			u.Settle()
			u.Delete(site)
			u.Gone(site)
			u.Create(site)
		},
	})
}

// again is the sample for tests of simtest itself.
func again() simtest.Config {
	site := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Labels: map[string]string{"site": "yes"}}}
	return simtest.Config{
		Nodes: 2,
		Start: simtest.Managed(setUp),
		Program: func(u *simtest.User) {
			u.Create(site)
			u.Settle()
			simtest.Change(u, site, func(s *corev1.ConfigMap) { s.Data = map[string]string{"replicas": "xxx"} })
			u.Settle()
			u.Delete(site)
			u.Gone(site)
			u.Create(site)
		},
	}
}

// Nearly all seeds replay to the turn: what an operator does within a turn, and what the garbage collector takes in meanwhile, is in an
// order that is Go's.
func TestReplay(t *testing.T) {
	const seeds = 20
	if same := simtest.Replay(t, again(), seeds); same < seeds*3/4 {
		t.Errorf("%d of %d seeds go the same way twice", same, seeds)
	}
}

// An operator that was cut off makes what the garbage collector takes away, until its reflectors hear again.
func TestStorm(t *testing.T) {
	cut := func(step int, long time.Duration) simtest.Fault {
		return simtest.Fault{Kind: simtest.Partition, Site: "step", N: step, For: long}
	}
	if wrong := simtest.Play(t, again(), 752, 1, cut(4, 10*time.Second), cut(7, 20*time.Second)); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// setUp adds a controller to mgr that keeps a Deployment for each site, with as many replicas as its field has letters.
func setUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Complete(sites{mgr.GetClient()})
}

type sites struct{ client.Client }

// Reconcile implements reconcile.Reconciler.
func (s sites) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var site corev1.ConfigMap
	if err := s.Get(ctx, req.NamespacedName, &site); err != nil || site.Labels["site"] == "" || site.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, s.Client, d, func() error {
		labels := map[string]string{"app": site.Name}
		d.Spec.Replicas = new(int32(1 + len(site.Data["replicas"])))
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		if len(d.Spec.Template.Spec.Containers) == 0 {
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
		}
		return controllerutil.SetControllerReference(&site, d, s.Scheme())
	})
	return ctrl.Result{}, err
}
