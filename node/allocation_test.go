package node

import (
	"os"
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
