package attachdetach_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/attachdetach"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const volume = "kubernetes.io/csi/d.example.com^h"

// A racing client lets the agent say that it uses the volume just before the loop takes it out of the Node's status.
type racing struct {
	client.Client
	t     *testing.T
	once  sync.Once
	early atomic.Bool // an attachment was deleted before that
	told  atomic.Bool
}

func (r *racing) Update(ctx context.Context, k resource.Kind, o resource.Object, sub string) (resource.Object, error) {
	if n, ok := o.(*corev1.Node); ok && sub == "status" && len(n.Status.VolumesAttached) == 0 {
		r.once.Do(func() { use(ctx, r.t, r.Client, volume) })
		r.told.Store(true)
	}
	return r.Client.Update(ctx, k, o, sub)
}

func (r *racing) Delete(ctx context.Context, k resource.Kind, ns, name string, o *metav1.DeleteOptions) error {
	if !r.told.Load() {
		r.early.Store(true)
	}
	return r.Client.Delete(ctx, k, ns, name, o)
}

// use writes what the node's agent says that it uses.
func use(ctx context.Context, t *testing.T, c client.Client, list ...corev1.UniqueVolumeName) {
	obj, err := c.Get(ctx, kinds.Nodes, "", "n")
	if err != nil {
		t.Error(err)
		return
	}
	next := resource.Clone(obj.(*corev1.Node))
	next.Status.VolumesInUse = list
	if _, err := c.Update(ctx, kinds.Nodes, next, "status"); err != nil {
		t.Error(err)
	}
}

// TestDetachRacesMount has an agent begin to use a volume at the moment at which the loop lets it go: it must not be detached.
func TestDetachRacesMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testcluster.Start(t)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		pv := "v"
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
			Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}
		va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-" + fmt.Sprintf("%x",
			sha256.Sum256([]byte("hd.example.comn")))},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: "d.example.com", NodeName: "n",
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}}}
		for _, o := range []struct {
			k resource.Kind
			o resource.Object
		}{{kinds.Nodes, n}, {kinds.VolumeAttachments, va}} {
			if _, err := c.Create(ctx, o.k, o.o); err != nil {
				t.Fatal(err)
			}
		}
		next := resource.Clone(resource.Get(c.Read(), kinds.Nodes, "", "n"))
		next.Status.VolumesAttached = []corev1.AttachedVolume{{Name: volume}}
		if _, err := c.Update(ctx, kinds.Nodes, next, "status"); err != nil {
			t.Fatal(err)
		}
		own := &racing{Client: c, t: t}
		wg.Go(func() {
			_ = attachdetach.Controller(nil).Run(ctx, loop.Env{Client: own, Log: slog.New(slog.DiscardHandler)})
		})
		time.Sleep(time.Minute)
		if resource.Get(c.Read(), kinds.VolumeAttachments, "", va.Name) == nil || own.early.Load() {
			t.Error("a volume is detached that the node uses")
		}
		if list := resource.Get(c.Read(), kinds.Nodes, "", "n").Status.VolumesAttached; len(list) != 1 {
			t.Errorf("the node is told that it has %v", list)
		}
		use(ctx, t, c)
		time.Sleep(time.Minute)
		if resource.Get(c.Read(), kinds.VolumeAttachments, "", va.Name) != nil {
			t.Error("a volume that nobody uses stays attached")
		}
		if list := resource.Get(c.Read(), kinds.Nodes, "", "n").Status.VolumesAttached; len(list) != 0 {
			t.Errorf("the node is told that it has %v", list)
		}
	})
}
