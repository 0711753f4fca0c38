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

	// CgroupDriver makes the cgroups: cgroupfs, by agent and runtime, or systemd. "": as the runtime has it.
	CgroupDriver string

	// MaxContainerRestartPeriod is the longest pause of a crash loop, from a second to five minutes; 0: five minutes.
	MaxContainerRestartPeriod time.Duration

	MaxPods              int      // 0: 110
	AllowedUnsafeSysctls []string // that pods may set beside the safe ones; a star at the end stands for any rest

	ContainerLogMaxSize  string // of a file, as 10Mi, which it is for ""
	ContainerLogMaxFiles int    // of a container, the current one included; 0: 5

	PodPidsLimit int // processes of one pod; 0 and below: no limit

	SwapBehavior            string // NoSwap or LimitedSwap; "": NoSwap
	MemoryReservationPolicy string // None or TieredReservation; "": None
	MemoryThrottlingFactor  string // a number above 0 and at most 1; "": memory is not slowed down before its limit
}

// NodeImages says how a node gets images, who may have those that are there, and when they go. The names are those of the kubelet's
// configuration.
type NodeImages struct {
	MinimumGCAge, MaximumGCAge time.Duration // 0: two minutes; 0: images go by the disk alone

	MaxParallelPulls int // 0: 4

	// CredentialProviderConfig names plugins that know credentials of registries: a file, or a directory of files, in the form of
	// the kubelet's CredentialProviderConfig. Their programs are in CredentialProviderBinDir. "": there are none.
	CredentialProviderConfig, CredentialProviderBinDir string

	Registries string // file in the form of k3s' registries.yaml; "": images come from where their names say

	// VerificationPolicy is imagePullCredentialsVerificationPolicy: for which images a pod must show its credentials although they are on
	// disk; "": for those that were pulled. PreloadedAllowlist are names that NeverVerifyAllowlistedImages lets pass.
	VerificationPolicy string
	PreloadedAllowlist []string
}
