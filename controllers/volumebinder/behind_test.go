package volumebinder_test

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/volumebinder"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A behind client has not heard of classes yet, as one whose watch of them is slower than that of claims.
type behind struct{ client.Client }

func (b behind) Read() resource.Reader { return classless{b.Client.Read()} }

type classless struct{ resource.Reader }

func (r classless) Lookup(k resource.Kind, ns, name string) resource.Object {
	if k == kinds.StorageClasses {
		return nil
	}
	return r.Reader.Lookup(k, ns, name)
}

func (r classless) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	if k == kinds.StorageClasses {
		return func(func(resource.Object) bool) {}
	}
	return r.Reader.Each(k, ns)
}

// TestClassNotSeenYet: a class is called missing when there is none, not when only its watch is behind.
func TestClassNotSeenYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testcluster.Start(t)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		late := storagev1.VolumeBindingWaitForFirstConsumer
		if _, err := c.Create(ctx, kinds.StorageClasses, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "there"},
			Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late}); err != nil {
			t.Fatal(err)
		}
		for _, class := range []string{"there", "missing"} {
			if _, err := c.Create(ctx, kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: class},
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}}},
			}); err != nil {
				t.Fatal(err)
			}
		}
		events := client.NewRecorder(c, "volume-binder", nil)
		all.Go(func() { events.Run(ctx) })
		all.Go(func() {
			_ = volumebinder.Claims.Run(ctx, loop.Env{Client: behind{c}, Events: events, Log: slog.New(slog.DiscardHandler)})
		})
		time.Sleep(time.Minute)
		told := map[string]string{}
		for _, e := range resource.List(c.Read(), kinds.Events, "") {
			told[e.InvolvedObject.Name] = e.Reason
		}
		if told["there"] != "" || told["missing"] != "ProvisioningFailed" {
			t.Errorf("told: %v", told)
		}
	})
}
