package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/cpuset"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/devices"
	"github.com/kloop-dev/kloop/node/dra"
	"github.com/kloop-dev/kloop/node/podresources"
	"github.com/kloop-dev/kloop/node/topology"
)

// hardware gives pods what they have for themselves alone: devices, CPUs, and memory of NUMA nodes. It is given when the node lets a pod
// in, and taken back when no process of the pod runs any more.
type hardware struct {
	devices    *devices.Stock
	checkpoint *topology.Checkpoint
	claims     *dra.Claims
	broken     error // why this machine can't give what it is to give
	pods       func() []*corev1.Pod
	log        *slog.Logger
	runtime    cri.RuntimeServiceClient

	turn chan struct{} // holds one token: who has it chooses
	wake chan struct{} // the node has other resources than it told
	move chan struct{} // containers may have to run on other CPUs
}

// claimWait is the pause before a driver is asked again to take back what a pod had.
const claimWait = 5 * time.Second

// newHardware takes up what the last agent gave. pods are the node's; who is called when the status of a pod is to be written anew.
func newHardware(cfg Config, pods func() []*corev1.Pod, who func(types.UID)) *hardware {
	log := cmp.Or(cfg.Log, slog.Default())
	h := &hardware{pods: pods, log: log, runtime: cfg.Runtime.Containers, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		move: make(chan struct{}, 1)}
	h.turn <- struct{}{}
	sys := cmp.Or(cfg.Sys, "/sys")
	if h.checkpoint, h.broken = topology.Open(cfg.Dir, sys, cfg.Topology, log); h.broken != nil {
		h.checkpoint, _ = topology.Open(cfg.Dir, sys, topology.Settings{}, log) // never fails: nothing is to be kept to
	}
	boot := firstLine("/proc/sys/kernel/random/boot_id")
	h.devices = devices.New(devices.Config{Dir: cfg.Dir, Boot: boot, Changed: h.changed, Health: who, Log: log})
	h.claims = dra.New(dra.Config{Node: cfg.Name, Dir: cfg.Dir, Boot: boot, Client: cfg.Client, Health: who, Log: log, Came: func() {
		for _, p := range pods() {
			if dra.Wants(p) && !core.Terminal(p) {
				who(p.UID)
			}
		}
	}})
	return h
}

func (h *hardware) changed() { nudge(h.wake) }

// nudge wakes the reader of a channel that holds one token, unless it is to wake anyhow.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// refuse says why a pod can't have the hardware that it asks for; nil: it has it. The reason is the kubelet's.
func (h *hardware) refuse(ctx context.Context, pod *corev1.Pod) *Rejection {
	err := h.give(ctx, pod)
	if err == nil {
		return nil
	}
	h.free(pod.UID)
	var smt topology.ErrSMT
	switch {
	case errors.Is(err, topology.ErrAffinity):
		return &Rejection{"TopologyAffinityError", err.Error()}
	case errors.As(err, &smt):
		return &Rejection{"SMTAlignmentError", err.Error()}
	}
	return &Rejection{"UnexpectedAdmissionError", fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)}
}

// give chooses a pod's hardware, if it has none yet, and asks plugins for it.
func (h *hardware) give(ctx context.Context, pod *corev1.Pod) error {
	list := h.wanting(pod)
	if len(list) == 0 {
		return nil
	}
	if err := h.choose(ctx, pod, list); err != nil {
		return err
	}
	for _, c := range list {
		if err := h.devices.Allocate(ctx, pod.UID, c.Name); err != nil {
			return err
		}
	}
	return nil
}

// wanting are the containers that ask for hardware, in the order in which they start.
func (h *hardware) wanting(pod *corev1.Pod) (list []*corev1.Container) {
	for _, l := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range l {
			if h.devices.Wants(&l[i]) || h.checkpoint.Wants(pod, &l[i]) {
				list = append(list, &l[i])
			}
		}
	}
	return list
}

// choose chooses for some containers of a pod, one pod after the other.
func (h *hardware) choose(ctx context.Context, pod *corev1.Pod, list []*corev1.Container) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-h.turn:
	}
	defer func() { h.turn <- struct{}{} }()
	for _, p := range h.pods() {
		if core.Terminal(p) { // its end may have been told before its own pass came so far
			h.free(p.UID)
		}
	}
	has := func(c *corev1.Container) bool { return h.devices.Has(pod, c) && h.checkpoint.Has(pod, c) }
	if list = slices.DeleteFunc(slices.Clone(list), has); len(list) == 0 {
		return nil
	}
	defer nudge(h.move)
	place := topology.Mask(0)
	m, _ := h.checkpoint.Machine()
	set, all := h.checkpoint.Settings(), m.Nodes()
	if set.PodScope {
		var err error
		if place, err = set.Merge(m, slices.Concat(h.checkpoint.PodHints(pod), h.devices.PodHints(all, pod))); err != nil {
			return err
		}
	}
	for _, c := range list {
		if !set.PodScope {
			var err error
			if place, err = set.Merge(m, slices.Concat(h.checkpoint.Hints(pod, c), h.devices.Hints(all, pod, c))); err != nil {
				return err
			}
		}
		if err := errors.Join(h.checkpoint.Take(pod, c, place), h.devices.Take(ctx, pod, c, place)); err != nil {
			return err
		}
	}
	return nil
}

// start makes the hardware of a container ready, and returns how it gets it.
func (h *hardware) start(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (devices.Options, error) {
	if h.devices.Wants(c) { // of a pod that was let in when nobody counted devices
		if err := h.choose(ctx, pod, []*corev1.Container{c}); err != nil {
			return devices.Options{}, err
		}
	}
	o, err := h.devices.Start(ctx, pod.UID, c.Name)
	for _, name := range h.claims.CDI(pod, c) {
		o.CDI = append(o.CDI, &cri.CDIDevice{Name: name})
	}
	if err == nil && len(o.CDI) > 0 {
		err = knowsCDI(ctx, h.runtime)
	}
	return o, err
}

// free takes back what a pod has.
func (h *hardware) free(pod types.UID) {
	h.devices.Free(pod)
	h.freed(h.checkpoint.Free(pod))
}

// keep takes back what all pods have but those.
func (h *hardware) keep(used map[types.UID]bool) {
	h.devices.Keep(used)
	h.freed(h.checkpoint.Keep(used))
}

func (h *hardware) freed(err error) {
	if err != nil {
		h.log.Warn("the next agent will not know what is free", "err", err)
	}
	nudge(h.move)
}

// count writes into a Node's status what there is.
func (h *hardware) count(st *corev1.NodeStatus) {
	capacity, allocatable := h.devices.Resources()
	maps.Copy(st.Capacity, capacity)
	maps.Copy(st.Allocatable, allocatable)
}

// uncounted leaves out what is counted here, one by one: what the Node's status says of it comes late.
func (h *hardware) uncounted(list corev1.ResourceList) corev1.ResourceList {
	own, _ := h.devices.Resources()
	if len(own) == 0 {
		return list
	}
	list = maps.Clone(list)
	maps.DeleteFunc(list, func(name corev1.ResourceName, _ apiresource.Quantity) bool {
		_, ours := own[name]
		return ours
	})
	return list
}

// runHardware answers the plugins of the node, and those who ask about them, until ctx ends. A node whose sockets can't be made runs
// pods all the same.
func (a *Agent) runHardware(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { a.node.tellHardware(ctx) })
	wg.Go(func() { a.hardware.claims.Run(ctx) })
	wg.Go(func() {
		err := podresources.Run(ctx, podresources.Config{Dir: a.cfg.Dir, Pods: a.pods, Of: a.hardware.of, All: a.hardware.all})
		if err != nil && ctx.Err() == nil {
			a.log.Error("nobody can ask which container has which devices", "err", err)
		}
	})
	if err := a.hardware.devices.Run(ctx); err != nil && ctx.Err() == nil {
		a.log.Error("no device plugin can register here", "err", err)
	}
}

// of tells what a container has for itself.
func (h *hardware) of(pod *corev1.Pod, c *corev1.Container) *podresourcesv1.ContainerResources {
	r := &podresourcesv1.ContainerResources{Name: c.Name, Devices: h.devices.Of(pod.UID, c.Name)}
	r.DynamicResources = h.claims.Of(pod, c)
	has := h.checkpoint.Of(pod.UID, c.Name)
	r.CpuIds = numbers(has.CPUs)
	for _, b := range has.Memory {
		r.Memory = append(r.Memory, memoryOn(b.On, b.Kind, b.Bytes))
	}
	return r
}

func numbers(set cpuset.CPUSet) (list []int64) {
	for _, id := range set.List() {
		list = append(list, int64(id))
	}
	return list
}

func memoryOn(on topology.Mask, kind string, bytes uint64) *podresourcesv1.ContainerMemory {
	m := &podresourcesv1.ContainerMemory{MemoryType: kind, Size: bytes, Topology: &podresourcesv1.TopologyInfo{}}
	for _, n := range on.Nodes() {
		m.Topology.Nodes = append(m.Topology.Nodes, &podresourcesv1.NUMANode{ID: int64(n)})
	}
	return m
}

// all tells what containers can have for themselves.
func (h *hardware) all() *podresourcesv1.AllocatableResourcesResponse {
	m, reserved := h.checkpoint.Machine()
	r := &podresourcesv1.AllocatableResourcesResponse{Devices: h.devices.All(), CpuIds: numbers(m.All().Difference(reserved))}
	set := h.checkpoint.Settings()
	for _, n := range slices.Sorted(maps.Keys(m.Memory)) {
		for _, kind := range slices.Sorted(maps.Keys(m.Memory[n])) {
			if all := m.Memory[n][kind]; set.StaticMemory && all > 0 {
				r.Memory = append(r.Memory, memoryOn(topology.MaskOf(n), kind, all-min(all, set.ReservedMemory[n][kind])))
			}
		}
	}
	return r
}

// tellHardware writes the node's status whenever its hardware changes.
func (ns *nodeStatus) tellHardware(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ns.hardware.wake:
		}
		if err := ns.writeStatus(ctx); err != nil && ctx.Err() == nil {
			ns.complain("write the node's status", err)
		}
	}
}

// wakePod has the status of a pod told anew.
func (c *common) wakePod(uid types.UID) {
	for _, p := range c.pods() {
		if p.UID == uid {
			c.wake(p.Namespace, p.Name, "hardware")
		}
	}
}

// allocatedStatus tells the health of a container's hardware. What was told stays when the pod has ended.
func (m *statuses) allocatedStatus(pod *corev1.Pod, c *corev1.Container) []corev1.ResourceStatus {
	list := append(m.hardware.devices.Status(pod.UID, c.Name), m.hardware.claims.Status(pod, c)...)
	if old := previous(pod, c.Name); list == nil && old != nil {
		return old.AllocatedResourcesStatus
	}
	return list
}

// knowsCDI refuses a runtime that would leave out CDI devices without a word: a container would run without what it was promised.
func knowsCDI(ctx context.Context, rt cri.RuntimeServiceClient) error {
	v, err := rt.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return fmt.Errorf("ask the runtime for its version: %w", err)
	}
	if v.RuntimeName == "containerd" && olderThan(v.RuntimeVersion, 1, 7) {
		return fmt.Errorf("containerd %s can't give containers CDI devices: it takes 1.7 or newer", v.RuntimeVersion)
	}
	return nil
}

// equip adds to a container what its hardware needs. What the pod's spec says itself goes first.
func equip(conf *cri.ContainerConfig, o devices.Options) {
	for _, e := range o.Env {
		if !slices.ContainsFunc(conf.Envs, func(have *cri.KeyValue) bool { return have.Key == e.Key }) {
			conf.Envs = append(conf.Envs, e)
		}
	}
	for _, m := range o.Mounts {
		if !slices.ContainsFunc(conf.Mounts, func(have *cri.Mount) bool { return have.ContainerPath == m.ContainerPath }) {
			conf.Mounts = append(conf.Mounts, m)
		}
	}
	conf.Devices = append(conf.Devices, o.Devices...)
	conf.CDIDevices = append(conf.CDIDevices, o.CDI...)
	for k, v := range o.Notes {
		if _, own := conf.Annotations[k]; !own {
			conf.Annotations[k] = v
		}
	}
}
