package simulated

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
	"github.com/kloop-dev/kloop/examples/postgres/operator"
	"github.com/kloop-dev/kloop/simtest"
)

var shop = &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default"},
	Spec: v1alpha1.PostgresClusterSpec{EngineVersion: "15", StorageSize: resource.MustParse("1Gi"), Synchronous: v1alpha1.Required,
		Replication: v1alpha1.Replication{Enabled: true, ReplicaCount: 2}, DeletionPolicy: "Delete"}}

// TestOperator: whatever happens to the operator, to an instance or to a node, the cluster is whole in the end, and nothing that was
// acknowledged is lost. Which instance is primary in the end depends on what happened.
func TestOperator(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var s *site
	simtest.Run(t, simtest.Config{
		Scheme: scheme, CRDs: os.DirFS("../config/crd"), Objects: volumes(), Nodes: 3, Seeds: 10, Quiet: 30 * time.Second,
		Start: func(ctx context.Context, w *simtest.World) error {
			mgr, err := ctrl.NewManager(w.Rest(), w.Options(ctrl.Options{}))
			if err != nil {
				return err
			}
			r := &operator.Reconciler{Client: mgr.GetClient(), Random: func() string { return "secret" },
				Patience: operator.Patience{Silent: 12 * time.Second, Vacant: 10 * time.Second, Ballots: 6 * time.Second}}
			if err := r.SetUp(mgr); err != nil {
				return err
			}
			return mgr.Start(ctx)
		},
		Beside: func(ctx context.Context, w *simtest.World) {
			s = newSite() // of this run
			api, err := client.NewWithWatch(w.Rest(), client.Options{Scheme: scheme})
			if err == nil {
				s.machines(ctx, api)
			}
		},
		Program: func(u *simtest.User) { program(u, s) },
		Ignore: func(obj *unstructured.Unstructured) bool {
			switch obj.GetKind() {
			case "PostgresCluster", "Pod", "PersistentVolumeClaim", "PersistentVolume", "EndpointSlice", "Endpoints":
				return true // judged by the program
			}
			return false
		},
	})
}

// program has a user and the world do things.
func program(u *simtest.User, s *site) {
	status := func() (c v1alpha1.PostgresCluster) {
		_ = u.Get(context.Background(), client.ObjectKeyFromObject(shop), &c) // then nothing is as it should be
		return c
	}
	whole := func() {
		u.Until("is ready", func() bool {
			c := status()
			ready := apimeta.FindStatusCondition(c.Status.Conditions, "Ready")
			return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == c.Generation &&
				apimeta.IsStatusConditionTrue(c.Status.Conditions, "UpToDate")
		})
		u.Until("takes a write", s.writeAll)
		u.Until("has all that was acknowledged", func() bool { return s.lost() == 0 })
	}
	u.Create(shop)
	whole()

	primary := status().Status.CurrentPrimary // it is cut off, and clients go on with it
	s.cutOff(primary, true)
	for range 20 {
		s.writeAll()
		u.Wait(2 * time.Second)
	}
	s.cutOff(primary, false)
	whole()

	simtest.Change(u, shop, func(c *v1alpha1.PostgresCluster) { c.Spec.Image = "another:15" }) // every pod is made anew
	s.writeAll()
	whole()

	u.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: status().Status.CurrentPrimary, Namespace: "default"}})
	s.writeAll()
	whole()

	simtest.Change(u, shop, func(c *v1alpha1.PostgresCluster) { c.Spec.Replication.ReplicaCount = 1 })
	whole()
	u.Until("has two instances", func() bool { return pods(u) == 2 })
}

func pods(u *simtest.User) int {
	var list corev1.PodList
	_ = u.List(context.Background(), &list, client.HasLabels{v1alpha1.InstanceLabel}) // then it is none
	return len(list.Items)
}

// volumes are there for claims: nobody provisions any.
func volumes() (list []client.Object) {
	for i := range 4 {
		list = append(list, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("disk-", i)},
			Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/disk"}}}})
	}
	return list
}
