// Package topology decides which CPUs, memory and devices of a machine a container gets, by the NUMA nodes that they lie on.
//
// All of it is pure but for Read, which reads the machine from sysfs. The rules are those of the kubelet's topology, CPU and memory
// managers (KEP-693, KEP-3570, KEP-1769).
package topology

import (
	"encoding/json"
	"math/bits"
)

// A Mask is a set of NUMA nodes. Nodes have numbers from 0 to 63; the empty mask means that it does not matter.
type Mask uint64

// MaskOf holds the nodes. Numbers that no mask can hold are left out.
func MaskOf(nodes ...int) (m Mask) {
	for _, n := range nodes {
		if n >= 0 && n < 64 {
			m |= 1 << n
		}
	}
	return m
}

// Has says that the node is in the set.
func (m Mask) Has(node int) bool { return node >= 0 && node < 64 && m&(1<<node) != 0 }

// Count is the number of nodes.
func (m Mask) Count() int { return bits.OnesCount64(uint64(m)) }

// Nodes lists the nodes in ascending order.
func (m Mask) Nodes() (list []int) {
	for n := range 64 {
		if m.Has(n) {
			list = append(list, n)
		}
	}
	return list
}

// narrower says that m is the better of two sets: it has fewer nodes, or of equally many the lower ones.
func (m Mask) narrower(o Mask) bool {
	if m.Count() != o.Count() {
		return m.Count() < o.Count()
	}
	return m < o
}

// MarshalJSON writes the nodes as a list, as the kubelet does.
func (m Mask) MarshalJSON() ([]byte, error) { return json.Marshal(m.Nodes()) }

// UnmarshalJSON reads a list of nodes.
func (m *Mask) UnmarshalJSON(text []byte) error {
	var nodes []int
	if err := json.Unmarshal(text, &nodes); err != nil {
		return err
	}
	*m = MaskOf(nodes...)
	return nil
}
