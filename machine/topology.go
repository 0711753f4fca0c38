package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/node"
	"github.com/kloop-dev/kloop/node/topology"
	"github.com/kloop-dev/kloop/resource"
)

// place fills in an agent's configuration, whose reserved resources are there, or says what can't be meant.
func place(n cluster.NodeTopology, cfg *node.Config) (err error) {
	t := &cfg.Topology
	if t.StaticCPUs, err = either("cpuManagerPolicy", n.CPUManagerPolicy, "none", "static"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(n.CPUManagerPolicyOptions)) {
		to := map[string]*bool{"full-pcpus-only": &t.CPUs.FullPCPUsOnly, "distribute-cpus-across-numa": &t.CPUs.DistributeCPUsAcrossNUMA,
			"align-by-socket": &t.CPUs.AlignBySocket, "strict-cpu-reservation": &t.CPUs.StrictCPUReservation}[name]
		if to == nil {
			return fmt.Errorf("cpuManagerPolicyOptions: there is no %s: use full-pcpus-only, distribute-cpus-across-numa, "+
				"align-by-socket and strict-cpu-reservation", name)
		}
		if *to, err = strconv.ParseBool(n.CPUManagerPolicyOptions[name]); err != nil {
			return fmt.Errorf("cpuManagerPolicyOptions: %s=%s: want true or false", name, n.CPUManagerPolicyOptions[name])
		}
	}
	if t.StaticMemory, err = either("memoryManagerPolicy", n.MemoryManagerPolicy, "None", "Static"); err != nil {
		return err
	}
	if t.ReservedMemory, err = reservedMemory(n.ReservedMemory); err != nil {
		return err
	}
	if t.StaticMemory && len(t.ReservedMemory) == 0 {
		return errors.New("memoryManagerPolicy Static needs reservedMemory: what the system uses of each NUMA node, as 0:memory=1Gi")
	}
	t.Policy = topology.Policy(n.TopologyManagerPolicy)
	if err := t.Policy.Check(); err != nil {
		return err
	}
	if t.CPUs.AlignBySocket && t.Policy == topology.SingleNUMA {
		return errors.New("cpuManagerPolicyOptions: align-by-socket contradicts topologyManagerPolicy single-numa-node")
	}
	if err := topologyOptions(n.TopologyManagerPolicyOptions, t); err != nil {
		return err
	}
	if t.PodScope, err = either("topologyManagerScope", n.TopologyManagerScope, "container", "pod"); err != nil {
		return err
	}
	r := cfg.Resources
	t.ReservedCPUs = r.ReservedSystemCPUs
	t.ReservedCPU = r.SystemReserved.Cpu().MilliValue() + r.KubeReserved.Cpu().MilliValue()
	if t.StaticCPUs && t.ReservedCPUs == "" && t.ReservedCPU == 0 {
		return errors.New("cpuManagerPolicy static needs CPUs for the system: set reservedSystemCPUs, or cpu in systemReserved or kubeReserved")
	}
	return nil
}

// topologyOptions reads the topology manager's.
func topologyOptions(options map[string]string, t *topology.Settings) (err error) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value := options[name]
		switch name {
		case "prefer-closest-numa-nodes":
			if t.PreferClosest, err = strconv.ParseBool(value); err != nil {
				return fmt.Errorf("topologyManagerPolicyOptions: %s=%s: want true or false", name, value)
			}
		case "max-allowable-numa-nodes":
			if t.MaxNodes, err = strconv.Atoi(value); err != nil || t.MaxNodes < topology.MaxNodes || t.MaxNodes > topology.MostNodes {
				return fmt.Errorf("topologyManagerPolicyOptions: %s=%s: want a number from %d to %d", name, value,
					topology.MaxNodes, topology.MostNodes)
			}
		default:
			return fmt.Errorf("topologyManagerPolicyOptions: there is no %s: use prefer-closest-numa-nodes and max-allowable-numa-nodes", name)
		}
	}
	return nil
}

// reservedMemory reads amounts by NUMA node.
func reservedMemory(text string) (map[int]map[string]uint64, error) {
	all := map[int]map[string]uint64{}
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		id, list, ok := strings.Cut(part, ":")
		n, err := strconv.ParseUint(id, 10, 6)
		if !ok || err != nil || all[int(n)] != nil {
			return nil, fmt.Errorf("reservedMemory %q: want one NUMA node below 64, a colon and amounts, as 0:memory=1Gi", part)
		}
		all[int(n)] = map[string]uint64{}
		for pair := range strings.SplitSeq(list, ",") {
			kind, amount, _ := strings.Cut(pair, "=")
			q, err := resource.ParseQuantity(amount)
			if err != nil || q.Sign() < 0 || kind != "memory" && !strings.HasPrefix(kind, "hugepages-") {
				return nil, fmt.Errorf("reservedMemory %q: want memory=QUANTITY or hugepages-SIZE=QUANTITY", pair)
			}
			all[int(n)][kind] = uint64(q.Value())
		}
	}
	return all, nil
}
