package node

import (
	"context"
	goruntime "runtime"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"
)

// placeEvery is the interval at which the CPUs of all containers are compared with what they should be, as in the kubelet.
const placeEvery = 10 * time.Second

// A placer keeps containers on their CPUs (the CPU manager's second half): those that have some for themselves on these, all others on
// what is left.
//
//	observe  the containers that run
//	decide   the CPUs of each: hardware.cpus
//	act      tell the runtime of those that it was not told of yet
type placer struct {
	*common
	told map[string]string // CPUs by container, as the runtime was told last
}

// run places containers until ctx ends. It does nothing where all share all CPUs.
func (p *placer) run(ctx context.Context) {
	checkpoint := p.hardware.checkpoint
	if !checkpoint.Settings().StaticCPUs && !checkpoint.Left() {
		return
	}
	for {
		err := p.pass(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.Warn("place containers on CPUs", "err", err, "again", placeEvery)
		}
		if err == nil && checkpoint.Left() {
			if err := checkpoint.Widened(); err != nil {
				p.log.Warn("forget who had which CPUs", "err", err)
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-p.hardware.move:
		case <-time.After(placeEvery):
		}
	}
}

func (p *placer) pass(ctx context.Context) error {
	rt := p.cfg.Runtime.Containers
	running := &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}
	res, err := rt.ListContainers(ctx, &cri.ListContainersRequest{Filter: running})
	if err != nil {
		return err
	}
	told := map[string]string{}
	for _, c := range res.Containers {
		uid, ours := c.Labels[labelUID]
		if c.State != cri.ContainerState_CONTAINER_RUNNING || !ours {
			continue
		}
		want := p.hardware.cpus(types.UID(uid), c.Labels[labelContainer]).String()
		if told[c.Id] = want; p.told[c.Id] == want || want == "" { // no container can run on none
			continue
		}
		_, err := rt.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: c.Id,
			Linux: &cri.LinuxContainerResources{CpusetCpus: want}})
		if err != nil && status.Code(err) != codes.NotFound { // it has just ended
			return err
		}
	}
	p.told = told
	return nil
}

// countCPUs counts the machine's CPUs: where they are given one by one, those that can be.
func (h *hardware) countCPUs() int {
	if m, _ := h.checkpoint.Machine(); h.checkpoint.Settings().StaticCPUs {
		return len(m.CPUs)
	}
	return goruntime.NumCPU()
}

// cpus are those that a container runs on: its own, or all that nobody has for itself.
func (h *hardware) cpus(pod types.UID, container string) cpuset.CPUSet {
	if own := h.checkpoint.Of(pod, container).CPUs; !own.IsEmpty() {
		return own
	}
	return h.checkpoint.Shared()
}

// place writes into a new container's resources on which CPUs it runs, and on which NUMA nodes its memory lies. A container that has CPUs
// for itself gets no quota: it would only be slowed down.
func (h *hardware) place(pod types.UID, container string, r *cri.LinuxContainerResources) {
	set := h.checkpoint.Settings()
	has := h.checkpoint.Of(pod, container)
	if set.StaticCPUs {
		r.CpusetCpus = h.cpus(pod, container).String()
		if !has.CPUs.IsEmpty() {
			r.CpuQuota = -1
		}
	}
	var nodes []int
	for _, b := range has.Memory {
		nodes = append(nodes, b.On.Nodes()...)
	}
	if len(nodes) > 0 {
		r.CpusetMems = cpuset.New(nodes...).String()
	}
}

// fixed says why a pod's resources can't change while it runs, in the kubelet's words; "": they can.
func (h *hardware) fixed(pod *corev1.Pod) string {
	switch set := h.checkpoint.Settings(); {
	case pod.Status.QOSClass != corev1.PodQOSGuaranteed:
		return ""
	case set.StaticCPUs:
		return "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"
	case set.StaticMemory:
		return "Resize is infeasible for Guaranteed Pods alongside Memory Manager static policy"
	}
	return ""
}
