//go:build e2e

package servers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A told event is what a watch said: of which object, at which revision.
type told struct {
	rev   int64
	typ   watch.EventType
	name  string
	value string
}

// A watcher follows the objects at one server, and at the next one when that is gone: from where it stood.
type watcher struct {
	machines []*machine
	at       int
	rev      string

	mu     sync.Mutex
	events []told
}

// follow watches until ctx ends.
func (w *watcher) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.stream(ctx); err != nil {
			w.at++ // another server must be able to go on
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (w *watcher) stream(ctx context.Context) error {
	c := w.machines[w.at%len(w.machines)].client
	stream, err := c.CoreV1().ConfigMaps(space).Watch(ctx, metav1.ListOptions{ResourceVersion: w.rev, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-stream.ResultChan():
			if !ok {
				return fmt.Errorf("the watch ended")
			}
			cm, is := e.Object.(*corev1.ConfigMap)
			if !is {
				return fmt.Errorf("the watch says %v", e.Object)
			}
			w.rev = cm.ResourceVersion
			if e.Type != watch.Bookmark {
				w.note(e.Type, cm)
			}
		}
	}
}

func (w *watcher) note(typ watch.EventType, cm *corev1.ConfigMap) {
	rev, _ := strconv.ParseInt(cm.ResourceVersion, 10, 64)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, told{rev, typ, cm.Name, cm.Data["v"]})
}

// seen returns the events up to a revision, that of the last one, once they are there.
func (w *watcher) seen(rev int64, patience time.Duration) ([]told, error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		list := slices.Clone(w.events)
		w.mu.Unlock()
		if i := slices.IndexFunc(list, func(e told) bool { return e.rev >= rev }); i >= 0 {
			return list[:i+1], nil
		}
	}
	return nil, fmt.Errorf("a watch did not come to revision %d", rev)
}

// ordered says what is wrong with the order of events, or with how they follow from each other.
func ordered(events []told) error {
	there := map[string]bool{}
	for i, e := range events {
		if i > 0 && e.rev <= events[i-1].rev {
			return fmt.Errorf("revision %d follows %d", e.rev, events[i-1].rev)
		}
		switch {
		case e.typ == watch.Added && there[e.name], e.typ != watch.Added && !there[e.name]:
			return fmt.Errorf("%s of %s at %d does not follow from what was told before", e.typ, e.name, e.rev)
		}
		there[e.name] = e.typ != watch.Deleted
	}
	return nil
}
