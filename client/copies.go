package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// copies remembers which sources of a Remote can't be copied, and why.
type copies struct {
	mu     sync.Mutex
	failed map[schema.GroupResource]error
}

// note says what became of the watch of a kind; nil: nothing is wrong.
func (c *copies) note(k resource.Kind, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failed, k.Info().GR())
		return
	}
	if c.failed == nil {
		c.failed = map[schema.GroupResource]error{}
	}
	c.failed[k.Info().GR()] = err
}

// Trouble says, for people, which kinds can't be copied now and why; "" when nothing is known to be wrong.
func (r *Remote) Trouble() string {
	r.copies.mu.Lock()
	defer r.copies.mu.Unlock()
	var list []string
	for gr, err := range r.copies.failed {
		list = append(list, fmt.Sprintf("%s: %v", gr, err))
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// Open copies one more source until ctx ends, beside those of Run; synced is called once, when its copy is complete. It returns
// when ctx has ended.
func (r *Remote) Open(ctx context.Context, s Source, synced func()) {
	r.follow(ctx, s, &tableOf{r.view, s.Kind}, sync.OnceFunc(synced))
}

// Forget drops the copy of a kind that is gone for good, and the kind with it.
func (r *Remote) Forget(k resource.Kind) error {
	r.set.Remove(k.Info().GR())
	return r.view.Drop(k.Info().GR())
}
