package devices

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kloop-dev/kloop/node/topology"
)

// A choice is all that the choice of devices for one container depends on.
type choice struct {
	resource string
	need     int
	spare    []string                 // the container may use them along with the pod's init containers, which have ended by then
	free     []string                 // healthy, and nobody's
	on       map[string]topology.Mask // where devices lie; 0: it does not matter
	near     topology.Mask            // where they should lie; 0: anywhere
	prefer   func(from, must []string, need int) []string
}

// make chooses: first what the pod has anyhow, then what lies near, and among equals what the plugin prefers.
func (c choice) make() (ids []string, err error) {
	take := func(from []string) (enough bool) {
		for _, id := range from {
			if len(ids) < c.need && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return len(ids) == c.need
	}
	if take(c.spare) {
		return ids, nil
	}
	free := without(c.free, ids)
	if missing := c.need - len(ids); len(free) < missing {
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", c.resource, missing, len(free))
	}
	near, far := c.split(free)
	if len(near) > c.need-len(ids) {
		if !take(intersect(c.prefer(slices.Concat(ids, near), ids, c.need), near)) {
			take(near)
		}
		return ids, nil
	}
	if take(near) {
		return ids, nil
	}
	rest := without(free, ids)
	if take(intersect(c.prefer(slices.Concat(ids, rest), ids, c.need), rest)) || take(far) {
		return ids, nil
	}
	return nil, errors.New("fewer devices than there should be") // free was counted above
}

// split tells the devices that lie near from all others: first those that lie elsewhere, then those that lie nowhere.
func (c choice) split(free []string) (near, far []string) {
	var nowhere []string
	for _, id := range free {
		switch on := c.on[id]; {
		case on == 0:
			nowhere = append(nowhere, id)
		case c.near != 0 && on&c.near != 0:
			near = append(near, id)
		default:
			far = append(far, id)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return c.on[a].Count() - c.on[b].Count() }) // what lies on one node alone first
	if c.near == 0 {
		return nil, free
	}
	return near, append(far, nowhere...)
}

func without(list, some []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(some, s) })
}

func intersect(list, all []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !slices.Contains(all, s) })
}
