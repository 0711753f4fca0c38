package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/engine/disk"
	"github.com/kloop-dev/kloop/internal/eventually"
)

// A lamp is wanted on or off.
type lamp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Room string `json:"room"`
		On   bool   `json:"on"`
	} `json:"spec"`
	Status struct {
		On bool `json:"on"`
	} `json:"status"`
}

const lampCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.test.example.com}
spec:
  group: test.example.com
  scope: Namespaced
  names: {kind: Lamp, plural: lamps, singular: lamp, listKind: LampList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              room: {type: string, default: hall}
              "on": {type: boolean}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// A house is the world outside: it knows which lamps burn, and can be out of reach.
type house struct {
	mu      sync.Mutex
	burns   map[string]bool
	away    bool
	acting  map[string]int // steps under way in a room
	crowded bool           // two were
}

func (h *house) set(name string, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.burns[name] = on
}

func (h *house) is(name string) (on, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	on, known = h.burns[name]
	return on, known
}

// loop keeps the lamps of the house.
func (h *house) loop(watch func(context.Context, func(ns, name string)) error) Loop[*lamp, *bool] {
	return Loop[*lamp, *bool]{Name: "lamps", Kind: Kind[*lamp]{CRD: []byte(lampCRD)}, Clean: true, Poll: time.Hour, Watch: watch,
		Target: func(l *lamp) string { return l.Spec.Room },
		Observe: func(_ context.Context, l *lamp) (*bool, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.away {
				return nil, errors.New("nobody answers")
			}
			if on, ok := h.burns[l.Name]; ok {
				return &on, nil
			}
			return nil, nil
		},
		Plan: func(l *lamp, have *bool) []Step {
			switch {
			case l.DeletionTimestamp != nil && have != nil:
				return []Step{{"unscrew", func(context.Context) error { return h.unscrew(l.Name) }}}
			case l.DeletionTimestamp == nil && (have == nil || *have != l.Spec.On):
				return []Step{{"switch", func(context.Context) error { return h.turn(l) }}}
			}
			return nil
		},
		Status: func(l *lamp, have *bool) { l.Status.On = have != nil && *have },
	}
}

func (h *house) unscrew(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.burns, name)
	return nil
}

// turn switches a lamp, and sees who else is at it in that room.
func (h *house) turn(l *lamp) error {
	h.mu.Lock()
	h.acting[l.Spec.Room]++
	h.crowded = h.crowded || h.acting[l.Spec.Room] > 1
	h.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acting[l.Spec.Room]--
	h.burns[l.Name] = l.Spec.On
	return nil
}

// begin starts a plane of lamps.
func begin(t *testing.T, h *house, watch func(context.Context, func(ns, name string)) error) dynamic.ResourceInterface {
	t.Helper()
	p, err := Start(t.Context(), Config{Log: slog.New(slog.DiscardHandler)}, h.loop(watch))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return lampsOf(t, p)
}

// lampsOf is a client of a plane's lamps over HTTP.
func lampsOf(t *testing.T, p *Plane) dynamic.ResourceInterface {
	t.Helper()
	lamps := schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "lamps"}
	return clientOf(t, p).Resource(lamps).Namespace("default")
}

func clientOf(t *testing.T, p *Plane) dynamic.Interface {
	t.Helper()
	cfg, err := p.Rest()
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1 // no limit
	cl, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func newHouse() *house { return &house{burns: map[string]bool{}, acting: map[string]int{}} }

func lampNamed(name, mode string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "test.example.com/v1", "kind": "Lamp",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"on": true}}}
	if mode != "" {
		u.SetAnnotations(map[string]string{ModeAnnotation: mode})
	}
	return u
}

// ready reads the condition Ready of a lamp.
func ready(t *testing.T, lamps dynamic.ResourceInterface, name string) string {
	t.Helper()
	u, err := lamps.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
			return fmt.Sprint(c["status"], " ", c["reason"], " ", c["message"])
		}
	}
	return ""
}

// TestLoop: an object is made so in the world, drift that a watch tells of is taken back, a second look writes nothing, and an object
// that is deleted leaves nothing behind.
func TestLoop(t *testing.T) {
	h, told := newHouse(), make(chan string)
	lamps := begin(t, h, func(ctx context.Context, wake func(ns, name string)) error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case name := <-told:
				wake("default", name)
			}
		}
	})
	for i := range 20 {
		if _, err := lamps.Create(t.Context(), lampNamed(fmt.Sprint("l", i), ""), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		name := fmt.Sprint("l", i)
		eventually.True(t, name+" burns", func() bool {
			on, _ := h.is(name)
			return on && strings.HasPrefix(ready(t, lamps, name), "True AsWanted")
		})
	}
	if h.crowded {
		t.Error("two passes acted on one target at once")
	}
	before, err := lamps.Get(t.Context(), "l0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if on, _, _ := unstructured.NestedBool(before.Object, "status", "on"); !on {
		t.Errorf("status %v", before.Object["status"])
	}
	h.set("l0", false)
	told <- "l0"
	eventually.True(t, "the drift is taken back", func() bool { on, _ := h.is("l0"); return on })
	told <- "l0"
	told <- "l0"
	if err := lamps.Delete(t.Context(), "l1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "l1 is gone from the world and the API", func() bool {
		_, known := h.is("l1")
		return !known && strings.Contains(ready(t, lamps, "l1"), "not found")
	})
	after, err := lamps.Get(t.Context(), "l0", metav1.GetOptions{})
	if err != nil || after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("looks that found nothing changed wrote: %v, %v", err, after.Object["status"])
	}
}

// TestModes: mode observe reports and does nothing, mode pause does not even look.
func TestModes(t *testing.T) {
	h := newHouse()
	lamps := begin(t, h, nil)
	for name, mode := range map[string]string{"seen": ModeObserve, "paused": ModePause} {
		t.Run(name, func(t *testing.T) {
			if _, err := lamps.Create(t.Context(), lampNamed(name, mode), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	eventually.True(t, "the drift is told", func() bool { return strings.Contains(ready(t, lamps, "seen"), "False Drift") })
	if says := ready(t, lamps, "seen"); !strings.Contains(says, "missing: switch") {
		t.Errorf("the steps are not told: %s", says)
	}
	eventually.True(t, "the pause is told", func() bool { return strings.HasPrefix(ready(t, lamps, "paused"), "Unknown Paused") })
	for _, name := range []string{"seen", "paused"} {
		if _, known := h.is(name); known {
			t.Errorf("%s was acted on", name)
		}
	}
}

// TestOutOfReach: a world that can't be observed is a gap with its reason, and is tried again.
func TestOutOfReach(t *testing.T) {
	h := newHouse()
	h.away = true
	lamps := begin(t, h, nil)
	if _, err := lamps.Create(t.Context(), lampNamed("l", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the reason is told", func() bool {
		return strings.Contains(ready(t, lamps, "l"),
			"ObserveFailed observe: nobody answers")
	})
	h.mu.Lock()
	h.away = false
	h.mu.Unlock()
	eventually.True(t, "it is tried again", func() bool { on, _ := h.is("l"); return on })
}

// TestGap: what a loop can't do is a gap of the plane, with the loop's reason, as `kloop gaps` shows it.
func TestGap(t *testing.T) {
	h := newHouse()
	h.away = true
	p, err := Start(t.Context(), Config{Log: slog.New(slog.DiscardHandler)}, h.loop(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := lampsOf(t, p).Create(t.Context(), lampNamed("l", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gaps := clientOf(t, p).Resource(schema.GroupVersionResource{Group: "convergence.kloop.dev", Version: "v1alpha1", Resource: "gaps"})
	eventually.True(t, "the gap is told", func() bool {
		list, err := gaps.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		told := fmt.Sprint(list.Items)
		return strings.Contains(told, "nobody answers") && !strings.Contains(told, "no controller watches")
	})
}

// TestNoPods: what only a server with nodes can do is told to be out of reach, and nothing of it is linked.
func TestNoPods(t *testing.T) {
	p, err := Start(t.Context(), Config{Log: slog.New(slog.DiscardHandler)}, newHouse().loop(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	cfg, err := p.Rest()
	if err != nil {
		t.Fatal(err)
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/api/v1/pods?fieldSelector=spec.nodeName%3Da": 200, "/api/v1/nodes": 200,
		"/api/v1/persistentvolumes": 200, "/api/v1/namespaces/default/pods/x/log": 503, "/api/v1/namespaces/default/services/x/proxy/": 503,
		"/debug/pprof/": 404, "/healthz": 200} {
		r, err := web.Get(p.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
	for path, body := range map[string]string{
		"/api/v1/namespaces/default/pods":                   `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
		"/api/v1/nodes":                                     `{"metadata":{"name":"n"}}`,
		"/api/v1/namespaces/default/persistentvolumeclaims": `{"metadata":{"name":"c"}}`,
		"/api/v1/namespaces/default/podtemplates":           `{"metadata":{"name":"t"}}`,
	} {
		r, err := web.Post(p.URL()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		told, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusForbidden || !strings.Contains(string(told), "a control plane without nodes") {
			t.Errorf("%s: %d %s, %v: want that none can be made", path, r.StatusCode, told, err)
		}
	}
}

// TestRestart: a plane with a directory finds its objects again, and its loops see at once what went on without them.
func TestRestart(t *testing.T) {
	h, cfg := newHouse(), Config{DataDir: t.TempDir(), Store: disk.Etcd(), Log: slog.New(slog.DiscardHandler)}
	p, err := Start(t.Context(), cfg, h.loop(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lampsOf(t, p).Create(t.Context(), lampNamed("l", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "l burns", func() bool { on, _ := h.is("l"); return on })
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	h.set("l", false)
	if p, err = Start(t.Context(), cfg, h.loop(nil)); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "l burns again", func() bool { on, _ := h.is("l"); return on })
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
}

// TestParts: what can't be meant is refused before anything runs.
func TestParts(t *testing.T) {
	h := newHouse()
	for want, parts := range map[string][]Part{
		"no CustomResourceDefinition": {Kind[*lamp]{CRD: []byte("kind: ConfigMap")}},
		"read the definition":         {Kind[*lamp]{CRD: []byte("{")}},
		"needs Name":                  {Loop[*lamp, int]{Kind: Kind[*lamp]{CRD: []byte(lampCRD)}}},
		"two loops have the name":     {h.loop(nil), h.loop(nil)},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := Start(t.Context(), Config{}, parts...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// TestTargets: one pass at a time, and not before the target has rested; others are not held up.
func TestTargets(t *testing.T) {
	now := time.Unix(100, 0)
	all := targets{every: time.Minute}
	_, leave := all.enter("a", now)
	if leave == nil {
		t.Fatal("a free target is refused")
	}
	if wait, again := all.enter("a", now); again != nil || wait != busyPause {
		t.Errorf("a busy target: %v", wait)
	}
	if _, other := all.enter("b", now); other == nil {
		t.Error("another target is held up")
	}
	leave(now)
	if wait, again := all.enter("a", now.Add(time.Second)); again != nil || wait != 59*time.Second {
		t.Errorf("a target that rests: %v", wait)
	}
	if _, again := all.enter("a", now.Add(time.Minute)); again == nil {
		t.Error("a target that has rested is refused")
	}
	if len(all.next) != 0 {
		t.Errorf("what has rested is remembered: %v", all.next)
	}
}
