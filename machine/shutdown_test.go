package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/node"
)

func TestNodeShutdown(t *testing.T) {
	for _, c := range []struct {
		name string
		is   cluster.NodeShutdown
		want string // "": it is refused
	}{
		{"none", cluster.NodeShutdown{}, "[]"},
		{"one period", cluster.NodeShutdown{GracePeriod: time.Minute}, "[{0 1m0s} {2000000000 0s}]"},
		{"a share for critical pods",
			cluster.NodeShutdown{GracePeriod: time.Minute, GracePeriodCriticalPods: 10 * time.Second}, "[{0 50s} {2000000000 10s}]"},
		{"by priority",
			cluster.NodeShutdown{ByPodPriority: map[string]string{"1000": "30s", "-5": "1m", "0": "0s"}}, "[{-5 1m0s} {0 0s} {1000 30s}]"},
		{"share larger than the whole", cluster.NodeShutdown{GracePeriod: time.Second, GracePeriodCriticalPods: time.Minute}, ""},
		{"both ways", cluster.NodeShutdown{GracePeriod: time.Second, ByPodPriority: map[string]string{"1": "1s"}}, ""},
		{"priority that is no number", cluster.NodeShutdown{ByPodPriority: map[string]string{"high": "1s"}}, ""},
		{"negative period", cluster.NodeShutdown{ByPodPriority: map[string]string{"1": "-1s"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cfg node.Config
			if err := linger(c.is, &cfg); (err != nil) != (c.want == "") {
				t.Errorf("%+v: %v", c.is, err)
			} else if got := fmt.Sprint(cfg.Shutdown); err == nil && got != c.want {
				t.Errorf("%+v: %s, want %s", c.is, got, c.want)
			}
		})
	}
}
