package client

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/view"
)

func TestFeedReuse(t *testing.T) {
	p := view.NewEntry(kinds.Pods, 1, &corev1.Pod{})
	b := view.Batch{Changes: []view.Change{{Kind: kinds.Pods, Rev: 1, New: p}}}
	f := &feed{}
	if first, second := f.batch(b), f.batch(b); &first.Changes[0] == &second.Changes[0] {
		t.Error("a batch that may be kept is overwritten by the next one")
	}
	f.Reuse()
	f.batch(b)
	if n := testing.AllocsPerRun(100, func() { f.batch(b) }); n > 0 {
		t.Errorf("%v allocations for a batch", n)
	}
}
