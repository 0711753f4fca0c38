package localstorage_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/plugins"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/localstorage"
	"github.com/kloop-dev/kloop/controllers/pvcprotection"
	"github.com/kloop-dev/kloop/controllers/pvprotection"
	"github.com/kloop-dev/kloop/controllers/volumebinder"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/loop"
	nodestorage "github.com/kloop-dev/kloop/node/localstorage"
	"github.com/kloop-dev/kloop/resource"
)

// A rig is a front door with the loops of volumes, and an agent whose disk is a real directory.
type rig struct {
	*client.Local
	t    *testing.T
	ctx  context.Context
	dir  string
	on   bool
	wg   sync.WaitGroup
	stop func()      // of what runs
	died func() bool // what runs
}

const selected = "volume.kubernetes.io/selected-node"

var errCrash = errors.New("crashed")

// A mortal client dies at one of its writes: before it, or after it and before it is known that it was made. From then on nothing
// works.
type mortal struct {
	client.Client
	mu    sync.Mutex
	left  int  // writes until it dies; below 0: it never does
	after bool // it dies after the write
	die   func()
}

func (m *mortal) write(do func() (resource.Object, error)) (resource.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	switch {
	case m.left == 0 && m.after:
		_, _ = do()
		m.die()
		return nil, errCrash
	case m.left == 0:
		m.die()
		return nil, errCrash
	}
	return do()
}

// refused is a claim for which somebody's rules let no volume be made.
const refused = "a-refused"

func (m *mortal) Create(ctx context.Context, k resource.Kind, o resource.Object) (resource.Object, error) {
	if v, ok := o.(*corev1.PersistentVolume); ok && v.Spec.ClaimRef.Name == refused {
		return nil, errors.New("no volume for " + refused)
	}
	return m.write(func() (resource.Object, error) { return m.Client.Create(ctx, k, o) })
}

func (m *mortal) Update(ctx context.Context, k resource.Kind, o resource.Object, sub string) (resource.Object, error) {
	return m.write(func() (resource.Object, error) { return m.Client.Update(ctx, k, o, sub) })
}

func (m *mortal) Patch(ctx context.Context, k resource.Kind, ns, name string, p client.Patch) (resource.Object, error) {
	return m.write(func() (resource.Object, error) { return m.Client.Patch(ctx, k, ns, name, p) })
}

func (m *mortal) Delete(ctx context.Context, k resource.Kind, ns, name string, o *metav1.DeleteOptions) error {
	_, err := m.write(func() (resource.Object, error) { return nil, m.Client.Delete(ctx, k, ns, name, o) })
	return err
}

func simulate(t *testing.T, f func(r *rig)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c := testcluster.Start(t, func(c *testcluster.Config) { c.Admission = plugins.Default(admission.Config{}) })
		r := &rig{Local: c.Local, t: t, ctx: ctx, dir: dir, on: true}
		r.make(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
		r.make(kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"}}})
		f(r)
		r.stop()
		stop()
	})
}

func (r *rig) make(k resource.Kind, o resource.Object) resource.Object {
	r.t.Helper()
	out, err := r.Create(r.ctx, k, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// start runs the loops and the agent. They die together at the write of that number, counted from 1; 0: never.
func (r *rig) start(crash int, after bool) {
	ctx, stop := context.WithCancel(r.ctx)
	if crash == 0 {
		crash = -1
	}
	own := &mortal{Client: r.Local, left: crash, after: after, die: stop}
	for _, l := range []loop.Loop{localstorage.Controller(r.on), localstorage.Classes(r.on), volumebinder.Claims, volumebinder.Volumes,
		pvprotection.Controller, pvcprotection.Controller(nil)} {
		r.wg.Go(func() { _ = l.Run(ctx, loop.Env{Client: own, Log: slog.New(slog.DiscardHandler)}) })
	}
	r.wg.Go(func() {
		err := nodestorage.Run(ctx, nodestorage.Config{Client: own, Node: "n", Dir: r.dir, Log: slog.New(slog.DiscardHandler)}, func() {})
		if err != nil {
			r.t.Error(err)
		}
	})
	r.stop = func() { stop(); r.wg.Wait() }
	r.died = func() bool { return ctx.Err() != nil }
}

// until waits in simulated time. False: it did not come to be.
func (r *rig) until(ok func() bool) bool {
	for range 1200 {
		synctest.Wait()
		if ok() {
			return true
		}
		time.Sleep(500 * time.Millisecond)
	}
	return false
}

func (r *rig) claim(name, class string) *corev1.PersistentVolumeClaim {
	p := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{
		selected: "n"}}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": apiresource.MustParse("1Mi")}}}}
	if class != "" {
		p.Spec.StorageClassName = &class
	}
	return r.make(kinds.PersistentVolumeClaims, p).(*corev1.PersistentVolumeClaim)
}

// bound says that the claim has its volume. It is the scheduler too: a claim that was sent away is sent to the same node again.
func (r *rig) bound(name string) bool {
	p := resource.Get(r.Read(), kinds.PersistentVolumeClaims, "ns", name)
	if p != nil && p.Spec.VolumeName == "" && p.Annotations[selected] == "" {
		_, err := r.Patch(r.ctx, kinds.PersistentVolumeClaims, "ns", name, client.Patch{Type: types.MergePatchType,
			Data: []byte(`{"metadata":{"annotations":{"` + selected + `":"n"}}}`)})
		if err != nil {
			r.t.Error(err)
		}
	}
	return p != nil && p.Status.Phase == corev1.ClaimBound
}

// path is the directory of a bound claim.
func (r *rig) path(name string) string {
	p := resource.Get(r.Read(), kinds.PersistentVolumeClaims, "ns", name)
	return resource.Get(r.Read(), kinds.PersistentVolumes, "", p.Spec.VolumeName).Spec.Local.Path
}

// left tells what is left of volumes: objects, orders, files.
func (r *rig) left() string {
	var list []string
	for _, v := range resource.List(r.Read(), kinds.PersistentVolumes, "") {
		list = append(list, "persistentvolume "+v.Name+" "+string(v.Status.Phase))
	}
	for name, o := range localvolume.Orders(resource.Get(r.Read(), kinds.Nodes, "", "n")) {
		list = append(list, "order "+name+" "+o.String())
	}
	files, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Error(err)
	}
	for _, f := range files {
		list = append(list, "file "+f.Name())
	}
	return strings.Join(list, "\n")
}

// TestLife makes a volume, writes, and deletes its claim.
func TestLife(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(0, false)
		if !r.until(func() bool { return len(resource.List(r.Read(), kinds.StorageClasses, "")) >= 2 }) {
			t.Fatal("no classes")
		}
		p := r.claim("data", "")
		if p.Spec.StorageClassName == nil || *p.Spec.StorageClassName != "local-path" {
			t.Fatal("a claim without a class has not the default one")
		}
		if !r.until(func() bool { return r.bound("data") }) {
			t.Fatal("not bound: " + r.left())
		}
		path := r.path("data")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o777 || filepath.Dir(path) != r.dir {
			t.Fatal(path, info, err)
		}
		if !r.until(func() bool { return !strings.Contains(r.left(), "order") }) {
			t.Error("an order stays: " + r.left())
		}
		n := resource.Get(r.Read(), kinds.Nodes, "", "n")
		if b, ok := localvolume.FreeOn(n); !ok || b <= 0 {
			t.Error("the node does not say how much room it has")
		}
		r.grow("data", "5Mi")
		if !r.until(func() bool { return r.size("data") == "5Mi" }) {
			t.Error("it did not grow: " + r.size("data"))
		}
		if err := r.Delete(r.ctx, kinds.PersistentVolumeClaims, "ns", "data", nil); err != nil {
			t.Fatal(err)
		}
		if !r.until(func() bool { return r.left() == "" }) {
			t.Error("left over: " + r.left())
		}
	})
}

// TestOneRefusalHoldsUpNobodyElse has a claim whose volume may not be made, and one after it.
func TestOneRefusalHoldsUpNobodyElse(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(0, false)
		if !r.until(func() bool { return len(resource.List(r.Read(), kinds.StorageClasses, "")) >= 2 }) {
			t.Fatal("no classes")
		}
		r.claim(refused, "local-path")
		time.Sleep(time.Minute)
		r.claim("data", "local-path")
		if !r.until(func() bool { return r.bound("data") }) || r.bound(refused) {
			t.Error("not bound: " + r.left())
		}
	})
}

func (r *rig) grow(name, size string) {
	next := resource.Clone(resource.Get(r.Read(), kinds.PersistentVolumeClaims, "ns", name))
	next.Spec.Resources.Requests["storage"] = apiresource.MustParse(size)
	if _, err := r.Update(r.ctx, kinds.PersistentVolumeClaims, next, ""); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) size(name string) string {
	q := resource.Get(r.Read(), kinds.PersistentVolumeClaims, "ns", name).Status.Capacity["storage"]
	return q.String()
}

// TestCrashes kills the loops and the agent at each of their writes, before it and after it, and starts them anew: what was written to a
// volume stays as long as its claim does, and nothing is left when that is gone.
func TestCrashes(t *testing.T) {
	t.Attr("retry", "never")
	for _, early := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for at, more := 1, true; more; at++ {
				t.Run(fmt.Sprintf("early=%t,after=%t,at=%d", early, after, at), func(t *testing.T) { more = crash(t, at, after, early) })
				if at > 60 {
					t.Fatal("the writes do not end")
				}
			}
		}
	}
}

// crash returns false if there were fewer writes than that. early: the claim is deleted while its volume may still be under way.
func crash(t *testing.T, at int, after, early bool) (crashed bool) {
	simulate(t, func(r *rig) {
		waits, policy := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
		for _, name := range []string{"local-path", "standard"} {
			r.make(kinds.StorageClasses, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
				Provisioner:       localvolume.Provisioner,
				VolumeBindingMode: &waits, ReclaimPolicy: &policy})
		}
		r.claim("data", "local-path")
		r.start(at, after)
		settle := func(ok func() bool) bool { // whatever dies meanwhile is started anew
			r.until(func() bool { return r.died() || ok() })
			if r.died() {
				crashed = true
				r.stop()
				r.start(0, false)
			}
			return r.until(ok)
		}
		if early {
			r.until(func() bool { return r.died() || r.bound("data") })
		} else {
			if !settle(func() bool { return r.bound("data") }) {
				r.t.Fatal("not bound: " + r.left())
			}
			file := filepath.Join(r.path("data"), "row")
			if err := os.WriteFile(file, []byte("written"), 0o600); err != nil {
				r.t.Fatal(err)
			}
			if !settle(func() bool { return !strings.Contains(r.left(), "order") }) {
				r.t.Error("an order stays: " + r.left())
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != "written" {
				r.t.Fatal("what was written is lost: ", err)
			}
		}
		if err := r.Delete(r.ctx, kinds.PersistentVolumeClaims, "ns", "data", nil); err != nil {
			r.t.Fatal(err)
		}
		if !settle(func() bool { return r.left() == "" }) {
			r.t.Error("left over: " + r.left())
		}
	})
	return crashed
}
