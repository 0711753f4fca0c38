package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// How often a node that is not ready asks its runtime again: a new node waits for its network only some tenths of a second.
const (
	healthFirst = 100 * time.Millisecond
	healthLast  = 2 * time.Second
	networkWait = time.Second // between two looks of a pod that waits for its network
)

// trouble asks the runtime what keeps the node from being ready, in the kubelet's words. network: only pods on the host's network can run.
func (c *common) trouble(ctx context.Context) (text string, network bool) {
	res, err := c.cfg.Runtime.Containers.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return fmt.Sprintf("container runtime is down: %v", err), false
	}
	var list []string
	for _, cond := range res.GetStatus().GetConditions() {
		what := map[string]string{cri.RuntimeReady: "container runtime not ready",
			cri.NetworkReady: "container runtime network not ready"}[cond.Type]
		if cond.Status || what == "" {
			continue
		}
		network = network || cond.Type == cri.NetworkReady
		list = append(list, fmt.Sprintf("%s: %s=false reason:%s message:%s", what, cond.Type, cond.Reason, cond.Message))
	}
	if len(list) > 1 {
		return "[" + strings.Join(list, ", ") + "]", network
	}
	return strings.Join(list, ""), network
}

// networked says whether there is a network for the pod. Pods on the host's network need none: those of CNI plugins are such.
func (a *Agent) networked(ctx context.Context, c *loop.Ctx, pod *corev1.Pod) bool {
	if pod.Spec.HostNetwork {
		return true
	}
	text, network := a.trouble(ctx)
	if network {
		a.event(pod, "", corev1.EventTypeWarning, "NetworkNotReady", "network is not ready: %s", text)
		c.Waiting("network is not ready: %s", text)
	}
	return !network
}

// watchHealth writes the node's status as soon as its runtime or network comes, and soon after it goes.
func (ns *nodeStatus) watchHealth(ctx context.Context) {
	pause, bad := healthFirst, false
	for {
		within, cancel := context.WithTimeout(ctx, runtimePatience)
		text, _ := ns.trouble(within)
		if cancel(); ctx.Err() != nil {
			return
		}
		if ns.statusChanged() != (text != "") {
			if err := ns.writeStatus(ctx); err != nil && ctx.Err() == nil {
				ns.complain("write the node's status", err)
			}
		}
		switch {
		case text != "" && !bad:
			pause = healthFirst
		case text != "":
			pause = min(2*pause, healthLast)
		default:
			pause = ns.cfg.Beat
		}
		bad = text != ""
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// misplaced says that a sandbox has an address that is none of its node's, where the pod network is kloop's: the node came back with
// another range, and no packet finds such a pod.
func (c *common) misplaced(ips []string) bool {
	n := resource.Get(c.cfg.Client.Read(), kinds.Nodes, "", c.cfg.Name)
	if !c.cfg.OwnNetwork || n == nil || len(n.Spec.PodCIDRs) == 0 || len(ips) == 0 {
		return false
	}
	return slices.ContainsFunc(ips, func(ip string) bool {
		addr, err := netip.ParseAddr(ip)
		return err == nil && !slices.ContainsFunc(n.Spec.PodCIDRs, func(text string) bool {
			p, err := netip.ParsePrefix(text)
			return err == nil && p.Contains(addr.Unmap())
		})
	})
}

// moved wakes all pods of the node when the node gets another range, or another volume is attached to it.
func (a *Agent) moved(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	n, ok := c.New.(*corev1.Node)
	if !ok || n.Name != a.cfg.Name {
		return
	}
	old, ok := c.Old.(*corev1.Node)
	if ok && (!a.cfg.OwnNetwork || slices.Equal(old.Spec.PodCIDRs, n.Spec.PodCIDRs)) &&
		slices.Equal(old.Status.VolumesAttached, n.Status.VolumesAttached) {
		return
	}
	for _, p := range a.pods() {
		wake(p.Namespace, p.Name)
	}
}

// hostIPs are the node's addresses, of one family or both.
func (c *Config) hostIPs() []string {
	list := []string{c.Address.String()}
	if c.Second.IsValid() {
		list = append(list, c.Second.String())
	}
	return list
}

// inOrder puts the address of the family of the node's own first, as the kubelet does: it is the pod's status.podIP.
func (c *Config) inOrder(ips []string) []string {
	rank := func(ip string) int {
		if a, err := netip.ParseAddr(ip); err == nil && a.Unmap().Is4() == c.Address.Is4() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(ips, func(a, b string) int { return rank(a) - rank(b) })
	return ips
}
