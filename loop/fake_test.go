package loop_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// fake is a cluster of config maps, and of nothing else. Its view may lag behind what was written.
type fake struct {
	client.Client // the methods that no test calls are missing

	mu      sync.Mutex
	rev     int64
	stored  map[string]*corev1.ConfigMap
	seen    snapshot
	behind  []client.Change // written and not yet seen
	lag     bool
	changed chan struct{}
	log     []client.Change // seen, from the beginning
	reset   int             // feeds that started before this start again
	refuse  error           // what deletions come to
}

type snapshot struct {
	rev  int64
	maps map[string]*corev1.ConfigMap
}

func newFake() *fake {
	return &fake{stored: map[string]*corev1.ConfigMap{}, seen: snapshot{maps: map[string]*corev1.ConfigMap{}}, changed: make(chan struct{})}
}

func (s snapshot) Revision(resource.Kind) int64 { return s.rev }
func (s snapshot) Lookup(k resource.Kind, _, name string) resource.Object {
	if o := s.maps[name]; o != nil && k == resource.Kind(kinds.ConfigMaps) {
		return o
	}
	return nil
}
func (s snapshot) Each(k resource.Kind, _ string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for _, o := range s.maps {
			if k == resource.Kind(kinds.ConfigMaps) && !yield(o) {
				return
			}
		}
	}
}
func (s snapshot) ByOwner(resource.Kind, string) iter.Seq[resource.Object]         { return none }
func (s snapshot) ByField(resource.Kind, string, string) iter.Seq[resource.Object] { return none }
func (s snapshot) ByLabel(resource.Kind, string, string, string) iter.Seq[resource.Object] {
	return none
}
func none(func(resource.Object) bool) {}

func (f *fake) Read() resource.Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func (f *fake) write(name string, next *corev1.ConfigMap) *corev1.ConfigMap {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rev++
	c := client.Change{Kind: kinds.ConfigMaps, Rev: f.rev}
	if old := f.stored[name]; old != nil {
		c.Old = old
	}
	delete(f.stored, name)
	if next != nil {
		next = resource.Clone(next)
		next.ResourceVersion, next.UID = strconv.FormatInt(f.rev, 10), types.UID(name)
		f.stored[name] = next
		c.New = next
	}
	f.behind = append(f.behind, c)
	if !f.lag {
		f.catchUp()
	}
	return next
}

func (f *fake) catchUp() {
	maps := map[string]*corev1.ConfigMap{}
	for k, v := range f.stored {
		maps[k] = v
	}
	f.seen = snapshot{f.rev, maps}
	f.log = append(f.log, f.behind...)
	f.behind = nil
	close(f.changed)
	f.changed = make(chan struct{})
}

// setLag makes the view stand still, or catch up.
func (f *fake) setLag(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lag = on; !on {
		f.catchUp()
	}
}

// put stores a config map as somebody outside would.
func (f *fake) put(name string, data ...string) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
	for i := 0; i+1 < len(data); i += 2 {
		cm.Data[data[i]] = data[i+1]
	}
	f.write(name, cm)
}

func (f *fake) Create(_ context.Context, _ resource.Kind, obj resource.Object) (resource.Object, error) {
	return f.write(obj.GetName(), obj.(*corev1.ConfigMap)), nil
}

func (f *fake) Update(_ context.Context, _ resource.Kind, obj resource.Object, _ string) (resource.Object, error) {
	return f.write(obj.GetName(), obj.(*corev1.ConfigMap)), nil
}

func (f *fake) Delete(_ context.Context, k resource.Kind, _, name string, _ *metav1.DeleteOptions) error {
	if f.stored[name] == nil {
		return apierrors.NewNotFound(k.Info().GR(), name)
	}
	if f.refuse != nil {
		return f.refuse
	}
	f.write(name, nil)
	return nil
}

func (f *fake) Get(_ context.Context, k resource.Kind, _, name string) (resource.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.stored[name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(k.Info().GR(), name)
}

type feed struct {
	f       *fake
	at      int
	started bool
	reset   int
}

func (f *fake) Feed(...resource.Kind) client.Feed { return &feed{f: f} }

func (d *feed) Next(ctx context.Context) (client.Batch, error) {
	for {
		d.f.mu.Lock()
		seen, log, wait, reset := d.f.seen, slices.Clone(d.f.log), d.f.changed, d.f.reset
		d.f.mu.Unlock()
		if !d.started || reset > d.reset {
			d.started, d.at, d.reset = true, len(log), reset
			return client.Batch{Read: seen, Reset: true}, nil
		}
		if len(log) > d.at {
			b := client.Batch{Read: seen, Changes: log[d.at:]}
			d.at = len(log)
			return b, nil
		}
		select {
		case <-ctx.Done():
			return client.Batch{}, ctx.Err()
		case <-wait:
		}
	}
}

func (d *feed) Reuse() {}

// loseFeeds makes the feeds miss what happens in f and start again.
func (f *fake) loseFeeds(during func()) {
	f.setLag(true)
	during()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind, f.lag = nil, false
	f.reset++
	f.catchUp()
}

// run runs the controller until the test's bubble ends.
func run(t *testing.T, f *fake, ct *loop.Controller[*corev1.ConfigMap], edit ...func(*loop.Env)) *loop.Watchers {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	env := loop.Env{Client: f, Log: slog.New(slog.DiscardHandler), Watch: &loop.Watchers{}}
	for _, e := range edit {
		e(&env)
	}
	if ct.Name == "" {
		ct.Name = "test"
	}
	ct.For = kinds.ConfigMaps
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := ct.Run(ctx, env); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return env.Watch
}

func key(name string) loop.Key { return loop.Key{Kind: kinds.ConfigMaps, Name: name} }

var errBoom = fmt.Errorf("boom")
