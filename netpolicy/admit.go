//go:build linux

package netpolicy

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// request tells Run of a sandbox that was made or has gone, and waits for the pass that knows it.
type request struct {
	uid     types.UID
	sandbox Sandbox // without a pod: it has gone
	done    chan error
}

// Admit returns when the policies of a pod are in force for its addresses: the agent calls it between making the sandbox and starting the
// first container, so that no packet of the pod passes before. It fails if the kernel refuses the rules, and with ctx. A pod on the host's
// network needs no call.
func (e *Enforcer) Admit(ctx context.Context, pod *corev1.Pod, addrs []netip.Addr) error {
	return e.ask(ctx, request{uid: pod.UID, sandbox: Sandbox{pod, addrs}, done: make(chan error, 1)})
}

// Forget says that the sandbox of a pod has gone, and its addresses may become another's.
func (e *Enforcer) Forget(ctx context.Context, uid types.UID) error {
	return e.ask(ctx, request{uid: uid, done: make(chan error, 1)})
}

func (e *Enforcer) ask(ctx context.Context, r request) error {
	select {
	case e.asked <- r:
	case <-e.ended:
		return errors.New("network policies are not enforced any more: kloop is stopping")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-e.ended:
		return errors.New("network policies are not enforced any more: kloop is stopping")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take notes a request; false means that nothing follows from it, and it is answered.
func (s *state) take(r request) bool {
	_, known := s.upcoming[r.uid]
	if r.sandbox.Pod == nil && !known {
		r.done <- nil
		return false
	}
	s.waiting = append(s.waiting, r)
	if r.sandbox.Pod == nil {
		delete(s.upcoming, r.uid)
	} else {
		s.upcoming[r.uid] = r.sandbox
	}
	return true
}

// answer tells those who wait how the pass went.
func (s *state) answer(err error) {
	for _, r := range s.waiting {
		r.done <- err
	}
	s.waiting = nil
}

func sameAddresses(a, b []netip.Addr) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x netip.Addr) bool { return !slices.Contains(b, x) })
}

// settled drops the sandboxes whose addresses the pods' statuses show by now.
func (s *state) settled() {
	for uid, u := range s.upcoming {
		p := resource.Get(s.read, kinds.Pods, u.Pod.Namespace, u.Pod.Name)
		if p != nil && p.UID == uid && sameAddresses(shown(p), u.Addrs) {
			delete(s.upcoming, uid)
		}
	}
}
