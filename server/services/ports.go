package services

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/store"
)

// portsKey holds the node ports in use, in upstream's form: a RangeAllocation whose data is one large number,
// with bit i set when the i-th port of the range is taken.
const portsKey = "/registry/ranges/servicenodeports"

const maxStaticPorts = 128

var (
	errPortTaken = errors.New("provided port is already allocated")
	errPortRange = errors.New("provided port is not in the valid range")
	errNoPort    = errors.New("range is full")
)

type portRange struct{ low, high int32 }

func (g portRange) size() int { return int(g.high-g.low) + 1 }

func (g portRange) String() string { return fmt.Sprintf("%d-%d", g.low, g.high) }

// A bitmap says which ports of a range are in use.
type bitmap struct {
	g    portRange
	bits *big.Int
	pick func(n int) int
}

func (b bitmap) has(port int32) bool { return b.bits.Bit(int(port-b.g.low)) == 1 }

func (b bitmap) set(port int32, used uint) {
	if port >= b.g.low && port <= b.g.high {
		b.bits.SetBit(b.bits, int(port-b.g.low), used)
	}
}

// this takes the port that was asked for.
func (b bitmap) this(port int32) error {
	switch {
	case port < b.g.low || port > b.g.high:
		return fmt.Errorf("%w. The range of valid ports is %v", errPortRange, b.g)
	case b.has(port):
		return errPortTaken
	}
	b.set(port, 1)
	return nil
}

// any takes a free port: of the upper part, of the lower one when that is full.
func (b bitmap) any() (int32, error) {
	size := b.g.size()
	split := statics(size, maxStaticPorts)
	for _, part := range [][2]int{{split, size}, {0, split}} {
		n := part[1] - part[0]
		if n <= 0 {
			continue
		}
		for i, from := 0, b.pick(n); i < n; i++ {
			port := b.g.low + int32(part[0]+(from+i)%n)
			if !b.has(port) {
				b.set(port, 1)
				return port, nil
			}
		}
	}
	return 0, errNoPort
}

// editPorts changes the ports in use. f may be called again when others write meanwhile. With dry nothing is
// written.
func (s *Allocator) editPorts(ctx context.Context, dry bool, f func(bitmap) error) error {
	for range server.Retries {
		kv, _, err := s.core.Store.Get(ctx, portsKey)
		if err != nil {
			return server.StoreError(err, "read the node ports in use")
		}
		was := &corev1.RangeAllocation{}
		var rev int64
		if kv != nil {
			rev = kv.ModRev
			if err := codec.UnmarshalProto(kv.Value, was); err != nil {
				return apierrors.NewInternalError(err)
			}
		}
		b := bitmap{g: s.ports, bits: new(big.Int), pick: s.core.Pick}
		if was.Range == b.g.String() {
			b.bits.SetBytes(was.Data)
		}
		if err := f(b); err != nil || dry {
			return err
		}
		next := &corev1.RangeAllocation{Range: b.g.String(), Data: b.bits.Bytes()}
		next.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("RangeAllocation"))
		if kv != nil && next.Range == was.Range && slices.Equal(next.Data, was.Data) {
			return nil
		}
		value, err := codec.MarshalProto(next)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		_, err = s.core.Store.Write(ctx, store.Write{Key: portsKey, Value: value, Expect: rev})
		var lost *store.ConflictError
		if errors.As(err, &lost) {
			continue
		}
		if err != nil {
			return server.StoreError(err, "write the node ports in use")
		}
		return nil
	}
	return apierrors.NewInternalError(errors.New("allocate node ports: others were faster"))
}

func (s *Allocator) freePorts(ctx context.Context, ports []int32) error {
	if len(ports) == 0 {
		return nil
	}
	return s.editPorts(ctx, false, func(b bitmap) error {
		for _, p := range ports {
			b.set(p, 0)
		}
		return nil
	})
}

// takePorts allocates the node ports that the service does not have yet: first those asked for by value.
func (t *taking) takePorts(ctx context.Context, before *corev1.Service) error {
	spec := &t.svc.Spec
	if spec.Type != corev1.ServiceTypeNodePort && spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var has []int32
	if before != nil {
		has = portsOf(before)
	}
	if !t.wantsPorts(has) {
		return nil
	}
	asked := slices.Clone(spec.Ports)
	health := spec.HealthCheckNodePort
	var taken []int32
	err := t.s.editPorts(ctx, t.r.DryRun, func(b bitmap) error {
		copy(spec.Ports, asked)
		spec.HealthCheckNodePort = health
		p := &porting{taking: t, b: b, has: has}
		err := p.all()
		taken = p.taken
		return err
	})
	if err == nil {
		t.ports = taken
	}
	return err
}

// allocates says whether ports without a node port get one.
func (t *taking) allocates() bool {
	a := t.svc.Spec.AllocateLoadBalancerNodePorts
	return t.svc.Spec.Type == corev1.ServiceTypeNodePort || a == nil || *a
}

func (t *taking) wantsHealth() bool {
	return t.svc.Spec.Type == corev1.ServiceTypeLoadBalancer && t.svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func (t *taking) wantsPorts(has []int32) bool {
	if h := t.svc.Spec.HealthCheckNodePort; t.wantsHealth() && !slices.Contains(has, h) {
		return true
	}
	return slices.ContainsFunc(t.svc.Spec.Ports, func(p corev1.ServicePort) bool {
		if p.NodePort == 0 {
			return t.allocates()
		}
		return !slices.Contains(has, p.NodePort)
	})
}

// A porting is one try to allocate ports.
type porting struct {
	*taking
	b     bitmap
	has   []int32 // the service's own of before
	taken []int32
}

func (p *porting) all() error {
	for i := range p.svc.Spec.Ports {
		if err := p.fixed(i); err != nil {
			return server.Invalid(p.r, p.svc.Name, field.ErrorList{
				field.Invalid(specPath.Child("ports").Index(i).Child("nodePort"), p.svc.Spec.Ports[i].NodePort, err.Error())})
		}
	}
	if p.allocates() {
		for i := range p.svc.Spec.Ports {
			if err := p.free(i); err != nil {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			}
		}
	}
	return p.health()
}

// fixed takes the node port that port i asks for. Ports of different protocols may share one.
func (p *porting) fixed(i int) error {
	port := p.svc.Spec.Ports[i]
	if port.NodePort == 0 {
		return nil
	}
	shared := slices.Contains(p.has, port.NodePort)
	for _, o := range p.svc.Spec.Ports[:i] {
		if o.NodePort == port.NodePort {
			if o.Protocol == port.Protocol {
				return errPortTaken
			}
			shared = true
		}
	}
	if shared {
		return nil
	}
	if err := p.b.this(port.NodePort); err != nil {
		return err
	}
	p.taken = append(p.taken, port.NodePort)
	return nil
}

// free takes any node port for port i, that of the same port under another protocol if there is one.
func (p *porting) free(i int) error {
	port := &p.svc.Spec.Ports[i]
	if port.NodePort != 0 {
		return nil
	}
	for _, o := range p.svc.Spec.Ports {
		if o.NodePort != 0 && o.Port == port.Port && o.Protocol != port.Protocol && !p.uses(o.NodePort, port.Protocol) {
			port.NodePort = o.NodePort
			return nil
		}
	}
	n, err := p.b.any()
	if err != nil {
		return err
	}
	port.NodePort = n
	p.taken = append(p.taken, n)
	return nil
}

func (p *porting) uses(nodePort int32, protocol corev1.Protocol) bool {
	return slices.ContainsFunc(p.svc.Spec.Ports, func(o corev1.ServicePort) bool {
		return o.NodePort == nodePort && o.Protocol == protocol
	})
}

// health takes the port that load balancers ask for local endpoints.
func (p *porting) health() error {
	spec := &p.svc.Spec
	if !p.wantsHealth() || spec.HealthCheckNodePort != 0 && slices.Contains(p.has, spec.HealthCheckNodePort) {
		return nil
	}
	var err error
	if spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort, err = p.b.any()
	} else {
		err = p.b.this(spec.HealthCheckNodePort)
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort: %w", err))
	}
	p.taken = append(p.taken, spec.HealthCheckNodePort)
	return nil
}
