package node

import (
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
)

// TestAllocationOnFullDisk: what can't be written leaves the former record as it was, or the next agent would take what a pod asks for as
// granted.
func TestAllocationOnFullDisk(t *testing.T) {
	l := &allocations{common: &common{cfg: Config{Dir: t.TempDir()}}, of: map[types.UID]*allocation{}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	asks(p, 100, 64)
	if err := l.actuated(p, "c", p.Spec.Containers[0].Resources); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", l.file(p.UID)+".new"); err != nil {
		t.Fatal(err)
	}
	more := resource.Clone(p)
	asks(more, 200, 64)
	if err := l.actuated(more, "c", more.Spec.Containers[0].Resources); err == nil {
		t.Error("a full disk is no error")
	}
	if i, err := os.Lstat(l.file(p.UID)); err != nil || !i.Mode().IsRegular() {
		t.Fatal("what could not be written took its place")
	}
	next := &allocations{common: l.common, of: map[types.UID]*allocation{}}
	has := next.has(more, "c")
	if got := has.Requests.Cpu().String(); got != "100m" {
		t.Errorf("the next agent believes that the container was given %s", got)
	}
}

// TestResizesAtOnce has two pods ask for the same room at the same moment: one gets it.
func TestResizesAtOnce(t *testing.T) {
	simulate(t, func(r *rig) {
		var pods, more []*corev1.Pod
		for _, name := range []string{"a", "b"} {
			r.pod(name, func(p *corev1.Pod) { asks(p, 100, 64) }, "c")
			r.reaches(name, corev1.PodRunning)
			pods = append(pods, r.get(name))
		}
		r.stop()
		z := r.agent.resize
		list := z.allocatable()
		all := list.Cpu().MilliValue()
		for _, p := range pods {
			p = resource.Clone(p)
			asks(p, all*2/3, 64)
			more = append(more, p)
		}
		grant := func(p *corev1.Pod) {
			if _, err := z.grant(p); err != nil {
				t.Error(err)
			}
		}
		for range 200 {
			var wg sync.WaitGroup
			for _, p := range more {
				wg.Go(func() { grant(p) })
			}
			wg.Wait()
			sum := int64(0)
			for _, p := range pods {
				sum += z.alloc.granted(p).Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			}
			if sum > all {
				t.Fatalf("the pods were granted %dm of %dm", sum, all)
			}
			for _, p := range pods {
				grant(p)
			}
		}
	})
}

// TestResizeBesideNewPods: a pod that has just been let in has no start time yet, and has its room all the same.
func TestResizeBesideNewPods(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("a", func(p *corev1.Pod) { asks(p, 100, 64) }, "c")
		r.reaches("a", corev1.PodRunning)
		r.stop()
		list := r.agent.allocatable()
		all := list.Cpu().MilliValue()
		p := resource.Clone(r.get("a"))
		asks(p, 200, 64)
		fresh := resource.Clone(p)
		fresh.UID, fresh.Status.StartTime = "fresh", nil
		asks(fresh, all-150, 64)
		r.agent.admit.admitted[fresh.UID] = true
		if r.agent.resize.room(p, []*corev1.Pod{p, fresh}) == nil {
			t.Error("the room of a pod that has been let in is given away")
		}
	})
}
