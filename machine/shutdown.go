package machine

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/node"
)

// criticalPriority is the least of pods that a cluster can't do without.
const criticalPriority = 2000000000

// linger fills in an agent's configuration, or says what can't be meant.
func linger(n cluster.NodeShutdown, cfg *node.Config) error {
	if len(n.ByPodPriority) == 0 {
		if n.GracePeriodCriticalPods < 0 || n.GracePeriodCriticalPods > n.GracePeriod {
			return fmt.Errorf("shutdownGracePeriodCriticalPods is %v, and shutdownGracePeriod, which it is a part of, %v",
				n.GracePeriodCriticalPods, n.GracePeriod)
		}
		if n.GracePeriod > 0 {
			cfg.Shutdown = []node.ShutdownGrace{{Priority: 0, Grace: n.GracePeriod - n.GracePeriodCriticalPods},
				{Priority: criticalPriority, Grace: n.GracePeriodCriticalPods}}
		}
		return nil
	}
	if n.GracePeriod != 0 || n.GracePeriodCriticalPods != 0 {
		return errors.New("shutdownGracePeriodByPodPriority takes the place of shutdownGracePeriod and shutdownGracePeriodCriticalPods: set one")
	}
	for priority, grace := range n.ByPodPriority {
		p, err := strconv.ParseInt(priority, 10, 32)
		d, derr := time.ParseDuration(grace)
		if err != nil || derr != nil || d < 0 {
			return fmt.Errorf("shutdownGracePeriodByPodPriority: %s=%s: want PRIORITY=DURATION, as 1000=30s", priority, grace)
		}
		cfg.Shutdown = append(cfg.Shutdown, node.ShutdownGrace{Priority: int32(p), Grace: d})
	}
	coldsort.Func(cfg.Shutdown, func(a, b node.ShutdownGrace) int { return cmp.Compare(a.Priority, b.Priority) })
	return nil
}
