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

// A feed that waits holds little, and no objects; what had room for many serves other feeds.
func TestFeedRelease(t *testing.T) {
	p := view.NewEntry(kinds.Pods, 1, &corev1.Pod{})
	many := view.Batch{Changes: make([]view.Change, 2*keptChanges)}
	for i := range many.Changes {
		many.Changes[i] = view.Change{Kind: kinds.Pods, Rev: int64(i + 1), New: p}
	}
	a, b := &feed{reuse: true}, &feed{reuse: true}
	of := a.batch(many).Changes
	a.release()
	if a.last != nil || of[0].New != nil {
		t.Errorf("a feed that waits holds room for %d changes, the first of them %v", cap(a.last), of[0])
	}
	if got := b.batch(view.Batch{Changes: many.Changes[:3]}).Changes; len(got) != 3 || cap(got) > keptChanges {
		t.Errorf("few changes got room for %d", cap(got))
	}
	for i, c := range b.batch(many).Changes {
		if c.Rev != int64(i+1) || c.New != p.Object || c.Old != nil {
			t.Fatalf("change %d is %v", i, c)
		}
	}
}
