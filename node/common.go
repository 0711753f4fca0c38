package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/meter"
	"github.com/kloop-dev/kloop/node/pullrecord"
	"github.com/kloop-dev/kloop/node/selinux"
	"github.com/kloop-dev/kloop/resource"
)

// common holds what every part of the agent needs: its configuration, its work in the background, and the places of files.
type common struct {
	cfg     Config
	log     *slog.Logger
	wakes   *loop.ExternalWakes
	backoff *backoffs
	cgroups *cgroup.Tree
	tasks   *tasks
	terms   terms
	down    atomic.Bool // the machine is shutting down

	patience *patience

	hardware *hardware
	meter    *meter.Meter
	pulled   *pullrecord.Store
}

// tasks are goroutines beside the loop's: pulls, and containers that take their grace to stop. They end with Run.
type tasks struct {
	mu  sync.Mutex
	ctx context.Context // of Run; nil: not begun, or over
	wg  sync.WaitGroup
}

// run lets tasks begin until ctx ends, and then waits for them when the returned function is called.
func (t *tasks) run(ctx context.Context) (wait func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx = ctx
	return func() {
		t.mu.Lock()
		t.ctx = nil
		t.mu.Unlock()
		t.wg.Wait()
	}
}

// begin runs f beside the loop. false: the agent does not run.
func (t *tasks) begin(f func(ctx context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil || t.ctx.Err() != nil {
		return false
	}
	ctx := t.ctx
	t.wg.Go(func() { f(ctx) })
	return true
}

func (c *common) event(pod *corev1.Pod, container, typ, reason, format string, args ...any) {
	ref := corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion}
	if container != "" {
		ref.FieldPath = fmt.Sprintf("spec.containers{%s}", container)
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container }) {
			ref.FieldPath = fmt.Sprintf("spec.initContainers{%s}", container)
		}
		if slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == container }) {
			ref.FieldPath = fmt.Sprintf("spec.ephemeralContainers{%s}", container)
		}
	}
	c.cfg.Events.Ref(ref, typ, reason, format, args...)
}

// nodeEvent tells something about the Node. Before that is known its events have no UID, as the kubelet's.
func (c *common) nodeEvent(typ, reason, format string, args ...any) {
	ref := corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: c.cfg.Name}
	if n := resource.Get(c.cfg.Client.Read(), kinds.Nodes, "", c.cfg.Name); n != nil {
		ref.UID = n.UID
	}
	c.cfg.Events.Ref(ref, typ, reason, format, args...)
}

func (c *common) wake(ns, name, why string) {
	c.wakes.Wake(loop.Key{Kind: kinds.Pods, Namespace: ns, Name: name}, why)
}

// pods lists the node's pods.
func (c *common) pods() []*corev1.Pod {
	return resource.Where(c.cfg.Client.Read(), kinds.Pods, "spec.nodeName", c.cfg.Name)
}

// podDir holds a pod's files.
func (c *common) podDir(uid types.UID) string {
	return filepath.Join(c.cfg.Dir, "pods", string(uid))
}

func (c *common) makeDirs(pod *corev1.Pod) error {
	if err := os.MkdirAll(c.podDir(pod.UID), 0o750); err != nil {
		return fmt.Errorf("make the pod's directory: %w", err)
	}
	return nil
}

func (c *common) logDir(pod *corev1.Pod) string {
	return filepath.Join(c.cfg.LogDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

func (c *common) lastWords(pod *corev1.Pod, name string, try int32) string {
	return filepath.Join(c.podDir(pod.UID), "containers", name, strconv.Itoa(int(try)))
}

// cgroup is the pod's group, the parent of its containers'.
func (c *common) cgroup(pod *corev1.Pod) string { return c.cgroups.Pod(pod.Status.QOSClass, pod.UID) }

// capacity counts the resources of the machine.
func (c *common) capacity() corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *apiresource.NewQuantity(int64(c.hardware.countCPUs()), apiresource.DecimalSI),
		corev1.ResourceMemory: *apiresource.NewQuantity(totalMemory(), apiresource.BinarySI),
		corev1.ResourcePods:   *apiresource.NewQuantity(int64(c.cfg.MaxPods), apiresource.DecimalSI),
	}
	maps.Copy(list, hugePages(hugePagesDir))
	var fs unix.Statfs_t
	if err := unix.Statfs(c.cfg.Dir, &fs); err == nil {
		list[corev1.ResourceEphemeralStorage] = *apiresource.NewQuantity(int64(fs.Blocks)*int64(fs.Bsize), apiresource.DecimalSI)
	}
	return list
}

// allocatable bounds the sum of all that pods ask for. Devices are not in it: they are given one by one.
func (c *common) allocatable() corev1.ResourceList {
	if n := resource.Get(c.cfg.Client.Read(), kinds.Nodes, "", c.cfg.Name); n != nil && len(n.Status.Allocatable) > 0 {
		return c.hardware.uncounted(n.Status.Allocatable)
	}
	return c.spare(c.capacity())
}

// memory returns the bytes that pods can have of it together.
func (c *common) memory() int64 {
	list := c.allocatable()
	return list.Memory().Value()
}

// labels is the machine's policy of SELinux; nil: it has none.
func (c *common) labels() *selinux.Policy {
	p, err := selinux.Read()
	if err != nil {
		c.log.Warn("volumes get no label by a mount option", "err", err)
	}
	return p
}

// spare counts the resources of the machine that pods can have.
func (c *common) spare(capacity corev1.ResourceList) corev1.ResourceList {
	return spare(capacity, c.cfg.Resources.reserved(), c.cfg.Eviction)
}
