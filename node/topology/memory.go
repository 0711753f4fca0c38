package topology

import (
	"errors"
	"slices"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A Block is memory of one kind that a container has on some NUMA nodes, together with others that are on the very same nodes.
type Block struct {
	On    Mask   `json:"numaAffinity"`
	Kind  string `json:"type"` // memory, hugepages-2Mi
	Bytes uint64 `json:"size"`
}

// errMemory is the kubelet's word for it.
var errMemory = errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")

// A Stock of memory: what the nodes have for pods, and what is taken.
type Stock struct {
	Machine  Machine
	Reserved map[int]map[string]uint64 // by node and kind
	Taken    []Block
}

// room counts the bytes of a kind that are free for a container on some nodes. Nodes are used alone or in one group, never in two:
// the kernel could take the memory of one group on the nodes of the other.
func (s Stock) room(on Mask, kind string) (free uint64) {
	for _, n := range on.Nodes() {
		free += s.Machine.Memory[n][kind] - min(s.Machine.Memory[n][kind], s.Reserved[n][kind])
	}
	for _, b := range s.Taken {
		switch {
		case b.On&on == 0:
		case b.On != on:
			return 0
		case b.Kind == kind:
			free -= min(free, b.Bytes)
		}
	}
	return free
}

// holds says whether nodes could hold all of what is asked, if nothing were taken.
func (s Stock) holds(on Mask, ask map[string]uint64) bool {
	return Stock{Machine: s.Machine, Reserved: s.Reserved}.fits(on, ask)
}

func (s Stock) fits(on Mask, ask map[string]uint64) bool {
	for kind, bytes := range ask {
		if s.room(on, kind) < bytes {
			return false
		}
	}
	return true
}

// Hints are the places where a container's memory can lie.
func (s Stock) Hints(ask map[string]uint64) Hints {
	return Fits(s.Machine.Nodes(), func(m Mask) bool { return s.holds(m, ask) }, func(m Mask) bool { return s.fits(m, ask) })
}

// Take chooses where a container's memory lies: on near if it can, else on as few nodes as can hold it.
func (s Stock) Take(ask map[string]uint64, near Mask) (blocks []Block, err error) {
	on := near
	if near == 0 || !s.fits(near, ask) {
		hints := s.Hints(ask)
		if len(hints) == 0 {
			return nil, errMemory
		}
		around := slices.IndexFunc(hints, func(h Hint) bool { return h.On&near == near })
		on = hints[max(around, 0)].On // the first are those of the fewest nodes
	}
	for kind, bytes := range ask {
		blocks = append(blocks, Block{On: on, Kind: kind, Bytes: bytes})
	}
	coldsort.Func(blocks, func(a, b Block) int {
		if a.Kind < b.Kind {
			return -1
		}
		return 1
	})
	return blocks, nil
}
