package dra

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/node/plugins"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/dradriver"
)

// fakeClient has the claim "c", which two drivers serve and all pods may use.
type fakeClient struct {
	client.Client
	uid string // begins the claim's
}

func (f fakeClient) Get(_ context.Context, _ resource.Kind, ns, name string) (resource.Object, error) {
	k := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(f.uid + "uid-" + name)}}
	k.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range []string{"one", "two"} {
		k.Status.Allocation.Devices.Results = append(k.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: d, Pool: "p", Device: name})
	}
	for i := range 10 {
		k.Status.ReservedFor = append(k.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods",
			Name: fmt.Sprint("pod", i), UID: types.UID(fmt.Sprint("pod", i))})
	}
	return k, nil
}

func newClaims(t *testing.T, dir, boot string) *Claims {
	c := New(Config{Node: "n", Dir: dir, Boot: boot, Client: fakeClient{}, Came: func() {}, Health: func(types.UID) {},
		Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(c.close)
	return c
}

// drivers starts both drivers and registers them.
func drivers(t *testing.T, c *Claims) (list []*dradriver.Driver) {
	t.Helper()
	for i, name := range []string{"one", "two"} {
		d := &dradriver.Driver{Root: c.cfg.Dir, Name: name, Devices: func(k *drav1.Claim) []*drav1.Device {
			return []*drav1.Device{{RequestNames: []string{fmt.Sprint("r", i, "/sub")}, PoolName: "p", DeviceName: k.Name,
				CdiDeviceIds: []string{name + "/d=" + k.Name}}}
		}}
		if err := os.MkdirAll(filepath.Join(c.cfg.Dir, "plugins_registry"), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := d.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Stop)
		if err := c.Register(t.Context(), plugins.Plugin{Name: name, Endpoint: filepath.Join(c.cfg.Dir, "plugins", name, "dra.sock"),
			Versions: []string{"v1.DRAPlugin"}}); err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

// instance starts and registers an instance of a driver.
func instance(t *testing.T, c *Claims, name, which string) *dradriver.Driver {
	t.Helper()
	d := &dradriver.Driver{Root: c.cfg.Dir, Name: name, Instance: which}
	if err := errors.Join(os.MkdirAll(filepath.Join(c.cfg.Dir, "plugins_registry"), 0o750), d.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	if err := c.Register(t.Context(), pluginOf(c, name, which)); err != nil {
		t.Fatal(err)
	}
	return d
}

func pluginOf(c *Claims, name, which string) plugins.Plugin {
	return plugins.Plugin{Name: name, Endpoint: filepath.Join(c.cfg.Dir, "plugins", name, "dra"+which+".sock"),
		Versions: []string{"v1.DRAPlugin"}}
}

// TestUpdateOfADriver asks the newest instance of a driver, and the one before when the newer is gone or does not answer.
func TestUpdateOfADriver(t *testing.T) {
	c := newClaims(t, t.TempDir(), "1")
	instance(t, c, "two", "")
	old := instance(t, c, "one", "")
	step := func(pod string, of *dradriver.Driver) {
		t.Helper()
		before := len(of.Calls())
		for range 2 { // that a driver is gone is found out by asking it
			if err := c.Prepare(t.Context(), podOf(pod, pod)); err == nil {
				break
			}
		}
		if err := c.Unprepare(t.Context(), types.UID(pod)); err != nil {
			t.Error(err)
		}
		if got := strings.Join(of.Calls()[before:], ", "); got != "prepare "+pod+", unprepare "+pod {
			t.Errorf("%s: it was asked %q", pod, got)
		}
	}
	step("pod0", old)
	next := instance(t, c, "one", "-2")
	step("pod1", next)
	next.Stop()
	step("pod2", old)
	last := instance(t, c, "one", "-3")
	step("pod3", last)
	c.Deregister(pluginOf(c, "one", "-3"))
	step("pod4", old)
	again := instance(t, c, "one", "-4")
	c.Deregister(pluginOf(c, "one", ""))
	step("pod5", again)
}

func podOf(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(name)}}
	for _, k := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: k, ResourceClaimName: &k})
	}
	return p
}

// TestSharedClaim: pods that share a claim come and go at once, and each driver prepares it once and takes it back once.
func TestSharedClaim(t *testing.T) {
	c := newClaims(t, t.TempDir(), "1")
	list := drivers(t, c)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if err := c.Prepare(t.Context(), podOf(fmt.Sprint("pod", i), "b", "a")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	container := &corev1.Container{Name: "c"}
	container.Resources.Claims = []corev1.ResourceClaim{{Name: "a", Request: "r1"}}
	if got := strings.Join(c.CDI(podOf("pod0", "a", "b"), container), " "); got != "two/d=a" {
		t.Errorf("the container gets %s", got)
	}
	container.Resources.Claims = []corev1.ResourceClaim{{Name: "a"}, {Name: "b"}}
	if got := strings.Join(c.CDI(podOf("pod0", "a", "b"), container), " "); got != "one/d=a two/d=a one/d=b two/d=b" {
		t.Errorf("the container gets %s", got)
	}
	for i := range 10 {
		all.Go(func() {
			if err := c.Unprepare(t.Context(), types.UID(fmt.Sprint("pod", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, d := range list {
		count := map[string]int{}
		for _, call := range d.Calls() {
			count[call]++
		}
		for _, want := range []string{"prepare a", "prepare b", "unprepare a", "unprepare b"} {
			if count[want] != 1 {
				t.Errorf("%s was asked %q", d.Name, d.Calls())
				break
			}
		}
	}
	if len(c.of) != 0 || c.Held("pod0") {
		t.Error("something is kept")
	}
}

// TestNamesake: a claim is not prepared as long as a former one of its name is, whose devices it may have.
func TestNamesake(t *testing.T) {
	c := newClaims(t, t.TempDir(), "1")
	list := drivers(t, c)
	if err := c.Prepare(t.Context(), podOf("pod1", "a")); err != nil {
		t.Fatal(err)
	}
	c.cfg.Client = fakeClient{uid: "again-"}
	pod := podOf("pod2", "a")
	err := c.Prepare(t.Context(), pod)
	if err == nil || !strings.Contains(err.Error(), "old ResourceClaim with same name a and different UID") {
		t.Errorf("the first is prepared: %v", err)
	}
	if err := errors.Join(c.Unprepare(t.Context(), "pod1"), c.Prepare(t.Context(), pod)); err != nil {
		t.Error(err)
	}
	for _, d := range list {
		if got := strings.Join(d.Calls(), ", "); got != "prepare a, unprepare a, prepare a" {
			t.Errorf("%s was asked %s", d.Name, got)
		}
	}
}

// TestFailedPrepareIsTakenBack: what one driver prepared while the other failed is taken back, by the next agent too, and after a reboot.
func TestFailedPrepareIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	c := newClaims(t, dir, "1")
	list := drivers(t, c)
	list[1].Break(errors.New("it burns"))
	err := c.Prepare(t.Context(), podOf("pod1", "a"))
	if err == nil || !strings.Contains(err.Error(), "NodePrepareResources failed for ResourceClaim a: it burns") {
		t.Fatalf("got %v", err)
	}
	list[1].Break(nil)
	next := newClaims(t, dir, "1")
	for name, d := range c.drivers {
		next.drivers[name] = d
	}
	if err := next.Prepare(t.Context(), podOf("pod1", "a")); err != nil {
		t.Fatal(err)
	}
	if a, b := strings.Join(list[0].Calls(), ", "), strings.Join(list[1].Calls(), ", "); a != "prepare a" || b != "prepare a, prepare a" {
		t.Errorf("the drivers were asked %s; %s", a, b)
	}
	later := newClaims(t, dir, "2")
	for name, d := range c.drivers {
		later.drivers[name] = d
	}
	if later.ready(podOf("pod1", "a")) {
		t.Error("what was prepared before a reboot counts as ready")
	}
	if err := later.Sweep(t.Context(), map[types.UID]bool{}); err != nil {
		t.Fatal(err)
	}
	if a := list[0].Calls(); a[len(a)-1] != "unprepare a" || len(newClaims(t, dir, "2").of) != 0 {
		t.Errorf("after the pod is gone: %q", a)
	}
}

func TestBadState(t *testing.T) {
	for _, text := range []string{"", "{", "null", `{"Claims":[null]}`, `{"Claims":[{"UID":"u","Pods":["p"],"Drivers":{"d":null}}]}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "dra_manager_state"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := newClaims(t, dir, "1")
		c.CDI(podOf("p", "a"), &corev1.Container{})
		if err := c.Unprepare(t.Context(), "p"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// sliceClient has one ResourceSlice of this node and one of another's, and notes what is deleted.
type sliceClient struct {
	client.Client
	resource.Reader
	deleted []string
}

func (s *sliceClient) Read() resource.Reader { return s }
func (s *sliceClient) Each(resource.Kind, string) iter.Seq[resource.Object] {
	slice := func(name, node, driver string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourcev1.ResourceSliceSpec{NodeName: &node, Driver: driver}}
	}
	return slices.Values([]resource.Object{slice("ours", "n", "one"), slice("alive", "n", "two"), slice("other", "m", "one")})
}

func (s *sliceClient) Delete(_ context.Context, _ resource.Kind, _, name string, _ *metav1.DeleteOptions) error {
	s.deleted = append(s.deleted, name)
	return nil
}

func TestSlicesOfDriversThatAreGone(t *testing.T) {
	s := &sliceClient{}
	c := New(Config{Node: "n", Dir: t.TempDir(), Client: s, Log: slog.New(slog.DiscardHandler)})
	c.cfg.Came = func() {}
	t.Cleanup(c.close)
	instance(t, c, "two", "")
	instance(t, c, "one", "").Stop() // it is registered, and does not answer
	for !c.drivers["one"][0].broken() {
		c.drivers["one"][0].conn.WaitForStateChange(t.Context(), c.drivers["one"][0].conn.GetState())
	}
	away, now := map[string]time.Time{}, time.Now()
	for i, want := range []string{"", "", "", "ours"} {
		if err := c.wipe(t.Context(), away, now.Add(time.Duration(i)*lookEvery)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.deleted, " "); got != want {
			t.Errorf("after %v: %q, want %q", time.Duration(i)*lookEvery, got, want)
		}
	}
}
