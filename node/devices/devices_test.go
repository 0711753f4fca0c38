package devices

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginv1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"pgregory.net/rapid"

	"github.com/kloop-dev/kloop/node/topology"
	"github.com/kloop-dev/kloop/test/deviceplugin"
)

const gpu = "example.com/gpu"

// A rig is a stock that runs, and what it told of changes.
type rig struct {
	*Stock
	t    *testing.T
	cfg  Config
	stop func()

	mu   sync.Mutex
	sick []types.UID
}

func start(t *testing.T, cfg Config) *rig {
	r := &rig{t: t, cfg: cfg}
	r.cfg.Log, r.cfg.Changed = slog.New(slog.DiscardHandler), func() {}
	r.cfg.Health = func(uid types.UID) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sick = append(r.sick, uid)
	}
	r.restart(r.cfg.Boot)
	t.Cleanup(func() { r.stop() })
	return r
}

// restart ends the agent and starts the next one.
func (r *rig) restart(boot string) {
	if r.stop != nil {
		r.stop()
	}
	r.cfg.Boot = boot
	r.Stock = New(r.cfg)
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	r.until("it listens", func() bool { _, err := os.Stat(filepath.Join(r.cfg.dir(), "kubelet.sock")); return err == nil })
}

func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	r.t.Fatalf("not within 20 s: %s", what)
}

// has waits until the node has so many devices, so many of them healthy.
func (r *rig) has(all, healthy int64) {
	r.t.Helper()
	count := func(l corev1.ResourceList) int64 { q := l[gpu]; return q.Value() }
	r.until("the devices are counted", func() bool {
		c, a := r.Resources()
		return count(c) == all && count(a) == healthy
	})
}

func (r *rig) plugin(o *pluginv1.DevicePluginOptions, names ...string) *deviceplugin.Plugin {
	r.t.Helper()
	p := &deviceplugin.Plugin{Dir: r.cfg.dir(), Resource: gpu, Options: o}
	if err := p.Start(r.t.Context(), deviceplugin.Devices(names...)...); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Stop)
	return p
}

// pod is one whose containers want so many devices; names with i: are init containers, with s: sidecars.
func pod(uid string, want map[string]int64, order ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
	for _, name := range order {
		c := corev1.Container{Name: name}
		c.Resources.Limits = corev1.ResourceList{gpu: *apiresource.NewQuantity(want[name], apiresource.DecimalSI)}
		switch name[:2] {
		case "s:":
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			fallthrough
		case "i:":
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

// admit gives all containers of a pod their devices.
func (r *rig) admit(p *corev1.Pod) error {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if err := r.Take(r.t.Context(), p, &list[i], 0); err != nil {
				return err
			}
			if err := r.Allocate(r.t.Context(), p.UID, list[i].Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rig) ids(uid types.UID, container string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, st := range r.Status(uid, container) {
		for _, d := range st.Resources {
			ids = append(ids, string(d.ResourceID))
		}
	}
	return strings.Join(ids, ",")
}

func TestPluginComesAndGoes(t *testing.T) {
	t.Attr("retry", "never")
	r := start(t, Config{Dir: t.TempDir(), Boot: "1"})
	p := r.plugin(nil, "a", "b", "!c")
	r.has(3, 2)
	if err := r.admit(pod("u", map[string]int64{"m.": 2}, "m.")); err != nil {
		t.Fatal(err)
	}
	err := r.admit(pod("v", map[string]int64{"m.": 1}, "m."))
	want := "requested number of devices unavailable for example.com/gpu. Requested: 1, Available: 0"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	o, err := r.Start(t.Context(), "u", "m.")
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Env) != 1 || string(o.Env[0].Value) != "a,b" || len(o.Devices) != 2 || o.Devices[1].ContainerPath != "/dev/b" ||
		o.Notes[gpu] != "a,b" {
		t.Errorf("the container gets %+v", o)
	}
	p.Set(deviceplugin.Devices("a", "!b", "c")...)
	r.until("the pod's owner is told", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return slices.Contains(r.sick, "u") })
	if st := r.Status("u", "m."); st[0].Resources[0].Health != "Healthy" || st[0].Resources[1].Health != "Unhealthy" {
		t.Errorf("health is %+v", st)
	}
	r.has(3, 2)
	p.Stop()
	r.has(3, 0) // the capacity stays for a while
	if st := r.Status("u", "m."); st[0].Resources[0].Health != "Unknown" {
		t.Errorf("health without a plugin is %+v", st)
	}
	if _, err := r.Start(t.Context(), "u", "m."); err != nil {
		t.Errorf("a container that has its devices can't start again while the plugin is away: %v", err)
	}
	err = r.admit(pod("w", map[string]int64{"m.": 1}, "m."))
	if want := "no healthy devices present; cannot allocate unhealthy devices " + gpu; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	r.plugin(nil, "a", "b", "c")
	r.has(3, 3)
	r.Free("u")
	if err := r.admit(pod("w", map[string]int64{"m.": 3}, "m.")); err != nil {
		t.Errorf("what was freed can't be had: %v", err)
	}
}

func TestRestartKeepsAssignments(t *testing.T) {
	t.Attr("retry", "never")
	r := start(t, Config{Dir: t.TempDir(), Boot: "1"})
	p := r.plugin(nil, "a", "b")
	r.has(2, 2)
	if err := r.admit(pod("u", map[string]int64{"m.": 1}, "m.")); err != nil {
		t.Fatal(err)
	}
	r.restart("1")
	r.has(2, 0)
	if o, err := r.Start(t.Context(), "u", "m."); err != nil || len(o.Devices) != 1 || o.Devices[0].ContainerPath != "/dev/a" {
		t.Errorf("after the agent's restart the container gets %+v, %v", o, err)
	}
	p.Stop()
	p = r.plugin(nil, "a", "b")
	r.has(2, 2)
	if err := r.admit(pod("v", map[string]int64{"m.": 1}, "m.")); err != nil || r.ids("v", "m.") != "b" {
		t.Errorf("another pod gets %s, %v", r.ids("v", "m."), err)
	}
	p.Stop()
	r.restart("2") // the machine was switched off: what the plugin said then is void
	if _, err := r.Start(t.Context(), "u", "m."); err == nil || err.Error() != "cannot allocate unregistered device "+gpu {
		t.Errorf("after a reboot without the plugin: %v", err)
	}
	p = r.plugin(nil, "a", "b")
	r.has(2, 2)
	if _, err := r.Start(t.Context(), "u", "m."); err != nil || !slices.Equal(p.Calls(), []string{"Allocate a"}) {
		t.Errorf("after a reboot the plugin was asked %q, %v", p.Calls(), err)
	}
	r.Keep(map[types.UID]bool{"v": true})
	if r.ids("u", "m.") != "" || r.ids("v", "m.") != "b" {
		t.Error("Keep keeps the wrong ones")
	}
}

func TestBadCheckpoint(t *testing.T) {
	t.Attr("retry", "never")
	for _, text := range []string{"", "{", `{"Data":[]}`, `{"Data":{"PodDeviceEntries":[{"AllocResp":"!"}]}}`, `null`,
		`{"Data":{"PodDeviceEntries":[{"PodUID":"u","AllocResp":"AAAA"}]}}`} {
		dir := t.TempDir()
		file := filepath.Join(dir, "device-plugins/kubelet_internal_checkpoint")
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o750), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		s := New(Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Changed: func() {}, Health: func(types.UID) {}})
		s.Resources()
		s.Free("u")
	}
}

func TestRegistration(t *testing.T) {
	t.Attr("retry", "never")
	r := start(t, Config{Dir: t.TempDir()})
	for _, c := range []struct{ version, endpoint, name, want string }{
		{"v1alpha", "x.sock", gpu, `requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]`},
		{"v1beta1", "x.sock", "cpu", `the ResourceName "cpu" is invalid`},
		{"v1beta1", "x.sock", "a/b/c", `the ResourceName "a/b/c" is invalid`},
		{"v1beta1", "../x.sock", gpu, `the endpoint "../x.sock" is not the name of a socket`},
		{"v1beta1", "", gpu, `the endpoint "" is not the name of a socket`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := deviceplugin.Register(t.Context(), r.cfg.dir(), &pluginv1.RegisterRequest{Version: c.version, Endpoint: c.endpoint,
				ResourceName: c.name})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: got %v", c, err)
			}
		})
	}
	if c, _ := r.Resources(); len(c) != 0 {
		t.Errorf("what was refused is counted: %v", c)
	}
}

func TestInitContainersShareTheirDevices(t *testing.T) {
	t.Attr("retry", "never")
	r := start(t, Config{Dir: t.TempDir()})
	r.plugin(nil, "a", "b", "c", "d")
	r.has(4, 4)
	p := pod("u", map[string]int64{"i:1": 2, "s:1": 1, "i:2": 2, "m1": 1, "m2": 1}, "i:1", "s:1", "i:2", "m1", "m2")
	if err := r.admit(p); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"i:1": "a,b", "s:1": "a", "i:2": "b,c", "m1": "b", "m2": "c"} {
		t.Run(name, func(t *testing.T) {
			if got := r.ids("u", name); got != want {
				t.Errorf("%s has %s, want %s", name, got, want)
			}
		})
	}
	if err := r.admit(pod("v", map[string]int64{"m.": 1}, "m.")); err != nil || r.ids("v", "m.") != "d" {
		t.Errorf("another pod has %s: %v", r.ids("v", "m."), err)
	}
}

func TestPreferenceAndPreStart(t *testing.T) {
	t.Attr("retry", "never")
	r := start(t, Config{Dir: t.TempDir()})
	p := r.plugin(&pluginv1.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}, "a", "b", "c")
	r.has(3, 3)
	if err := r.admit(pod("u", map[string]int64{"m.": 2}, "m.")); err != nil || r.ids("u", "m.") != "b,c" {
		t.Fatalf("the plugin's wish is not heard: %s, %v", r.ids("u", "m."), err)
	}
	if _, err := r.Start(t.Context(), "u", "m."); err != nil {
		t.Fatal(err)
	}
	p.Break(errors.New("it burns"))
	if _, err := r.Start(t.Context(), "u", "m."); err == nil || !strings.Contains(err.Error(), "device plugin PreStartContainer rpc failed") {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(p.Calls(), " "); got != "Allocate b,c PreStart b,c PreStart b,c" {
		t.Errorf("the plugin was asked %s", got)
	}
}

// TestChoice checks what every choice keeps to, whatever there is and whatever the plugin prefers.
func TestChoice(t *testing.T) {
	t.Attr("retry", "never")
	names := []string{"a", "b", "c", "d", "e", "f"}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string])
		c := choice{resource: gpu, need: rapid.IntRange(1, 6).Draw(t, "need"), free: some.Draw(t, "free"), on: map[string]topology.Mask{},
			near: topology.Mask(rapid.Uint64Range(0, 3).Draw(t, "near"))}
		c.spare = without(some.Draw(t, "spare"), c.free)
		wish := some.Draw(t, "wish")
		c.prefer = func([]string, []string, int) []string { return wish }
		for _, n := range names {
			c.on[n] = topology.Mask(rapid.Uint64Range(0, 3).Draw(t, "on "+n))
		}
		ids, err := c.make()
		if enough := len(c.spare)+len(c.free) >= c.need; enough != (err == nil) {
			t.Fatalf("%d of %d+%d: %v", c.need, len(c.spare), len(c.free), err)
		}
		if err != nil {
			return
		}
		if slices.Sort(ids); len(ids) != c.need || len(slices.Compact(slices.Clone(ids))) != c.need {
			t.Fatalf("chose %v, needs %d", ids, c.need)
		}
		if len(without(ids, append(c.free, c.spare...))) > 0 || len(without(c.spare, ids)) > 0 && len(intersect(ids, c.free)) > 0 {
			t.Fatalf("chose %v of %v and %v", ids, c.spare, c.free)
		}
		near := func(l []string) (n int) {
			for _, id := range l {
				if c.on[id]&c.near != 0 {
					n++
				}
			}
			return n
		}
		fresh := intersect(ids, c.free)
		if near(fresh) < min(len(fresh), near(c.free)) {
			t.Fatalf("chose %v, of which some lie far, though %v has what lies near", fresh, c.free)
		}
	})
}
