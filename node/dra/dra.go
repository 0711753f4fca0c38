// Package dra prepares the devices of resource claims on a node (KEP-4381, KEP-3063): it has DRA drivers make them ready before a pod
// starts, tells which CDI devices its containers get, and has drivers take them back after the last pod that uses a claim.
//
//	reads   ResourceClaims of the node's pods; drivers, by v1 and v1beta1 of DRAPlugin and DRAResourceHealth
//	writes  DIR/dra_manager_state; ResourceSlice: delete, of drivers that are gone
//	rule    a claim is prepared as long as a pod on the node uses it, and no longer
package dra

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
)

// Config says where the node is and who wants to know of changes. The functions are called without locks held, from any goroutine.
type Config struct {
	Node   string // its name
	Dir    string // the agent's root directory
	Boot   string // names the run of the machine since it was switched on: what was prepared before is prepared anew
	Client client.Client
	Came   func()          // a driver registered: pods that wait for it may start
	Health func(types.UID) // the health of a device that the pod uses has changed
	Log    *slog.Logger    // nil: the default
}

// Claims holds what is prepared on the node, and by whom. Make it with New. Safe for concurrent use.
type Claims struct {
	cfg Config
	log *slog.Logger

	life context.Context // of the connections to drivers
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	drivers map[string][]*driver // by name; the last one is asked
	of      map[types.UID]*claim
	busy    map[types.UID]chan struct{} // claims that a driver is being asked about; closed when it has answered
	health  map[deviceID]health
}

// A claim is prepared, or may be: from before a driver is asked to prepare it until the driver has taken it back.
type claim struct {
	UID             types.UID
	Namespace, Name string
	Pods            []types.UID // that use it
	Drivers         map[string]*part
}

// A part holds the devices that one driver has in a claim.
type part struct {
	Asked    bool // the driver may have prepared it
	Prepared bool
	Devices  []device
}

type device struct {
	Requests     []string // of the claim; none: all
	Pool, Device string
	Share        string   `json:",omitempty"`
	CDI          []string // names
}

type deviceID struct{ driver, pool, device string }

// callWithin bounds how long a driver may take for one call, as in the kubelet.
const callWithin = 45 * time.Second

// New returns what the last agent left.
func New(cfg Config) *Claims {
	c := &Claims{cfg: cfg, log: cmp.Or(cfg.Log, slog.Default()), drivers: map[string][]*driver{}, of: map[types.UID]*claim{},
		busy: map[types.UID]chan struct{}{}, health: map[deviceID]health{}}
	c.life, c.end = context.WithCancel(context.Background())
	c.load()
	return c
}

// Held says that some claim may be prepared for the pod.
func (c *Claims) Held(pod types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.used(pod)) > 0
}

// used are the claims of a pod. c is locked.
func (c *Claims) used(pod types.UID) (list []*claim) {
	for _, k := range c.of {
		if slices.Contains(k.Pods, pod) {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b *claim) int { return cmp.Compare(a.UID, b.UID) })
	return list
}

// lock waits until nobody asks drivers about the claims, and keeps others from it until unlock is called. uids are in ascending order.
func (c *Claims) lock(ctx context.Context, uids []types.UID) (unlock func(), err error) {
	var held []types.UID
	unlock = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, uid := range held {
			close(c.busy[uid])
			delete(c.busy, uid)
		}
	}
	for _, uid := range uids {
		for {
			c.mu.Lock()
			other := c.busy[uid]
			if other == nil {
				c.busy[uid] = make(chan struct{})
				held = append(held, uid)
			}
			c.mu.Unlock()
			if other == nil {
				break
			}
			select {
			case <-other:
			case <-ctx.Done():
				unlock()
				return nil, ctx.Err()
			}
		}
	}
	return unlock, nil
}

// Sweep takes back what pods have that are gone, when they were removed without their agent: all but used.
func (c *Claims) Sweep(ctx context.Context, used map[types.UID]bool) (err error) {
	c.mu.Lock()
	gone := map[types.UID]bool{}
	for _, k := range c.of {
		for _, pod := range k.Pods {
			gone[pod] = !used[pod]
		}
	}
	c.mu.Unlock()
	for pod, is := range gone {
		if is {
			err = cmp.Or(err, c.Unprepare(ctx, pod))
		}
	}
	return err
}

// Wants says that the pod uses claims.
func Wants(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}
