package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/pressure"
	"github.com/kloop-dev/kloop/resource"
)

func (f *fakeRuntime) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest, ...opt) (*cri.ImageFsInfoResponse, error) {
	return &cri.ImageFsInfoResponse{}, nil
}

func (f *fakeRuntime) RemoveImage(_ context.Context, r *cri.RemoveImageRequest, _ ...opt) (*cri.RemoveImageResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, i := range f.images {
		if i.Id == r.Image.Image {
			delete(f.images, name)
		}
	}
	return &cri.RemoveImageResponse{}, nil
}

// ListContainerStats tells that every container uses as many MiB of memory as its name is long.
func (f *fakeRuntime) ListContainerStats(context.Context, *cri.ListContainerStatsRequest,
	...opt) (*cri.ListContainerStatsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deaf != nil {
		return nil, f.deaf
	}
	res := &cri.ListContainerStatsResponse{}
	for id, c := range f.configs {
		res.Stats = append(res.Stats, &cri.ContainerStats{Attributes: &cri.ContainerAttributes{Id: id, Labels: c.Labels},
			Memory: &cri.MemoryUsage{WorkingSetBytes: &cri.UInt64Value{Value: uint64(len(c.Metadata.Name)) << 20}}})
	}
	return res, nil
}

// machine tells the agent what a test says of memory and disk.
type machine struct {
	mu  sync.Mutex
	now map[pressure.Signal]pressure.Reading
}

func (m *machine) set(s pressure.Signal, available, capacity int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = map[pressure.Signal]pressure.Reading{s: {Available: available, Capacity: capacity}}
}

func (m *machine) read(string, string) map[pressure.Signal]pressure.Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// pressed starts the rig's agent on a machine of the test's.
func (r *rig) pressed(thresholds string) *machine {
	r.stop()
	m := &machine{}
	hard, soft, _ := strings.Cut(thresholds, " soft ")
	grace := map[string]string{}
	if name, _, ok := strings.Cut(soft, "<"); ok {
		grace[name] = "1m"
	}
	list, err := pressure.ParseAll(hard, soft, grace, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.cfg.Eviction, r.cfg.left, r.cfg.ImageGCHigh, r.cfg.ImageGCLow = list, m.read, pressure.ImagesHigh, pressure.ImagesLow
	r.start()
	return m
}

func (r *rig) condition(t corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range resource.Get(r.Read(), kinds.Nodes, "", "n").Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// A node short of memory ends the pod that exceeds its request by most, one at a time, and lets no pods in that asked for nothing.
func TestMemoryPressure(t *testing.T) {
	simulate(t, func(r *rig) {
		m := r.pressed("memory.available<100Mi")
		r.pod("small", nil, "a")
		r.pod("large", nil, "a-large-one")
		r.pod("critical", func(p *corev1.Pod) { p.Annotations = map[string]string{mirrorNote: "x"} }, "a-very-large-one")
		for _, name := range []string{"small", "large", "critical"} {
			r.reaches(name, corev1.PodRunning)
		}
		m.set(pressure.MemoryAvailable, 60<<20, 1<<30)
		gone := r.reaches("large", corev1.PodFailed)
		const says = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi. " +
			"Container a-large-one was using 11Mi, request is 0, has larger consumption of memory. "
		if gone.Status.Reason != "Evicted" || gone.Status.Message != says {
			t.Errorf("the evicted pod says %s: %s", gone.Status.Reason, gone.Status.Message)
		}
		m.set(pressure.MemoryAvailable, 600<<20, 1<<30)
		if c := r.condition(corev1.NodeMemoryPressure); c.Status != corev1.ConditionTrue || c.Reason != "KubeletHasInsufficientMemory" {
			t.Errorf("the node says %+v", c)
		}
		r.pod("late", nil, "a")
		if late := r.reaches("late", corev1.PodFailed); late.Status.Reason != "Evicted" ||
			!strings.HasSuffix(late.Status.Message, "The node had condition: [MemoryPressure]. ") {
			t.Errorf("the late pod says %s: %s", late.Status.Reason, late.Status.Message)
		}
		r.pod("modest", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: apiresource.MustParse("1Mi")}
		}, "a")
		r.reaches("modest", corev1.PodRunning)
		r.rests(pressure.Transition + 2*pressureEvery)
		if c := r.condition(corev1.NodeMemoryPressure); c.Status != corev1.ConditionFalse {
			t.Errorf("five minutes later the node says %+v", c)
		}
		for _, name := range []string{"small", "critical", "modest"} {
			if p := r.get(name); p.Status.Phase != corev1.PodRunning {
				t.Errorf("%s is %s: %s", name, p.Status.Phase, p.Status.Message)
			}
		}
	})
}

// A pod that does not end keeps the node from no other eviction.
func TestEvictedPodsThatDoNotEnd(t *testing.T) {
	simulate(t, func(r *rig) {
		m := r.pressed("memory.available<100Mi")
		r.pod("small", nil, "a")
		r.pod("large", nil, "a-large-one")
		r.reaches("small", corev1.PodRunning)
		r.reaches("large", corev1.PodRunning)
		r.rt.mu.Lock()
		r.rt.stop = func(ctx context.Context, id string) {
			if r.rt.configs[id].Metadata.Name != "a" {
				<-ctx.Done() // it sleeps in the kernel
			}
		}
		r.rt.mu.Unlock()
		m.set(pressure.MemoryAvailable, 60<<20, 1<<30)
		r.until("the large one is to go", func() bool { return r.agent.evict.get(r.get("large").UID) != nil })
		began := time.Now()
		r.reaches("small", corev1.PodFailed)
		if took := time.Since(began); took < endsWithin || took > endsWithin+3*pressureEvery {
			t.Errorf("the next one went after %s", took)
		}
	})
}

// A node that is short of something says so although its runtime does not tell what pods use, and as soon as the API hears it.
func TestPressureIsTold(t *testing.T) {
	simulate(t, func(r *rig) {
		m := r.pressed("memory.available<100Mi")
		limit := apiresource.MustParse("1Gi")
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
		}, "a")
		r.reaches("p", corev1.PodRunning)
		r.stop()
		hears := &refuser{Client: r}
		r.cfg.Client = hears
		r.start()
		r.rests(time.Minute)
		r.rt.mu.Lock()
		r.rt.deaf = errors.New("the disk is busy")
		r.rt.mu.Unlock()
		hears.refuses.Store(true)
		m.set(pressure.MemoryAvailable, 60<<20, 1<<30)
		r.rests(2 * pressureEvery)
		hears.refuses.Store(false)
		r.rests(leaseEvery + time.Second)
		if c := r.condition(corev1.NodeMemoryPressure); c.Status != corev1.ConditionTrue {
			t.Errorf("the node says %+v", c)
		}
	})
}

// A refuser is an API that takes no Nodes as long as it refuses.
type refuser struct {
	client.Client
	refuses atomic.Bool
}

func (r *refuser) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	if _, node := obj.(*corev1.Node); node && r.refuses.Load() {
		return nil, errors.New("connection refused")
	}
	return r.Client.Update(ctx, k, obj, sub)
}

// A disk that fills loses images that nobody uses before any pod ends.
func TestDiskPressure(t *testing.T) {
	simulate(t, func(r *rig) {
		m := r.pressed("nodefs.available<10%")
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		r.rt.mu.Lock()
		r.rt.images["old"] = &cri.Image{Id: "sha256:old", RepoTags: []string{"old"}, Size: 1000}
		r.rt.images["pinned"] = &cri.Image{Id: "sha256:pinned", RepoTags: []string{"pinned"}, Size: 1000, Pinned: true}
		r.rt.mu.Unlock()
		has := func(name string) bool {
			r.rt.mu.Lock()
			defer r.rt.mu.Unlock()
			return r.rt.images[name] != nil
		}
		m.set(pressure.ImagefsAvailable, 50, 100) // nothing is short, and images are looked at
		r.rests(imagesEvery + pressureEvery)
		if !has("old") {
			t.Error("an image went though there was room")
		}
		m.set(pressure.ImagefsAvailable, 10, 100) // 90 % in use
		r.until("the old image is gone", func() bool { return !has("old") })
		m.set(pressure.NodefsAvailable, 9, 100)
		p := r.reaches("p", corev1.PodFailed)
		if !has("pinned") || p.Status.Reason != "Evicted" ||
			!strings.HasPrefix(p.Status.Message, "The node was low on resource: ephemeral-storage. ") {
			t.Errorf("the pod says %s: %s; pinned %v", p.Status.Reason, p.Status.Message, has("pinned"))
		}
	})
}

// A pod that fills its emptyDir beyond the limit ends, though the node has room.
func TestEmptyDirLimit(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pressed("memory.available<100Mi")
		p := r.pod("p", func(p *corev1.Pod) {
			limit := apiresource.MustParse("16Ki")
			p.Spec.Volumes = []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "work", MountPath: "/work"}}
		}, "a")
		r.reaches("p", corev1.PodRunning)
		r.rests(time.Minute)
		if now := r.get("p"); now.Status.Phase != corev1.PodRunning {
			t.Fatalf("an empty volume: %s", now.Status.Message)
		}
		dirs, err := filepath.Glob(filepath.Join(r.cfg.Dir, "pods", string(p.UID), "volumes", "*empty-dir", "work"))
		if err != nil || len(dirs) != 1 {
			t.Fatalf("%v %v", dirs, err)
		}
		if err := os.WriteFile(filepath.Join(dirs[0], "file"), make([]byte, 64<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		gone := r.reaches("p", corev1.PodFailed)
		if gone.Status.Reason != "Evicted" || gone.Status.Message != `Usage of EmptyDir volume "work" exceeds the limit "16Ki". ` {
			t.Errorf("the pod says %s: %s", gone.Status.Reason, gone.Status.Message)
		}
		if hasCondition(gone, corev1.DisruptionTarget) { // policies of Jobs would take it for the node's fault
			t.Error("it says that it was disrupted")
		}
	})
}

// With a soft threshold pressure is told at once, pods go only when it lasts, and have time to end.
func TestSoftEviction(t *testing.T) {
	simulate(t, func(r *rig) {
		r.cfg.EvictionMaxGrace = 20
		m := r.pressed("memory.available<100 soft memory.available<300")
		m.set(pressure.MemoryAvailable, 500, 1000)
		r.pod("p", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(600)) }, "a")
		r.reaches("p", corev1.PodRunning)
		m.set(pressure.MemoryAvailable, 299, 1000)
		began := time.Now()
		r.until("pressure is told", func() bool { return r.condition(corev1.NodeMemoryPressure).Status == corev1.ConditionTrue })
		if time.Since(began) > 2*pressureEvery || r.get("p").Status.Phase != corev1.PodRunning {
			t.Errorf("after %v: %+v", time.Since(began), r.get("p").Status)
		}
		var grace atomic.Int64
		r.rt.mu.Lock()
		r.rt.stop = func(ctx context.Context, _ string) {
			at, _ := ctx.Deadline()
			grace.Store(int64(time.Until(at)/time.Second) - 60)
		}
		r.rt.mu.Unlock()
		p := r.reaches("p", corev1.PodFailed)
		if took := time.Since(began); took < time.Minute || took > time.Minute+3*pressureEvery {
			t.Errorf("evicted after %v", took)
		}
		if p.Status.Reason != "Evicted" || grace.Load() != 20 {
			t.Errorf("with %d s to end: %+v", grace.Load(), p.Status)
		}
	})
}
