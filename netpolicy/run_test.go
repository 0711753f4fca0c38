package netpolicy

import (
	"context"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/netspace"
)

// reading is a client that only reads: each testpolicy.Snapshot sent to it is a change of the cluster.
type reading struct {
	client.Client
	states chan resource.Reader
}

func (r reading) Feed(...resource.Kind) client.Feed { return r }

func (r reading) Reuse() {}

func (r reading) Next(ctx context.Context) (client.Batch, error) {
	select {
	case s := <-r.states:
		return client.Batch{Read: s, Reset: true}, nil
	case <-ctx.Done():
		return client.Batch{}, ctx.Err()
	}
}

// enforcing runs an enforcer for the node n1 in a network namespace of its own until the test ends.
func enforcing(t *testing.T, s resource.Reader, edit ...func(*Enforcer)) (e *Enforcer, in netspace.Space, change func(resource.Reader)) {
	in = netspace.New(t)
	r := reading{states: make(chan resource.Reader)}
	e = New(Config{Client: r, Node: "n1"})
	for _, f := range edit {
		f(e)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready := make(chan struct{})
	t.Cleanup(func() { stop(); <-e.ended })
	go func() {
		if err := in.Run(func() error { return e.Run(ctx, func() { close(ready) }) }); err != nil {
			t.Error(err)
		}
	}()
	r.states <- s
	<-ready
	return e, in, func(s resource.Reader) { r.states <- s }
}

// isolated says whether the kernel isolates an address for ingress.
func isolated(t *testing.T, in netspace.Space, a netip.Addr) (yes bool) {
	in.Do(t, func() error {
		o, err := observe(a.Is6())
		_, yes = o.Sets[ingressMap].Elements[bytesOf(a)]
		return err
	})
	return yes
}

// TestAdmit: when Admit returns, the pod's policies are in force, before its status shows an address; Forget takes them back.
func TestAdmit(t *testing.T) {
	s := judged()
	s.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
	e, in, _ := enforcing(t, s)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new", UID: "new"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	v4, v6 := addr("10.1.0.9"), addr("fd01::9")
	if err := e.Admit(t.Context(), pod, []netip.Addr{v4, v6}); err != nil {
		t.Fatal(err)
	}
	if !isolated(t, in, v4) || !isolated(t, in, v6) {
		t.Error("the pod was admitted and is not isolated")
	}
	if err := e.Forget(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	if isolated(t, in, v4) {
		t.Error("the pod has gone and its address is still isolated")
	}
}

// TestRestart: a pod that had just been let in when the process ended stays isolated, though its status does not show its address yet,
// until it has had time to. What is known to be another pod's by now is judged by its policies.
func TestRestart(t *testing.T) {
	in := netspace.New(t)
	run := func(s resource.Reader, taken time.Duration) (e *Enforcer, change func(resource.Reader), stop func()) {
		r := reading{states: make(chan resource.Reader)}
		e = New(Config{Client: r, Node: "n1"})
		e.repair, e.taken = 50*time.Millisecond, taken
		ctx, cancel := context.WithCancel(t.Context())
		ready := make(chan struct{})
		go func() {
			if err := in.Run(func() error { return e.Run(ctx, func() { close(ready) }) }); err != nil {
				t.Error(err)
			}
		}()
		r.states <- s
		<-ready
		return e, func(s resource.Reader) { r.states <- s }, func() { cancel(); <-e.ended }
	}
	s := judged()
	s.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
	e, _, stop := run(s, time.Hour)
	v4, v6, gone := addr("10.1.0.9"), addr("fd01::9"), addr("10.1.0.10")
	for name, list := range map[types.UID][]netip.Addr{"new": {v4, v6}, "gone": {gone}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(name), UID: name}, Spec: corev1.PodSpec{NodeName: "n1"}}
		if err := e.Admit(t.Context(), pod, list); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	other := judged()
	other.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
	other.Pod("elsewhere", "free", "n1", nil, gone.String())
	_, change, stop := run(other, time.Hour)
	if !isolated(t, in, v4) || !isolated(t, in, v6) {
		t.Error("after a restart the pod is not isolated")
	}
	if isolated(t, in, gone) {
		t.Error("the address of a pod that no policy is for is isolated")
	}
	change(judged())
	eventually.True(t, "without a policy nothing is isolated", func() bool { return !isolated(t, in, v4) })
	change(s)
	eventually.True(t, "the policy is in force", func() bool { return isolated(t, in, addr("10.1.0.1")) })
	stop()
	_, _, stop = run(other, 0)
	defer stop()
	eventually.True(t, "the pod never showed its address", func() bool { return !isolated(t, in, v4) })
}

// TestFollow: policies come and go with the cluster's; a cluster without any has no table.
func TestFollow(t *testing.T) {
	_, in, change := enforcing(t, judged())
	web := addr("10.1.0.1")
	in.Do(t, func() error {
		o, err := observe(false)
		if o.Hooked {
			t.Error("there is a table without a policy")
		}
		return err
	})
	s := judged()
	s.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
	change(s)
	eventually.True(t, "the policy is in force", func() bool { return isolated(t, in, web) })
	change(judged())
	eventually.True(t, "the policy has gone", func() bool { return !isolated(t, in, web) })
}

// TestChangeAmidRepairs: passes that come sooner than the rest after the last one ends, as after errors, do not keep changes off.
func TestChangeAmidRepairs(t *testing.T) {
	s := judged()
	s.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
	_, in, change := enforcing(t, s, func(e *Enforcer) { e.repair = settle / 10 })
	web := addr("10.1.0.1")
	eventually.True(t, "the policy is in force", func() bool { return isolated(t, in, web) })
	change(judged())
	eventually.True(t, "the policy has gone", func() bool { return !isolated(t, in, web) })
}

// TestRepairOfABusyCluster: what somebody else did to the table is mended also while the cluster's pods never cease to change.
func TestRepairOfABusyCluster(t *testing.T) {
	s := judged()
	s.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
	_, in, change := enforcing(t, s, func(e *Enforcer) { e.repair = time.Second / 2 })
	web := addr("10.1.0.1")
	eventually.True(t, "the policy is in force", func() bool { return isolated(t, in, web) })
	in.Do(t, func() error {
		w, err := newWriter(&Plan{})
		if err != nil {
			return err
		}
		w.c.DelTable(w.t)
		return w.flush()
	})
	eventually.True(t, "the policy is in force again", func() bool {
		change(s)
		return isolated(t, in, web)
	})
}

// TestLazy: what all nodes run is only asked for once there is a policy, and a pod that starts meanwhile waits for the answer.
func TestLazy(t *testing.T) {
	in := netspace.New(t)
	policies, cluster := reading{states: make(chan resource.Reader)}, reading{states: make(chan resource.Reader)}
	asked := make(chan struct{})
	e := New(Config{Client: policies, Node: "n1", Cluster: func(context.Context) (client.Client, error) {
		close(asked)
		return cluster, nil
	}})
	ctx, stop := context.WithCancel(t.Context())
	ready := make(chan struct{})
	t.Cleanup(func() { stop(); <-e.ended })
	go func() {
		if err := in.Run(func() error { return e.Run(ctx, func() { close(ready) }) }); err != nil {
			t.Error(err)
		}
	}()
	policies.states <- judged()
	<-ready
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new", UID: "new"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	if err := e.Admit(ctx, pod, []netip.Addr{addr("10.1.0.8")}); err != nil {
		t.Fatal("without a policy nothing holds a pod back:", err)
	}
	select {
	case <-asked:
		t.Fatal("the cluster is asked for without a policy")
	default:
	}
	s := judged()
	s.Policy("shop", "deny", networkingv1.NetworkPolicySpec{})
	policies.states <- s
	<-asked
	admitted := make(chan error)
	pod.UID = "second"
	go func() { admitted <- e.Admit(ctx, pod, []netip.Addr{addr("10.1.0.9")}) }()
	cluster.states <- s
	if err := <-admitted; err != nil || !isolated(t, in, addr("10.1.0.9")) {
		t.Errorf("admitted with %v, and not isolated", err)
	}
}

// TestAdmitAfterTheEnd: nobody waits for an enforcer that has ended.
func TestAdmitAfterTheEnd(t *testing.T) {
	e := New(Config{Client: reading{}})
	close(e.ended)
	if err := e.Admit(t.Context(), &corev1.Pod{}, nil); err == nil {
		t.Error("a pod is admitted by nobody")
	}
}
