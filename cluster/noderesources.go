package cluster

import "time"

// NodeResources says what a node keeps from its pods, and how it limits them. The names are those of the kubelet's configuration; the
// zero value keeps nothing.
type NodeResources struct {
	// SystemReserved and KubeReserved are quantities of cpu, memory, ephemeral-storage and pid.
	SystemReserved, KubeReserved map[string]string
	ReservedSystemCPUs           string // CPUs for the system, as 0-1,4; instead of reserved cpu

	// CgroupRoot is the cgroup in which that of all pods is, as /kloop; agents that share a machine have one each. "": the topmost.
	CgroupRoot string

	// MaxContainerRestartPeriod is the longest pause of a crash loop, from a second to five minutes; 0: five minutes.
	MaxContainerRestartPeriod time.Duration

	PodPidsLimit int // processes of one pod; 0 and below: no limit

	SwapBehavior            string // NoSwap or LimitedSwap; "": NoSwap
	MemoryReservationPolicy string // None or TieredReservation; "": None
	MemoryThrottlingFactor  string // a number above 0 and at most 1; "": memory is not slowed down before its limit
}
