package sim

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// addresses hands out pod addresses of one range, or of two, one of each family: a pod has the same place in both. It is derived: at the
// first use it learns what pods have.
type addresses struct {
	ranges []netip.Addr // the first address of each
	span   uint32       // of the smallest
	mu     sync.Mutex
	used   map[uint32]string // by offset: namespace/name
	of     map[string]uint32
	next   uint32
}

// inRanges hands out addresses of pods, of 10.128.0.0/9 when there are no ranges.
func inRanges(pods []netip.Prefix) *addresses {
	if len(pods) == 0 {
		pods = []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}
	}
	a := &addresses{span: 1 << most4}
	for _, p := range pods {
		a.ranges = append(a.ranges, p.Masked().Addr())
		a.span = min(a.span, 1<<min(p.Addr().BitLen()-p.Bits(), most4))
	}
	a.span = max(a.span, 3) // the first and the last are nobody's
	return a
}

// most4 is the number of bits in which pods of a range differ, at most.
const most4 = 31

// hosts are the addresses that all simulated nodes have, of the pods' families, and in that order.
func (a *addresses) hosts() (list []string) {
	for _, first := range a.ranges {
		if first.Is4() {
			list = append(list, hostIP)
		} else {
			list = append(list, hostIPv6)
		}
	}
	return list
}

// take returns the pod's addresses, new ones if it has none.
func (a *addresses) take(read resource.Reader, p *corev1.Pod) (list []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used == nil {
		a.learn(read)
	}
	key := p.Namespace + "/" + p.Name
	at, ok := a.of[key]
	if !ok {
		at = a.unused()
		a.used[at], a.of[key] = key, at
	}
	for _, first := range a.ranges {
		b := first.AsSlice()
		low := b[len(b)-4:]
		binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+at)
		ip, _ := netip.AddrFromSlice(b)
		list = append(list, ip.String())
	}
	return list
}

// place is the offset of an address in the range that holds it.
func (a *addresses) place(ip netip.Addr) (at uint32, ok bool) {
	for _, first := range a.ranges {
		if first.BitLen() != ip.BitLen() {
			continue
		}
		low, from := ip.AsSlice(), first.AsSlice()
		n := len(low) - 4
		at = binary.BigEndian.Uint32(low[n:]) - binary.BigEndian.Uint32(from[n:])
		if bytes.Equal(low[:n], from[:n]) && at < a.span {
			return at, true
		}
	}
	return 0, false
}

// unused finds a free offset. When there is none, two pods share an address.
func (a *addresses) unused() uint32 {
	for range a.span {
		a.next = a.next%(a.span-2) + 1 // neither the first nor the last
		if _, taken := a.used[a.next]; !taken {
			break
		}
	}
	return a.next
}

func (a *addresses) learn(read resource.Reader) {
	a.used, a.of = map[uint32]string{}, map[string]uint32{}
	for obj := range read.Each(kinds.Pods, "") {
		p := obj.(*corev1.Pod)
		ip, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil {
			continue
		}
		if at, ok := a.place(ip); ok {
			key := p.Namespace + "/" + p.Name
			a.used[at], a.of[key] = key, at
		}
	}
}

// count returns the number of pods that have an address.
func (a *addresses) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.of)
}

func (a *addresses) free(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.of[key]; ok {
		delete(a.of, key)
		delete(a.used, at)
	}
}
