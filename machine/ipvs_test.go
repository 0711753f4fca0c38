package machine

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/need"
)

// TestJoinedNodeIPVS: a joined node that is asked for IPVS reads what that needs, over HTTP and with its own certificate. It serves
// services by what its kernel has, and its Node names that, and what is missing.
func TestJoinedNodeIPVS(t *testing.T) {
	need.BeRoot(t)
	ctx, quiet := t.Context(), slog.New(slog.DiscardHandler)
	c, _ := started(t, cluster.Config{})
	if _, err := c.Client().Create(ctx, kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	mode := func(n *Config) { n.ProxyMode, n.ProxyScheduler = cluster.ProxyIPVS, "lc" }
	remote, gone := joinedClient(ctx, t, c, mode)
	defer gone()
	n := Config{Name: "n1", Address: netip.MustParseAddr("10.0.0.1"), Client: remote, ProxyClient: remote, Proxy: true, Log: quiet}
	mode(&n)
	run, stop := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, and its network with it
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = netlink.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1}}) // the loopback
		}
		if err != nil {
			ended <- err
			return
		}
		ended <- n.serveServices(run, func() { close(ready) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	wait(t, "the Node says which mode is in force", func() bool {
		node := resource.Get(c.Client().Read(), kinds.Nodes, "", "n1")
		for _, cond := range node.Status.Conditions {
			if cond.Type == wellknown.IPVSUnavailable {
				return cond.Status == corev1.ConditionFalse || strings.Contains(cond.Message, "ip_vs") && strings.Contains(cond.Message,
					"modprobe")
			}
		}
		return false
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
