package netpolicy

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/internal/testpolicy"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/test/netspace"
)

// big is 1,000 pods in 50 namespaces, 100 of them on this node, and 1,000 policies: each lets one app be reached from two others.
func big() testpolicy.Snapshot {
	s := testpolicy.Snapshot{}
	s.Node("n0", "10.9.0.1")
	for ns := range 50 {
		name := fmt.Sprintf("ns%02d", ns)
		s.Space(name, map[string]string{"team": fmt.Sprint(ns % 5)})
		for i := range 20 {
			labels := map[string]string{"app": fmt.Sprint("app", i), "pod-template-hash": "5d4f8c7b9"}
			s.Pod(name, fmt.Sprintf("pod%02d", i), fmt.Sprint("n", i%10), labels, fmt.Sprintf("10.1.%d.%d", ns, i+1))
		}
		for i := range 20 {
			port := intstr.FromInt32(int32(8000 + i))
			s.Policy(name, fmt.Sprintf("p%02d", i), networkingv1.NetworkPolicySpec{PodSelector: app(i),
				Ingress: []networkingv1.NetworkPolicyIngressRule{{
					Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
					From: []networkingv1.NetworkPolicyPeer{{PodSelector: ptr(app(i + 1))},
						{PodSelector: ptr(app(i + 2)), NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "1"}}}}}}})
		}
	}
	return s
}

func app(i int) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app", i%20)}}
}

func ptr[T any](v T) *T { return &v }

// BenchmarkPlan is a whole pass but for the kernel's part, at 1,000 policies and 1,000 pods.
func BenchmarkPlan(b *testing.B) {
	s := big()
	have := NewPlan(NewModel(s, nil, nil), "n0", false).observed(Observed{})
	for b.Loop() {
		if c := Difference(NewPlan(NewModel(s, nil, nil), "n0", false), have); !c.Empty() {
			b.Fatal(c)
		}
	}
}

// BenchmarkChange is a pass with the kernel's part: one pod more, one pod less.
func BenchmarkChange(b *testing.B) {
	less := big()
	more := maps.Clone(less)
	more[kinds.Pods] = slices.Clone(less[kinds.Pods])
	more.Pod("ns49", "pod99", "n0", map[string]string{"app": "app3"}, "10.1.49.99")
	in := netspace.New(b)
	in.Do(b, func() error {
		o, err := observe(false)
		if err != nil {
			return err
		}
		s, was := less, Compiled(nil)
		step := func() error {
			m := NewModel(s, nil, was)
			p := NewPlan(m, "n0", false)
			was = m.compiled
			c := Difference(p, o)
			o = p.observed(Observed{})
			return program(p, c)
		}
		if err := step(); err != nil {
			return err
		}
		for i := 0; b.Loop(); i++ {
			if s = more; i%2 == 1 {
				s = less
			}
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkCold programs all of it into an empty kernel.
func BenchmarkCold(b *testing.B) {
	p := NewPlan(NewModel(big(), nil, nil), "n0", false)
	in := netspace.New(b)
	in.Do(b, func() error {
		for b.Loop() {
			if err := program(p, Difference(p, Observed{})); err != nil {
				return err
			}
		}
		return nil
	})
}
