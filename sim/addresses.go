package sim

import (
	"encoding/binary"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// addresses hands out pod addresses of an IPv4 range. It is derived: at the first use it learns what pods have.
type addresses struct {
	first, span uint32
	mu          sync.Mutex
	used        map[uint32]string // by offset: namespace/name
	of          map[string]uint32
	next        uint32
}

// inRange hands out addresses of pods, of 10.128.0.0/9 when that is the zero prefix.
func inRange(pods netip.Prefix) *addresses {
	if !pods.IsValid() {
		pods = netip.MustParsePrefix("10.128.0.0/9")
	}
	first := pods.Masked().Addr().As4()
	return &addresses{first: binary.BigEndian.Uint32(first[:]), span: 1 << (32 - pods.Bits())}
}

// take returns the pod's address, a new one if it has none.
func (a *addresses) take(read resource.Reader, p *corev1.Pod) string {
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
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], a.first+at)
	return netip.AddrFrom4(ip).String()
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
		if err != nil || !ip.Is4() {
			continue
		}
		b := ip.As4()
		if at := binary.BigEndian.Uint32(b[:]) - a.first; at < a.span {
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
