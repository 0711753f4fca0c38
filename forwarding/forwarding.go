// Package forwarding has the kernel pass packets on that are not for this machine: IPv4's ip_forward and what IPv6 has in its place.
package forwarding

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// RouteProtocol marks the route that the service proxy gives cluster IPs on a machine without a default one.
const RouteProtocol = 89

// On turns forwarding of one family on, in the network namespace of this thread, and logs it if it was off. A kernel without the family
// has nothing to forward: that is no error.
func On(v6 bool, log *slog.Logger) error {
	knob := "/proc/sys/net/ipv4/ip_forward"
	if v6 {
		knob = "/proc/sys/net/ipv6/conf/all/forwarding"
	}
	switch have, err := os.ReadFile(knob); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil && strings.TrimSpace(string(have)) == "1":
		return nil
	}
	if v6 {
		if err := keepRoutes(); err != nil {
			return fmt.Errorf("keep the routes that routers announce: %w", err)
		}
	}
	if err := os.WriteFile(knob, []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let the node forward packets: %w", err)
	}
	log.Info("the kernel forwards packets from now on, for services and pods", "knob", knob)
	return nil
}

// keepRoutes has interfaces that take their routes from IPv6 routers go on doing so: a kernel that forwards packets takes no more by
// itself, and the machine would lose its default route.
func keepRoutes() error {
	files, err := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_ra")
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || strings.TrimSpace(string(text)) != "1" {
			continue // the interface has gone, or takes none
		}
		if err := os.WriteFile(f, []byte("2"), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
