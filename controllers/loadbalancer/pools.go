package loadbalancer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// poolSpec is the spec of an IPAddressPool of metallb.io/v1beta1, field by field.
type poolSpec struct {
	Addresses         []string `json:"addresses"`
	AutoAssign        *bool    `json:"autoAssign"`
	AvoidBuggyIPs     bool     `json:"avoidBuggyIPs"`
	ServiceAllocation *struct {
		Priority           int                    `json:"priority"`
		Namespaces         []string               `json:"namespaces"`
		NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors"`
		ServiceSelectors   []metav1.LabelSelector `json:"serviceSelectors"`
	} `json:"serviceAllocation"`
}

// poolStatus is its status.
type poolStatus struct {
	AssignedIPv4  int64 `json:"assignedIPv4"`
	AssignedIPv6  int64 `json:"assignedIPv6"`
	AvailableIPv4 int64 `json:"availableIPv4"`
	AvailableIPv6 int64 `json:"availableIPv6"`
}

// A pool is an IPAddressPool, read.
type pool struct {
	object resource.Object // as it is stored; nil in tests
	name   string
	labels labels.Set
	status poolStatus // as it is stored
	want   poolStatus

	ranges     []span
	auto       bool
	avoidBuggy bool

	pinned     bool // to namespaces or services
	priority   int  // lower first, but 0 last
	namespaces []string
	spaces     []labels.Selector // of namespaces
	services   []labels.Selector

	broken string // why it gives no address; "": it does
}

// A span is the addresses from first to last.
type span struct{ first, last netip.Addr }

// parseSpan reads FIRST-LAST or a CIDR.
func parseSpan(text string) (span, error) {
	if a, b, ok := strings.Cut(text, "-"); ok {
		first, err := netip.ParseAddr(strings.TrimSpace(a))
		last, lerr := netip.ParseAddr(strings.TrimSpace(b))
		if err != nil || lerr != nil || first.Is4() != last.Is4() || last.Less(first) || first.Zone() != "" || last.Zone() != "" {
			return span{}, fmt.Errorf("%q is no range: use FIRST-LAST of one family", text)
		}
		return span{first, last}, nil
	}
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return span{}, fmt.Errorf("%q is neither a CIDR nor FIRST-LAST", text)
	}
	first := p.Masked().Addr()
	raw := first.AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(raw)
	return span{first, last}, nil
}

func (s span) has(a netip.Addr) bool {
	return a.BitLen() == s.first.BitLen() && !a.Less(s.first) && !s.last.Less(a)
}

func (s span) overlaps(o span) bool { return s.has(o.first) || o.has(s.first) }

// size counts the addresses, as far as they can be counted.
func (s span) size() int64 {
	n := new(big.Int).Sub(new(big.Int).SetBytes(s.last.AsSlice()), new(big.Int).SetBytes(s.first.AsSlice()))
	if n.Add(n, big.NewInt(1)); !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

func (p *pool) has(a netip.Addr) bool {
	return slices.ContainsFunc(p.ranges, func(s span) bool { return s.has(a) })
}

// buggy says that an address looks like that of a network or a broadcast to old devices.
func buggy(a netip.Addr) bool {
	last := a.AsSlice()[a.BitLen()/8-1]
	return a.Is4() && (last == 0 || last == 255)
}

// newPool reads an IPAddressPool. What can't be understood makes it broken, and nothing else.
func newPool(name string, set labels.Set, spec poolSpec) *pool {
	p := &pool{name: name, labels: set, auto: spec.AutoAssign == nil || *spec.AutoAssign, avoidBuggy: spec.AvoidBuggyIPs}
	if len(spec.Addresses) == 0 {
		p.broken = "spec.addresses is empty"
	}
	for _, text := range spec.Addresses {
		s, err := parseSpan(text)
		if err != nil {
			p.broken = err.Error()
			break
		}
		p.ranges = append(p.ranges, s)
	}
	if a := spec.ServiceAllocation; a != nil {
		p.priority = a.Priority
		p.namespaces = a.Namespaces
		var err, serr error
		p.spaces, err = selectors(a.NamespaceSelectors)
		p.services, serr = selectors(a.ServiceSelectors)
		if err := cmp.Or(err, serr); err != nil {
			p.broken = err.Error()
		}
		p.pinned = len(a.Namespaces)+len(a.NamespaceSelectors)+len(a.ServiceSelectors) > 0
	}
	return p
}

func selectors(list []metav1.LabelSelector) (out []labels.Selector, err error) {
	for i := range list {
		s, err := metav1.LabelSelectorAsSelector(&list[i])
		if err != nil {
			return nil, fmt.Errorf("a selector can't be read: %w", err)
		}
		out = append(out, s)
	}
	return out, nil
}

// matches says that one of the selectors matches; of none all.
func matches(list []labels.Selector, set labels.Set) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(s labels.Selector) bool { return s.Matches(set) })
}

// serves says that the pool may give addresses to services of that namespace with those labels.
func (p *pool) serves(ns string, space, service labels.Set) bool {
	if len(p.namespaces)+len(p.spaces) > 0 && !slices.Contains(p.namespaces, ns) &&
		!(len(p.spaces) > 0 && matches(p.spaces, space)) {
		return false
	}
	return matches(p.services, service)
}

// settle breaks pools that overlap with one before them, by name: an address must belong to one pool.
func settle(pools []*pool) {
	slices.SortFunc(pools, func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
	for i, p := range pools {
		for _, before := range pools[:i] {
			for _, s := range p.ranges {
				if before.broken == "" && p.broken == "" && slices.ContainsFunc(before.ranges, s.overlaps) {
					p.broken = "its addresses overlap with those of the pool " + before.name
				}
			}
		}
	}
}

// decode reads an object of a kind that has no Go type here.
func decode(obj resource.Object, into any) error {
	text, err := codec.MarshalJSON(resource.Opened(obj))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
