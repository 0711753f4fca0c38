package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/sim"
	"github.com/kloop-dev/kloop/store"
)

// A seed holds all that a simulation of a fork grows from: the content of its store, and what was learnt of its workloads.
type seed struct {
	on       *features.Set
	writes   []store.Write
	real     bool // nodes of the cluster run containers
	lives    map[ownerKey]life
	services []netip.Prefix // where Services get their addresses from; none: Kubernetes' usual range
	notes    []string       // what was taken for granted
}

// grow makes the seed of a fork, once.
func (f *Fork) grow() (*seed, error) {
	f.once.Do(func() { f.ready, f.problem = f.sow() })
	return f.ready, f.problem
}

func (f *Fork) sow() (*seed, error) {
	s := &seed{}
	if err := s.emulate(f.Version); err != nil {
		return nil, err
	}
	real := map[string]bool{} // nodes that do not live in simulation as it is
	for n := range each(f, kinds.Nodes) {
		real[n.Name] = !sim.Simulated(n)
		s.real = s.real || real[n.Name]
	}
	s.lives = learn(f, real)
	for cidr := range each(f, kinds.ServiceCIDRs) {
		for _, text := range cidr.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && cidr.Name == "kubernetes" {
				s.services = append(s.services, p)
			}
		}
	}
	all := append(slices.Clone(f.objects), assumed(f, &s.notes)...)
	for _, it := range all {
		switch obj := it.obj.(type) {
		case *corev1.Node:
			it.obj = simulated(obj)
		case *corev1.Pod:
			it.obj = s.adopted(obj, real)
		}
		value, err := codec.Stored(it.kind, it.obj)
		if err != nil {
			return nil, fmt.Errorf("take over %s %s: %w", it.kind.Info().Singular, it.obj.GetName(), err)
		}
		s.writes = append(s.writes, store.Write{Key: it.kind.Info().Key(it.obj.GetNamespace(), it.obj.GetName()), Value: value})
	}
	if s.real {
		s.notes = append(s.notes,
			fmt.Sprintf(
				"how long containers take: those of workloads that run are taken to become ready as fast as they did, others in %s; all stop in %s",
				usualReady, usualStop))
	}
	return s, nil
}

// emulate picks the version whose rules hold in the simulation: the cluster's, or the nearest that kloop can be.
func (s *seed) emulate(version string) error {
	minor, told := 0, strings.TrimPrefix(version, "v")
	if version == "" {
		told = fmt.Sprintf("1.%d", features.Newest)
		s.notes = append(s.notes, "the server's version, which you may not ask for; the rules that were applied are those of "+told)
	}
	if _, err := fmt.Sscanf(told, "1.%d", &minor); err != nil {
		return fmt.Errorf("the cluster's version %q is none of Kubernetes", version)
	}
	as := min(max(minor, features.Oldest), features.Newest)
	if as != minor {
		s.notes = append(s.notes, fmt.Sprintf("the cluster is %s; the rules that were applied are those of 1.%d", version, as))
	}
	on, err := features.New(as, nil)
	s.on = on
	return err
}

// simulated is a node as the simulation has it: its capacity, labels and taints, and nobody behind it. One that is not ready is not
// heard there either.
func simulated(n *corev1.Node) *corev1.Node {
	if sim.Simulated(n) {
		return n
	}
	n = n.DeepCopy()
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, sim.Fake, "fake")
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, sim.Agent, "yes")
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, sim.Stop, usualStop.String())
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, sim.Ready, usualReady.String())
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, sim.Lost, "yes")
		}
	}
	return n
}

// adopted is a pod as the simulation takes it over: one that runs well runs on, one that is in trouble stays in it.
func (s *seed) adopted(p *corev1.Pod, real map[string]bool) *corev1.Pod {
	if p.Spec.NodeName == "" || !real[p.Spec.NodeName] || p.DeletionTimestamp != nil || core.Terminal(p) {
		return p
	}
	job := controlledBy(p, "Job")
	if broken(p) == "" && !(job && p.Status.Phase == corev1.PodRunning) && (ready(p) || starting(p)) {
		return p
	}
	p = p.DeepCopy()
	switch {
	case job && broken(p) == "":
		if l := s.lives[ownerOf(p)]; l.run > 0 {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, sim.Run, l.run.String())
		} else {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, sim.Keep, "yes")
		}
	default:
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, sim.Still, "yes")
	}
	return p
}

func ready(p *corev1.Pod) bool { return readiness(p) != nil }

// readiness is the condition that says that the pod is ready; nil: it is not.
func readiness(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func controlledBy(p *corev1.Pod, kind string) bool {
	ref := metav1.GetControllerOfNoCopy(p)
	return ref != nil && ref.Kind == kind
}

// loopsOutside are the kinds whose controllers are not part of Kubernetes: objects of them stay as they are.
func loopsOutside(f *Fork) (list []schema.GroupResource) {
	seen := map[resource.Kind]bool{}
	for _, it := range f.objects {
		if it.kind.Info().Custom && !seen[it.kind] {
			seen[it.kind] = true
			list = append(list, it.kind.Info().GR())
		}
	}
	return list
}
