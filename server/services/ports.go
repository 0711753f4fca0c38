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

// takePorts allocates the node ports that the service does not have yet.
//
// Unlike Kubernetes, a dry run tells ports that are free, and refuses those that are not in the range.
func (t *taking) takePorts(ctx context.Context, before *corev1.Service) error {
	spec := &t.svc.Spec
	if spec.Type != corev1.ServiceTypeNodePort && spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	asked := slices.Clone(spec.Ports)
	health := spec.HealthCheckNodePort
	p := &porting{taking: t, before: before}
	if before != nil {
		for _, port := range before.Spec.Ports {
			p.has = append(p.has, port.NodePort)
		}
		p.had = wantsHealth(before) && health != 0
	}
	if !p.wants() {
		return nil
	}
	err := t.s.editPorts(ctx, t.r.DryRun, func(b bitmap) error {
		copy(spec.Ports, asked)
		spec.HealthCheckNodePort = health
		p.b, p.taken = b, nil
		return p.all()
	})
	if err == nil {
		t.ports = p.taken
	}
	return err
}

// allocates says whether ports without a node port get one.
func (t *taking) allocates() bool {
	a := t.svc.Spec.AllocateLoadBalancerNodePorts
	return t.svc.Spec.Type == corev1.ServiceTypeNodePort || a == nil || *a
}

func wantsHealth(svc *corev1.Service) bool {
	s := &svc.Spec
	return s.Type == corev1.ServiceTypeLoadBalancer && s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// A porting is one try to allocate ports.
type porting struct {
	*taking
	before *corev1.Service
	b      bitmap
	has    []int32 // the service's own of before
	had    bool    // it had a port for load balancers that ask for local endpoints
	taken  []int32
}

// wants says whether there is anything to take, or to refuse.
func (p *porting) wants() bool {
	if wantsHealth(p.svc) && !p.had {
		return true
	}
	for i, port := range p.svc.Spec.Ports {
		n := port.NodePort
		if n == 0 && p.allocates() || n != 0 && (!slices.Contains(p.has, n) || p.twice(i)) {
			return true
		}
	}
	return false
}

func (p *porting) all() (err error) {
	byPort := map[int32]int32{}
	for i := range p.svc.Spec.Ports {
		switch port := &p.svc.Spec.Ports[i]; {
		case port.NodePort == 0 && !p.allocates():
		case p.before == nil:
			err = p.first(i, byPort)
		default:
			err = p.next(i)
		}
		if err != nil {
			return err
		}
	}
	return p.health()
}

// first takes the node port of port i of a new service: those of one port number, under several protocols, share one.
func (p *porting) first(i int, byPort map[int32]int32) error {
	port := &p.svc.Spec.Ports[i]
	got := byPort[port.Port]
	switch {
	case got != 0 && port.NodePort == 0:
		port.NodePort = got
	case got != 0 && port.NodePort != got:
		return p.this(i)
	case got == 0:
		asked := slices.IndexFunc(p.svc.Spec.Ports, func(o corev1.ServicePort) bool {
			return o.Port == port.Port && o.NodePort != 0
		})
		if asked < 0 {
			if err := p.any(port); err != nil {
				return err
			}
		} else {
			port.NodePort = p.svc.Spec.Ports[asked].NodePort
			if err := p.this(i); err != nil {
				return err
			}
		}
		byPort[port.Port] = port.NodePort
	}
	return nil
}

// next takes the node port of port i of a service that is there: each has its own, unless it asks for another's.
func (p *porting) next(i int) error {
	port := &p.svc.Spec.Ports[i]
	switch n := port.NodePort; {
	case n == 0:
		if err := p.any(port); err != nil {
			return err
		}
	case !slices.Contains(p.has, n) && !slices.Contains(p.taken, n):
		if err := p.this(i); err != nil {
			return err
		}
	}
	if p.twice(i) {
		return server.PlainError(fmt.Sprintf("duplicate nodePort: {%s %d}", port.Protocol, port.NodePort))
	}
	return nil
}

// twice says that a port before i has its node port and protocol.
func (p *porting) twice(i int) bool {
	port := p.svc.Spec.Ports[i]
	return slices.ContainsFunc(p.svc.Spec.Ports[:i], func(o corev1.ServicePort) bool {
		return o.NodePort == port.NodePort && o.Protocol == port.Protocol
	})
}

// this takes the node port that port i asks for.
func (p *porting) this(i int) error {
	n := p.svc.Spec.Ports[i].NodePort
	if err := p.b.this(n); err != nil {
		path := specPath.Child("ports").Index(i).Child("nodePort")
		return server.Invalid(p.r, p.svc.Name, field.ErrorList{field.Invalid(path, n, err.Error())})
	}
	p.taken = append(p.taken, n)
	return nil
}

func (p *porting) any(port *corev1.ServicePort) (err error) {
	if port.NodePort, err = p.b.any(); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
	}
	p.taken = append(p.taken, port.NodePort)
	return nil
}

// health takes the port that load balancers ask for local endpoints.
func (p *porting) health() (err error) {
	spec := &p.svc.Spec
	if !wantsHealth(p.svc) || p.had {
		return nil
	}
	if n := spec.HealthCheckNodePort; n != 0 {
		if err := p.b.this(n); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %w", n, err))
		}
	} else if spec.HealthCheckNodePort, err = p.b.any(); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort 0: %w", err))
	}
	p.taken = append(p.taken, spec.HealthCheckNodePort)
	return nil
}
