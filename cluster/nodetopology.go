package cluster

// NodeTopology says what a node's containers get for themselves, and how near to each other. The names are those of the kubelet's
// configuration; the zero value has them share all CPUs and all memory.
type NodeTopology struct {
	CPUManagerPolicy string // none or static; "": none
	// CPUManagerPolicyOptions are full-pcpus-only, distribute-cpus-across-numa, align-by-socket and strict-cpu-reservation, each
	// true or false.
	CPUManagerPolicyOptions map[string]string
	MemoryManagerPolicy     string // None or Static; "": None
	// ReservedMemory is the memory of each NUMA node that pods do not get, as 0:memory=1Gi,hugepages-2Mi=2Mi;1:memory=1Gi.
	ReservedMemory        string
	TopologyManagerPolicy string // none, best-effort, restricted or single-numa-node; "": none
	// TopologyManagerPolicyOptions are prefer-closest-numa-nodes, true or false, and max-allowable-numa-nodes, from 8 to 16.
	TopologyManagerPolicyOptions map[string]string
	TopologyManagerScope         string // container or pod; "": container
}
