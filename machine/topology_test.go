package machine

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/node"
	"github.com/kloop-dev/kloop/node/topology"
)

func TestNodeTopology(t *testing.T) {
	cfg := node.Config{Resources: node.Resources{ReservedSystemCPUs: "0"}}
	good := cluster.NodeTopology{CPUManagerPolicy: "static", CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "true"},
		MemoryManagerPolicy: "Static", ReservedMemory: "0:memory=1Gi,hugepages-2Mi=2Mi;1:memory=2Gi",
		TopologyManagerPolicy: "single-numa-node", TopologyManagerScope: "pod"}
	if err := place(good, &cfg); err != nil {
		t.Fatal(err)
	}
	s := cfg.Topology
	if !s.StaticCPUs || !s.CPUs.FullPCPUsOnly || !s.StaticMemory || s.ReservedMemory[0]["hugepages-2Mi"] != 2<<20 ||
		s.ReservedMemory[1]["memory"] != 2<<30 || s.Policy != topology.SingleNUMA || !s.PodScope || s.ReservedCPUs != "0" {
		t.Errorf("%+v", s)
	}
	if err := place(cluster.NodeTopology{}, &node.Config{}); err != nil {
		t.Errorf("nothing set: %v", err)
	}
	for want, bad := range map[string]cluster.NodeTopology{
		"needs CPUs for the system":    {CPUManagerPolicy: "static"},
		`cpuManagerPolicy "exclusive"`: {CPUManagerPolicy: "exclusive"},
		"there is no align-by-node":    {CPUManagerPolicyOptions: map[string]string{"align-by-node": "true"}},
		"align-by-socket contradicts": {CPUManagerPolicyOptions: map[string]string{"align-by-socket": "true"},
			TopologyManagerPolicy: "single-numa-node"},
		"prefer-closest-numa-nodes=x":     {TopologyManagerPolicyOptions: map[string]string{"prefer-closest-numa-nodes": "x"}},
		"from 8 to 16":                    {TopologyManagerPolicyOptions: map[string]string{"max-allowable-numa-nodes": "99"}},
		"there is no closest":             {TopologyManagerPolicyOptions: map[string]string{"closest": "true"}},
		"full-pcpus-only=x: want true":    {CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "x"}},
		"Static needs reservedMemory":     {MemoryManagerPolicy: "Static"},
		`"64:memory=1": want one NUMA`:    {ReservedMemory: "64:memory=1"},
		`"0:memory=2": want one NUMA`:     {ReservedMemory: "0:memory=1;0:memory=2"},
		`"cpu=1": want memory=QUANTITY`:   {ReservedMemory: "0:cpu=1"},
		`"memory=-1": want memory=`:       {ReservedMemory: "0:memory=-1"},
		`topologyManagerPolicy "strict"`:  {TopologyManagerPolicy: "strict"},
		`topologyManagerScope "node": wa`: {TopologyManagerScope: "node"},
	} {
		if err := place(bad, &node.Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", bad, err, want)
		}
	}
}
