package services

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

const (
	managedBy  = "ipallocator.k8s.io"
	maxOffset  = 1 << 20 // of an address in its range; upstream, too, uses no more of a large IPv6 range
	maxStatics = 256
)

// ownedOfAddress are the fields of an IPAddress that the server sets, all of them.
const ownedOfAddress = `{"f:metadata":{"f:labels":{".":{},"f:` + networkingv1.LabelIPAddressFamily + `":{},"f:` +
	networkingv1.LabelManagedBy + `":{}}},"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`

// errTaken says that an address is somebody else's.
var errTaken = errors.New("provided IP is already allocated")

// An ipRange is one family's range. Its lower part is left for addresses that are asked for by value.
type ipRange struct {
	prefix netip.Prefix
}

func (g *ipRange) family() corev1.IPFamily { return familyOf(g.prefix.Addr()) }

// size is the number of addresses that may be given out: all but the first, and in IPv4 the last.
func (g *ipRange) size() int {
	bits := g.prefix.Addr().BitLen() - g.prefix.Bits()
	n := maxOffset
	if bits < 20 {
		n = 1 << bits
	}
	if g.family() == corev1.IPv4Protocol {
		n--
	}
	return max(n-1, 0)
}

// statics is the length of the lower part.
func statics(size, most int) int {
	n := min(max(16, size/16), most)
	if n >= size {
		return 0
	}
	return n
}

// at is the i-th address to give out, from 0.
func (g *ipRange) at(i int) netip.Addr {
	b := g.prefix.Addr().AsSlice()
	n := new(big.Int).SetBytes(b)
	n.Add(n, big.NewInt(int64(i)+1)).FillBytes(b)
	a, _ := netip.AddrFromSlice(b)
	return a
}

// valid says whether the address may be given out.
func (g *ipRange) valid(a netip.Addr) bool {
	if !g.prefix.Contains(a) || a == g.prefix.Addr() {
		return false
	}
	last := g.prefix.Addr().AsSlice()
	for i := g.prefix.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	return a.Is6() || a != end
}

// takeIPs allocates the addresses that the service does not have yet.
func (t *taking) takeIPs(ctx context.Context, before *corev1.Service) error {
	spec := &t.svc.Spec
	if spec.Type == corev1.ServiceTypeExternalName || headless(t.svc) {
		return nil
	}
	var has []string
	if before != nil {
		has = clusterIPs(before)
	}
	ips := make([]string, 0, len(spec.IPFamilies))
	for i, f := range spec.IPFamilies {
		from := t.s.rangesOf(f)
		switch {
		case i < len(has) && (i >= len(spec.ClusterIPs) || spec.ClusterIPs[i] == has[i]):
			ips = append(ips, has[i])
		case len(from) == 0:
		case i < len(spec.ClusterIPs):
			if err := t.takeThis(ctx, from, spec.ClusterIPs[i]); err != nil {
				return err
			}
			ips = append(ips, spec.ClusterIPs[i])
		default:
			ip, err := t.takeAny(ctx, from)
			if err != nil {
				return err
			}
			ips = append(ips, ip)
		}
	}
	if len(ips) > 0 {
		spec.ClusterIPs, spec.ClusterIP = ips, ips[0]
	}
	return nil
}

// takeThis allocates the address that was asked for.
func (t *taking) takeThis(ctx context.Context, from []ipRange, ip string) error {
	refuse := func(why string) error {
		return server.Invalid(t.r, t.svc.Name, field.ErrorList{field.Invalid(specPath.Child("clusterIPs"), []string{ip},
			fmt.Sprintf("failed to allocate IP %s: %s", ip, why))})
	}
	a, err := netip.ParseAddr(ip)
	if err != nil || !slices.ContainsFunc(from, func(g ipRange) bool { return g.valid(a) }) {
		return refuse("the provided network does not match the current range: the range of valid IPs is " + from[0].prefix.String())
	}
	err = t.reserve(ctx, a)
	if errors.Is(err, errTaken) {
		return refuse(err.Error())
	}
	return err
}

// takeAny allocates an address of the upper part, of the lower one when that is full.
func (t *taking) takeAny(ctx context.Context, from []ipRange) (string, error) {
	for i := range from {
		size := from[i].size()
		split := statics(size, maxStatics)
		for _, part := range [][2]int{{split, size}, {0, split}} {
			ip, err := t.takeBetween(ctx, &from[i], part[0], part[1])
			if ip != "" || err != nil {
				return ip, err
			}
		}
	}
	return "", apierrors.NewInternalError(errors.New("failed to allocate a serviceIP: range is full"))
}

// takeBetween allocates one of the addresses low to high-1 of the range; "" means that all are taken.
func (t *taking) takeBetween(ctx context.Context, g *ipRange, low, high int) (string, error) {
	n := high - low
	if n <= 0 {
		return "", nil
	}
	for i, first := 0, t.s.core.Pick(n); i < n; i++ {
		a := g.at(low + (first+i)%n)
		err := t.reserve(ctx, a)
		if err == nil {
			return a.String(), nil
		}
		if !errors.Is(err, errTaken) {
			return "", err
		}
	}
	return "", nil
}

// reserve makes the IPAddress object that says whose the address is. It fails with errTaken.
func (t *taking) reserve(ctx context.Context, a netip.Addr) error {
	k, ok := t.s.addresses()
	if !ok {
		return apierrors.NewInternalError(errors.New("allocate an address: this server has no IPAddresses"))
	}
	if t.s.core.View.Entry(k, "", a.String()) != nil {
		return errTaken
	}
	if t.r.DryRun {
		return nil
	}
	_, err := t.s.core.Put(ctx, k, t.s.address(a, t.svc), nil, 0)
	var c *store.ConflictError
	if errors.As(err, &c) {
		return errTaken
	}
	if err == nil {
		t.ips = append(t.ips, a.String())
	}
	return err
}

func (s *Allocator) address(a netip.Addr, svc *corev1.Service) resource.Object {
	made := s.core.Stamp()
	obj := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: a.String(), UID: s.core.NewUID(), CreationTimestamp: made, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(familyOf(a)), networkingv1.LabelManagedBy: managedBy},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate,
				APIVersion: networkingv1.SchemeGroupVersion.String(), Time: &made, FieldsType: "FieldsV1",
				FieldsV1: &metav1.FieldsV1{Raw: []byte(ownedOfAddress)}}}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace,
			Name: svc.Name}},
	}
	obj.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("IPAddress"))
	return obj
}

func (s *Allocator) addresses() (resource.Kind, bool) {
	return s.core.Kinds.GR(schema.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"})
}

// freeIP deletes the IPAddress object of a service's address, if it is that service's.
func (s *Allocator) freeIP(ctx context.Context, ip string, svc *corev1.Service) error {
	k, ok := s.addresses()
	if !ok {
		return nil
	}
	r := &server.Request{Kind: k, GVK: k.Info().GVK, Name: ip}
	err := s.core.Repeat(ctx, r, func(cur *view.Entry) error {
		if cur == nil {
			return nil
		}
		ref := cur.Object.(*networkingv1.IPAddress).Spec.ParentRef
		if ref == nil || ref.Resource != "services" || ref.Namespace != svc.Namespace || ref.Name != svc.Name {
			return nil
		}
		_, err := s.core.Remove(ctx, cur)
		return err
	})
	return err
}
