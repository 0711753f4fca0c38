package sim_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

// A world is a server and one simulated node.
type world struct {
	*client.Local
	t   *testing.T
	run func(loops ...loop.Loop) // runs loops until the test ends
}

// simulate runs a test in a world whose loops run.
func simulate(t *testing.T, f func(w *world)) {
	t.Helper()
	still(t, func(w *world) {
		w.run(sim.Loops()...)
		f(w)
	})
}

// still runs a test in a world in which nothing moves yet.
func still(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{Local: testcluster.Start(t).Local, t: t}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		w.make(kinds.Namespaces, &corev1.Namespace{}, "metadata: {name: ns}")
		events := client.NewRecorder(w, "kloop", nil)
		all.Go(func() { events.Run(ctx) })
		w.run = func(loops ...loop.Loop) {
			for _, l := range loops {
				all.Go(func() {
					if err := l.Run(ctx, loop.Env{Client: w, Log: slog.New(slog.DiscardHandler), Events: events.For("kubelet", ""),
						Watch: &loop.Watchers{}}); err != nil {
						t.Errorf("%s: %v", l.LoopName(), err)
					}
				})
			}
		}
		if err := sim.Nodes(ctx, w, 1); err != nil {
			t.Fatal(err)
		}
		f(w)
	})
}

// make creates what a YAML text says.
func (w *world) make(k resource.Kind, obj resource.Object, text string, args ...any) {
	w.t.Helper()
	if err := yaml.UnmarshalStrict(fmt.Appendf(nil, text, args...), obj); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Create(w.t.Context(), k, obj); err != nil {
		w.t.Fatal(err)
	}
}

// pod makes a pod on the node.
func (w *world) pod(name, spec string) {
	w.t.Helper()
	w.make(kinds.Pods, &corev1.Pod{}, "metadata: {name: %s, namespace: ns}\nspec: {nodeName: sim-0, %s}", name, spec)
}

// shows waits for a pod to be seen so: phase, reason, what its first container waits for.
func (w *world) shows(name, want string) {
	w.t.Helper()
	got := ""
	for range 600 {
		synctest.Wait()
		p := resource.Get(w.Read(), kinds.Pods, "ns", name)
		got = strings.TrimSpace(string(p.Status.Phase) + " " + p.Status.Reason)
		if len(p.Status.ContainerStatuses) > 0 {
			if x := p.Status.ContainerStatuses[0].State.Waiting; x != nil {
				got += " " + strings.TrimSpace(x.Reason+" "+x.Message)
			}
		}
		if got == want {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("pod %s is %q; want %q", name, got, want)
}

// told waits for an event of a pod's node.
func (w *world) told(name, want string) {
	w.t.Helper()
	var got []string
	for range 600 {
		got = nil
		for _, e := range resource.List(w.Read(), kinds.Events, "ns") {
			if e.InvolvedObject.Name != name {
				continue
			}
			if got = append(got, e.Reason+" "+e.Message); e.Reason+" "+e.Message == want && e.Source.Component == "kubelet" &&
				e.Source.Host == "sim-0" {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("events of pod %s:\n%s\nwant %s", name, strings.Join(got, "\n"), want)
}

const container = "containers: [{name: c, image: i}]"

// A pod waits for what its volumes and variables are made of.
func TestMissing(t *testing.T) {
	simulate(t, func(w *world) {
		w.pod("file", container+", volumes: [{name: v, configMap: {name: cm, items: [{key: k, path: p}]}}]")
		w.shows("file", "Pending ContainerCreating")
		w.told("file", `FailedMount MountVolume.SetUp failed for volume "v" : configmap "cm" not found`)
		w.pod("maybe", container+", volumes: [{name: v, configMap: {name: cm, optional: true}}]")
		w.shows("maybe", "Running")
		w.make(kinds.ConfigMaps, &corev1.ConfigMap{}, "{metadata: {name: cm, namespace: ns}, data: {other: x}}")
		w.told("file", `FailedMount MountVolume.SetUp failed for volume "v" : configmap references non-existent config key: k`)
		w.edit("cm", "k")
		w.shows("file", "Running")

		w.pod("var", "containers: [{name: c, image: i, env: [{name: X, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]")
		w.shows("var", `Pending CreateContainerConfigError secret "s" not found`)
		w.told("var", `Failed Error: secret "s" not found`)
		w.make(kinds.Secrets, &corev1.Secret{}, "{metadata: {name: s, namespace: ns}}")
		w.shows("var", "Pending CreateContainerConfigError couldn't find key k in Secret ns/s")
		w.pod("from", "containers: [{name: c, image: i, envFrom: [{configMapRef: {name: none}}]}]")
		w.shows("from", `Pending CreateContainerConfigError configmap "none" not found`)
	})
}

func (w *world) edit(name, key string) {
	w.t.Helper()
	next := resource.Clone(resource.Get(w.Read(), kinds.ConfigMaps, "ns", name))
	next.Data[key] = "x"
	if _, err := w.Update(w.t.Context(), kinds.ConfigMaps, next, ""); err != nil {
		w.t.Fatal(err)
	}
}

// A pod waits for its claim to be bound, and for the volume to be attached if its driver has that done.
func TestClaims(t *testing.T) {
	simulate(t, func(w *world) {
		w.make(kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{},
			`{metadata: {name: data, namespace: ns}, spec: {accessModes: [ReadWriteOnce], volumeName: pv,
			resources: {requests: {storage: 1Gi}}}}`)
		w.make(kinds.CSIDrivers, &storagev1.CSIDriver{}, "metadata: {name: disks}\nspec: {}")
		w.make(kinds.PersistentVolumes, &corev1.PersistentVolume{},
			`{metadata: {name: pv}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, csi: {driver: disks, volumeHandle: h}}}`)
		w.pod("p", container+", volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]")
		w.told("p",
			"FailedMount Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], "+
				"failed to process volumes=[v]: error processing PVC ns/data: PVC is not bound")
		pvc := resource.Clone(resource.Get(w.Read(), kinds.PersistentVolumeClaims, "ns", "data"))
		pvc.Status.Phase = corev1.ClaimBound
		if _, err := w.Update(w.t.Context(), kinds.PersistentVolumeClaims, pvc, "status"); err != nil {
			w.t.Fatal(err)
		}
		w.told("p",
			"FailedMount Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[v], "+
				"failed to process volumes=[]: timed out waiting for the condition")
		w.shows("p", "Pending ContainerCreating")
		va := &storagev1.VolumeAttachment{}
		w.make(kinds.VolumeAttachments, va, "{metadata: {name: a}, spec: {attacher: disks, nodeName: sim-0, source: {persistentVolumeName: pv}}}")
		va = resource.Clone(resource.Get(w.Read(), kinds.VolumeAttachments, "", "a"))
		va.Status.Attached = true
		if _, err := w.Update(w.t.Context(), kinds.VolumeAttachments, va, "status"); err != nil {
			w.t.Fatal(err)
		}
		w.shows("p", "Running")
	})
}

// A pod that comes before its node has said what room it has waits, and is not refused.
func TestEarly(t *testing.T) {
	still(t, func(w *world) {
		w.pod("early", container)
		for _, l := range sim.Loops() {
			if l.LoopName() != "sim-node" {
				w.run(l)
			}
		}
		w.shows("early", "Pending")
		for _, l := range sim.Loops() {
			if l.LoopName() == "sim-node" {
				w.run(l)
			}
		}
		w.shows("early", "Running")
	})
}

// A node refuses what does not fit, and tells ids of what runs.
func TestRefused(t *testing.T) {
	simulate(t, func(w *world) {
		big := "containers: [{name: c, image: i, resources: {requests: {cpu: 5}}}]"
		w.pod("first", big)
		w.shows("first", "Running")
		w.pod("second", big)
		w.shows("second", "Failed OutOfcpu")
		w.told("second", "OutOfcpu Pod was rejected: Node didn't have enough resource: cpu, requested: 5000, used: 5000, capacity: 8000")
		s := resource.Get(w.Read(), kinds.Pods, "ns", "first").Status.ContainerStatuses[0]
		if !strings.HasPrefix(s.ContainerID, "sim://") || !strings.HasPrefix(s.ImageID, "sim://sha256:") || !s.Ready ||
			s.Started == nil || !*s.Started {
			t.Errorf("status %+v", s)
		}
		if err := w.Delete(w.t.Context(), kinds.Pods, "ns", "first", &metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.told("first", "Killing Stopping container c")
	})
}
