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
		is   cluster.NodeShutdown
		want string // "": it is refused
	}{
		{cluster.NodeShutdown{}, "[]"},
		{cluster.NodeShutdown{GracePeriod: time.Minute}, "[{0 1m0s} {2000000000 0s}]"},
		{cluster.NodeShutdown{GracePeriod: time.Minute, GracePeriodCriticalPods: 10 * time.Second}, "[{0 50s} {2000000000 10s}]"},
		{cluster.NodeShutdown{ByPodPriority: map[string]string{"1000": "30s", "-5": "1m", "0": "0s"}}, "[{-5 1m0s} {0 0s} {1000 30s}]"},
		{cluster.NodeShutdown{GracePeriod: time.Second, GracePeriodCriticalPods: time.Minute}, ""},
		{cluster.NodeShutdown{GracePeriod: time.Second, ByPodPriority: map[string]string{"1": "1s"}}, ""},
		{cluster.NodeShutdown{ByPodPriority: map[string]string{"high": "1s"}}, ""},
		{cluster.NodeShutdown{ByPodPriority: map[string]string{"1": "-1s"}}, ""},
	} {
		var cfg node.Config
		if err := linger(c.is, &cfg); (err != nil) != (c.want == "") {
			t.Errorf("%+v: %v", c.is, err)
		} else if got := fmt.Sprint(cfg.Shutdown); err == nil && got != c.want {
			t.Errorf("%+v: %s, want %s", c.is, got, c.want)
		}
	}
}
