package node

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Policies holds pods back until the network policies that apply to them are in force. netpolicy.Enforcer is one.
type Policies interface {
	// Admit returns once the pod's policies are in force for the addresses of its sandbox.
	Admit(ctx context.Context, pod *corev1.Pod, addrs []netip.Addr) error
	// Forget says that the pod's sandbox has gone. It is no error if it was never admitted.
	Forget(ctx context.Context, uid types.UID) error
}

// isolate is asked before containers start: no packet of a pod passes before its network policies are in force. Once a container of the
// sandbox runs, they are.
func (a *Agent) isolate(ctx context.Context, w world, box *sandbox) error {
	if a.cfg.Policies == nil || w.pod.Spec.HostNetwork || box == nil {
		return nil
	}
	for i := range w.seen.containers {
		if c := &w.seen.containers[i]; c.sandbox == box.id && c.running() {
			return nil
		}
	}
	var addrs []netip.Addr
	for _, ip := range box.ips {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			return fmt.Errorf("read the address of the sandbox of pod %s/%s: %w", w.pod.Namespace, w.pod.Name, err)
		}
		addrs = append(addrs, addr.Unmap())
	}
	if err := a.cfg.Policies.Admit(ctx, w.pod, addrs); err != nil {
		return fmt.Errorf("put the network policies of pod %s/%s in force: %w", w.pod.Namespace, w.pod.Name, err)
	}
	return nil
}

// released tells the policies that the pod's addresses may become another's.
func (a *Agent) released(ctx context.Context, uid types.UID) error {
	if a.cfg.Policies == nil {
		return nil
	}
	return a.cfg.Policies.Forget(ctx, uid)
}
