package view_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kloop "github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

// bigPod is a pod as a Deployment makes them and a node reports them: about 2 KB of protobuf.
func bigPod(i int) *corev1.Pod {
	yes := true
	p := pod("default", fmt.Sprintf("web-5d9c7b9d8f-%05d", i), func(p *corev1.Pod) {
		p.UID = types.UID(fmt.Sprintf("0b7e7f3e-7c5a-4a6e-9d5b-%012d", i))
		p.Labels = map[string]string{"app": "web", "pod-template-hash": "5d9c7b9d8f", "tier": "front"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d9c7b9d8f",
			UID: types.UID(fmt.Sprint("rs-", i%50)), Controller: &yes}}
		p.Spec.NodeName = fmt.Sprint("node-", i%100)
		p.Status.Phase, p.Status.PodIP, p.Status.HostIP = corev1.PodRunning, "10.0.0.1", "192.168.0.1"
		p.CreationTimestamp = metav1.Unix(1_700_000_000, 0)
	})
	for _, name := range []string{"app", "proxy"} {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Image: "registry.example.com/team/" + name + ":1.2.3",
			Env:   []corev1.EnvVar{{Name: "POD_NAME", Value: p.Name}, {Name: "LEVEL", Value: "info"}},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"),
				"memory": resource.MustParse("64Mi")}},
			VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}}})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, Ready: true,
			Image:       "registry.example.com/team/" + name + ":1.2.3",
			ImageID:     "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
			ContainerID: "containerd://2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"})
	}
	for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.Unix(1_700_000_000, 0)})
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kloop", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(
			`{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:tier":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:env":{},` +
				`"f:image":{},"f:name":{}}}}}`)}}
	return p
}

// feed is a store whose watch delivers what the benchmark hands it, one event a batch.
type feed struct {
	store.Store
	events chan store.Batch
}

func (f *feed) List(context.Context, string, string, int, int64) (store.Page, error) {
	return store.Page{Rev: 1}, nil
}

func (f *feed) Watch(ctx context.Context, _ string, _ int64, fn func(store.Batch) error) error {
	for {
		select {
		case b := <-f.events:
			if err := fn(b); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func startFeed(b testing.TB) (*view.View, *feed) {
	f := &feed{events: make(chan store.Batch)}
	r := &rig{t: b, st: f, v: view.New(kloop.NewSet(pods, maps, nodes))}
	r.follow()
	return r.v, f
}

func (f *feed) send(rev int64, key string, value []byte) {
	f.events <- store.Batch{Rev: rev, Events: []store.Event{{Rev: rev, Key: key, KV: &store.KV{Key: key, Value: value, ModRev: rev}}}}
}

// BenchmarkIngest takes in updates of 10,000 pods; a snapshot is taken after each.
func BenchmarkIngest(b *testing.B) {
	const n = 10_000
	keys, values, objects := make([]string, n), make([][]byte, n), make([]*corev1.Pod, n)
	for i := range n {
		objects[i] = bigPod(i)
		keys[i] = pods.Info().Key("default", objects[i].Name)
		values[i], _ = codec.Stored(pods, objects[i])
	}
	run := func(offer, snapshot bool) func(b *testing.B) {
		return func(b *testing.B) {
			v, f := startFeed(b)
			rev := int64(1)
			for i := range n {
				rev++
				f.send(rev, keys[i], values[i])
			}
			b.ReportMetric(float64(len(values[0])), "bytes/pod")
			b.ReportAllocs()
			clones := make([]*corev1.Pod, b.N)
			for i := range clones {
				if offer {
					clones[i] = objects[(i*7919)%n].DeepCopy()
				}
			}
			b.ResetTimer()
			for i := range b.N {
				j := (i * 7919) % n
				rev++
				if offer {
					v.Offer(keys[j], values[j], clones[i])
				}
				f.send(rev, keys[j], values[j])
				if snapshot {
					v.Snapshot()
				}
			}
			if _, err := v.Wait(b.Context(), rev); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("decode", run(false, false))
	b.Run("offer", run(true, false))
	b.Run("decode+snapshot", run(false, true))
	b.Run("offer+snapshot", run(true, true))
}

func filled(b *testing.B, n int) *view.View {
	v := view.New(kloop.NewSet(pods, maps, nodes))
	list := make([]kloop.Object, n)
	for i := range n {
		list[i] = bigPod(i)
	}
	v.Replace(pods, 10, list)
	return v
}

func BenchmarkSnapshot(b *testing.B) {
	v := filled(b, 10_000)
	b.Run("same", func(b *testing.B) {
		for b.Loop() {
			v.Snapshot()
		}
	})
	b.Run("changed", func(b *testing.B) {
		b.ReportAllocs()
		for rev := int64(11); b.Loop(); rev++ {
			v.Advance(nodes, rev)
			v.Snapshot()
		}
	})
}

func BenchmarkRead(b *testing.B) {
	s := filled(b, 10_000).Snapshot()
	b.Run("lookup", func(b *testing.B) {
		for b.Loop() {
			s.Lookup(pods, "default", "web-5d9c7b9d8f-04711")
		}
	})
	count := func(name string, seq func(func(kloop.Object) bool)) {
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = 0
				for range seq {
					n++
				}
			}
			b.ReportMetric(float64(n), "objects")
		})
	}
	count("each", s.Each(pods, ""))
	count("owner", s.ByOwner(pods, "rs-7"))
	count("label", s.ByLabel(pods, "default", "app", "web"))
	count("field", s.ByField(pods, "spec.nodeName", "node-3"))
}

// BenchmarkList writes the JSON of 10,000 pods, encoded before.
func BenchmarkList(b *testing.B) {
	v := filled(b, 10_000)
	s, size := v.Snapshot(), 0
	buf := make([]byte, 0, 64<<10)
	for name, encode := range map[string]func(e *view.Entry) (open, rest []byte){
		"json":  func(e *view.Entry) (open, rest []byte) { open, rest, _ = e.ItemJSON(b.Context(), pods.GVK); return },
		"proto": func(e *view.Entry) (open, rest []byte) { rest, _ = e.RawProto(b.Context(), pods.GVK); return },
	} {
		list := func() {
			size = 0
			for e := range s.Entries(pods, "", "") {
				open, rest := encode(e)
				buf = append(append(buf[:0], open...), rest...)
				size += len(buf)
			}
		}
		b.Run(name, func(b *testing.B) {
			list()
			for b.Loop() {
				list()
			}
			b.ReportMetric(float64(size)/1e6, "MB")
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	p := bigPod(1)
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = view.NewEntry(pods, 7, p).JSON(b.Context(), pods.GVK)
		}
	})
	b.Run("proto", func(b *testing.B) {
		for b.Loop() {
			_, _ = view.NewEntry(pods, 7, p).RawProto(b.Context(), pods.GVK)
		}
	})
}

// BenchmarkCursors has 1,000 cursors on pods and 1,000 on nodes, all of which read the JSON of every change.
func BenchmarkCursors(b *testing.B) {
	for _, batch := range []int{1, 20} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			const watchers = 1000
			v, f := startFeed(b)
			var wg sync.WaitGroup
			var told atomic.Int64
			ctx, stop := context.WithCancel(b.Context())
			for range watchers {
				c := v.Cursor(1, pods)
				wg.Go(func() {
					for {
						got, err := c.Next(ctx)
						if err != nil {
							return
						}
						for _, x := range got.Changes {
							if _, err := x.New.JSON(ctx, pods.GVK); err != nil {
								return
							}
						}
						told.Add(int64(len(got.Changes)))
					}
				})
				quiet := v.Cursor(1, nodes)
				wg.Go(func() { _, _ = quiet.Next(ctx) })
			}
			key := pods.Info().Key("default", bigPod(1).Name)
			value, _ := codec.Stored(pods, bigPod(1))
			rev := int64(1)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				x := store.Batch{}
				for range batch {
					rev++
					x.Rev = rev
					x.Events = append(x.Events, store.Event{Rev: rev, Key: key, KV: &store.KV{Key: key, Value: value, ModRev: rev}})
				}
				f.events <- x
				for want := int64(watchers) * (rev - 1); told.Load() < want; {
					if _, err := v.Wait(ctx, rev); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(told.Load())/b.Elapsed().Seconds(), "events/s")
			b.StopTimer()
			stop()
			wg.Wait()
		})
	}
}

// BenchmarkWrite writes ConfigMaps to a store in memory, offers them and waits until the view has them.
func BenchmarkWrite(b *testing.B) {
	r := start(b, view.Config{})
	var n atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m := cm("default", fmt.Sprint("m", n.Add(1)), "value")
			value, err := codec.Stored(maps, m)
			if err != nil {
				b.Error(err)
				return
			}
			key := maps.Info().Key(m.Namespace, m.Name)
			r.v.Offer(key, value, m)
			rev, err := r.st.Write(b.Context(), store.Write{Key: key, Value: value})
			if err != nil {
				b.Error(err)
				return
			}
			if x, err := r.v.Written(b.Context(), maps, rev); err != nil || x.New.Object != kloop.Object(m) {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkLoad starts a view on a store of 10,000 pods, and says how much memory a pod takes in it.
func BenchmarkLoad(b *testing.B) {
	const n = 10_000
	r := &rig{t: b, st: memory.New()}
	for i := range n {
		r.put(pods, bigPod(i))
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, per := heap(), 0.0
	for b.Loop() {
		r.v = view.New(kloop.NewSet(pods, maps, nodes))
		r.follow()
		if per == 0 {
			b.StopTimer()
			per = float64(heap()-before) / n
			b.StartTimer()
		}
	}
	b.ReportMetric(per, "bytes/pod")
}
