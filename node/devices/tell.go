package devices

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/kloop-dev/kloop/node/topology"
)

// Of tells which devices a container has, those of one NUMA place together.
func (s *Stock) Of(pod types.UID, container string) (list []*podresourcesv1.ContainerDevices) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.given[pod][container]
	for _, name := range slices.Sorted(maps.Keys(by)) {
		list = append(list, s.placed(name, by[name].ids)...)
	}
	return list
}

// All tells which healthy devices the node has.
func (s *Stock) All() (list []*podresourcesv1.ContainerDevices) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.of)) {
		list = append(list, s.placed(name, s.of[name].healthy())...)
	}
	return list
}

// placed sorts devices by the nodes that they lie on. s is locked.
func (s *Stock) placed(name string, ids []string) (list []*podresourcesv1.ContainerDevices) {
	at := map[topology.Mask][]string{}
	for _, id := range ids {
		on := s.of[name].on(id)
		at[on] = append(at[on], id)
	}
	for _, on := range slices.SortedFunc(maps.Keys(at), cmp.Compare) {
		d := &podresourcesv1.ContainerDevices{ResourceName: name, DeviceIds: at[on]}
		for _, n := range on.Nodes() {
			if d.Topology == nil {
				d.Topology = &podresourcesv1.TopologyInfo{}
			}
			d.Topology.Nodes = append(d.Topology.Nodes, &podresourcesv1.NUMANode{ID: int64(n)})
		}
		list = append(list, d)
	}
	return list
}
