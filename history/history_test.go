package history_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/history"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

var quiet = slog.New(slog.DiscardHandler)

// A world is a store, and a view of it.
type world struct {
	t     testing.TB
	store store.Store
	view  *view.View
	now   map[string]int64 // revisions of what is there
	rev   int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(), view: view.New(kinds.NewSet()), now: map[string]int64{}}
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = w.view.Follow(ctx, w.store, func() { close(ready) }) // it ends with ctx
	}()
	<-ready
	t.Cleanup(func() {
		stop()
		<-done
		_ = w.store.Close() // in memory
	})
	return w
}

// set writes an object; gone removes it.
func (w *world) set(k resource.Kind, obj resource.Object, gone bool) int64 {
	w.t.Helper()
	key := k.Info().Key(obj.GetNamespace(), obj.GetName())
	write := store.Write{Key: key, Expect: w.now[key]}
	if !gone {
		value, err := codec.Stored(k, obj)
		if err != nil {
			w.t.Fatal(err)
		}
		write.Value = value
	}
	rev, err := w.store.Write(w.t.Context(), write)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.view.Written(w.t.Context(), k, rev); err != nil {
		w.t.Fatal(err)
	}
	if w.rev, w.now[key] = rev, rev; gone {
		delete(w.now, key)
	}
	return rev
}

// feed is a world followed by a log.
type feed struct {
	*world
	log  *history.Log
	stop func()
}

func (w *world) follow(cfg history.Config) *feed {
	w.t.Helper()
	cfg.Log, cfg.Secret = quiet, []byte("a secret of the test")
	f := &feed{world: w, log: history.New(cfg)}
	ctx, cancel := context.WithCancel(context.Background())
	done, ready := make(chan error, 1), make(chan struct{})
	go func() { done <- f.log.Run(ctx, w.view, func() { close(ready) }) }()
	<-ready
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(f.stop)
	return f
}

func (f *feed) settle() {
	f.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := f.log.Wait(ctx, f.rev); err != nil {
		f.t.Fatal(err)
	}
}

func (f *feed) records() (list []history.Record, span history.Span) {
	f.t.Helper()
	span, err := f.log.Since(time.Time{}, func(r *history.Record) bool {
		list = append(list, r.Keep())
		return true
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return list, span
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "somebody"}}}, Data: map[string]string{"v": value}}
}

// TestBefore compares what the log says that objects were with a plain list of all their states, on disk and in memory.
func TestBefore(t *testing.T) {
	for name, dir := range map[string]string{"disk": t.TempDir(), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t).follow(history.Config{Dir: dir})
			dice := rand.New(rand.NewPCG(1, 2))
			states := map[int64]string{} // what the write of a revision found
			now := map[string]string{}
			for n := range 3000 {
				key := fmt.Sprintf("m%d", dice.IntN(40))
				was, there := now[key]
				switch {
				case there && dice.IntN(5) == 0:
					rev := f.set(kinds.ConfigMaps, configMap(key, was), true)
					states[rev] = was
					delete(now, key)
				default:
					now[key] = fmt.Sprint(n)
					rev := f.set(kinds.ConfigMaps, configMap(key, now[key]), false)
					states[rev] = map[bool]string{true: was, false: "none"}[there]
				}
			}
			f.settle()
			list, span := f.records()
			if len(span.Breaks) > 0 {
				t.Errorf("breaks: %v", span.Breaks)
			}
			seen := 0
			for i := range list {
				r := &list[i]
				want, ok := states[r.Rev]
				if !ok {
					continue
				}
				seen++
				obj, err := f.log.Object(kinds.ConfigMaps, r)
				if err != nil {
					t.Fatal(err)
				}
				got := "none"
				if obj != nil {
					got = obj.(*corev1.ConfigMap).Data["v"]
					if obj.GetResourceVersion() != strconv.FormatInt(r.Was, 10) || obj.GetManagedFields() != nil {
						t.Fatalf("%d: %+v", r.Rev, obj)
					}
				}
				if got != want || r.Created() != (want == "none") {
					t.Fatalf("before %d it was %q, not %q", r.Rev, want, got)
				}
			}
			if seen != len(states) {
				t.Errorf("%d of %d writes are known", seen, len(states))
			}
		})
	}
}

// TestRestart goes on where the log ended, and says so where it could not.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	f := newWorld(t).follow(history.Config{Dir: dir})
	f.set(kinds.ConfigMaps, configMap("a", "1"), false)
	f.settle()
	f.set(kinds.ConfigMaps, configMap("a", "2"), false)
	f.settle()
	f.stop()
	again := f.follow(history.Config{Dir: dir})
	again.set(kinds.ConfigMaps, configMap("a", "3"), false)
	again.settle()
	if list, span := again.records(); len(list) != 3 || len(span.Breaks) != 0 {
		t.Fatalf("after a restart: %d records, breaks %v", len(list), span.Breaks)
	}
	again.stop()
	f.set(kinds.ConfigMaps, configMap("a", "4"), false) // nobody looks
	third := f.follow(history.Config{Dir: dir})
	third.set(kinds.ConfigMaps, configMap("a", "5"), false)
	third.settle()
	if list, span := third.records(); len(list) != 4 || len(span.Breaks) != 1 {
		t.Fatalf("after a time without a log: %d records, breaks %v", len(list), span.Breaks)
	}
}

// TestDamage cuts and scribbles in a file: what can be read is read, and the rest shows as a break.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	f := newWorld(t).follow(history.Config{Dir: dir})
	for n := range 5 {
		f.set(kinds.ConfigMaps, configMap("a", fmt.Sprint(n)), false)
		f.settle()
		f.records() // ends the chunk
	}
	f.stop()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(3, 4))
	for n := range 300 {
		data := bytes.Clone(whole)
		if n%2 == 0 {
			data = data[:dice.IntN(len(data))]
		} else {
			data[dice.IntN(len(data))] ^= byte(1 + dice.IntN(255))
		}
		if err := os.WriteFile(names[0], data, 0o600); err != nil {
			t.Fatal(err)
		}
		g := f.follow(history.Config{Dir: dir})
		list, _ := g.records()
		for i := range list {
			if _, err := g.log.Object(kinds.ConfigMaps, &list[i]); err != nil {
				t.Fatal(err)
			}
		}
		g.stop()
		for _, name := range names[1:] {
			_ = os.Remove(name)
		}
	}
}

// TestBound writes more than the log may keep, through several lives.
func TestBound(t *testing.T) {
	for name, dir := range map[string]string{"disk": t.TempDir(), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			const most = 512 << 10
			w := newWorld(t)
			noise := make([]byte, 10_000)
			dice := rand.NewChaCha8([32]byte{1})
			for range 3 {
				f := w.follow(history.Config{Dir: dir, Most: most})
				for range 60 {
					_, _ = dice.Read(noise) // never fails
					f.set(kinds.ConfigMaps, configMap("a", fmt.Sprintf("%x", noise)), false)
					f.settle()
					f.log.Flush()
				}
				list, span := f.records()
				if len(list) == 0 || len(list) == 180 || span.Oldest.IsZero() {
					t.Errorf("%s: %d records since %v", name, len(list), span.Oldest)
				}
				f.stop()
			}
			if size := sizeOf(dir); dir != "" && (size > most+most/4 || size == 0) {
				t.Errorf("%d bytes in files", size)
			}
		})
	}
}

// marked must never be found on disk in clear.
const marked = "MARKED-by-this-test"

func secret(value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s",
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": value}},
		Data: map[string][]byte{"token": []byte(value)}}
}

// A turner seals by turning bits.
type turner struct{}

func (turner) Seal(_ string, value []byte) ([]byte, bool, error) { return turn(value), true, nil }
func (turner) Unseal(_ string, kept []byte) ([]byte, error)      { return turn(kept), nil }

func turn(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0x55
	}
	return out
}

// TestSecrets looks for values of Secrets in the files, and gets them back only where the store encrypts them.
func TestSecrets(t *testing.T) {
	for name, cipher := range map[string]history.Cipher{"clear": nil, "encrypted": turner{}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := newWorld(t).follow(history.Config{Dir: dir, Cipher: cipher})
			f.set(kinds.Secrets, secret("other"), false)
			f.settle()
			f.set(kinds.Secrets, secret(marked), false)
			f.set(kinds.Secrets, secret("third"), false)
			f.settle()
			list, _ := f.records()
			f.stop()
			files, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, name := range files {
				unpacked := f.unpacked(name)
				if bytes.Contains(unpacked, []byte(marked)) || len(unpacked) == 0 {
					t.Errorf("%s: %d bytes of %s have the value in clear", name, len(unpacked), name)
				}
			}
			obj, err := f.log.Object(kinds.Secrets, &list[len(list)-1])
			if err != nil {
				t.Fatal(err)
			}
			got := obj.(*corev1.Secret).Data["token"]
			if whole := string(got) == marked; whole != (cipher != nil) || history.StandIn(got) == whole {
				t.Errorf("%s: before the last write the value was %q", name, got)
			}
		})
	}
}

// BenchmarkTake measures what writes of pods' statuses cost the process, with and without the log, and the disk: in CPU time, as the
// log works beside the writer.
func BenchmarkTake(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(map[bool]string{false: "without", true: "with"}[kept], func(b *testing.B) {
			w, dir := newWorld(b), b.TempDir()
			var f *feed
			if kept {
				f = w.follow(history.Config{Dir: dir, Most: 1 << 30})
			}
			dice, before := rand.New(rand.NewPCG(5, 6)), cpu()
			for n := 0; b.Loop(); n++ {
				w.set(kinds.Pods, pod(dice, n%500), false)
			}
			if kept {
				f.settle()
				f.stop()
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(sizeOf(dir))/float64(b.N), "disk-B/op")
		})
	}
}

// cpu is the time that the process has had so far, in nanoseconds.
func cpu() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func sizeOf(dir string) (size int64) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.history"))
	for _, name := range files {
		if info, err := os.Stat(name); err == nil {
			size += info.Size()
		}
	}
	return size
}

// pod is one as workloads have it, with what differs from pod to pod, and from write to write, by chance.
func pod(dice *rand.Rand, n int) *corev1.Pod {
	text := func() string { return fmt.Sprintf("%016x", dice.Uint64()) }
	now := metav1.NewTime(time.Unix(1_700_000_000+dice.Int64N(1e7), 0))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-7b6b8d4658-%d", n),
		UID:    types.UID(text() + text()),
		Labels: map[string]string{"app": "web", "pod-template-hash": "7b6b8d4658"}, CreationTimestamp: now,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7b6b8d4658", UID: "u"}}},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", n%50), ServiceAccountName: "default",
			Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/shop/web:v1", ImagePullPolicy: corev1.PullIfNotPresent,
				Env: []corev1.EnvVar{{Name: "DATABASE", Value: "postgres://db.shop.svc:5432/shop"}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.1.%d.%d", n/250, n%250), StartTime: &now,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, ContainerID: "containerd://" + text() + text() + text(),
				Image: "registry.example.com/shop/web:v1", ImageID: "sha256:1", RestartCount: int32(dice.IntN(5))}}}}
	for _, t := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled", "PodReadyToStartContainers"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return p
}

func (f *feed) unpacked(name string) []byte {
	f.t.Helper()
	out, err := history.Unpacked(name)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}
