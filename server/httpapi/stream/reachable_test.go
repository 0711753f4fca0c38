package stream

import (
	"net"
	"strings"
	"testing"
)

// The server dials what a pod or a node says of itself, so an address that leads to the server's own machine or network is refused.
func TestReachable(t *testing.T) {
	for host, want := range map[string]bool{"10.0.0.1": true, "fd00::1": true, "203.0.113.9": true, "0.0.0.0": false, "::": false,
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "::ffff:127.0.0.1": false, "169.254.169.254": false, "fe80::1": false,
		"224.0.0.1": false, "ff02::1": false, "255.255.255.255": false, "localhost": false, "": false} {
		t.Run(host, func(t *testing.T) {
			if err := reachable(host); (err == nil) != want {
				t.Errorf("%q: %v", host, err)
			}
			if want || net.ParseIP(host) == nil {
				return
			}
			if _, err := dialGlobal(t.Context(), "tcp", net.JoinHostPort(host, "80")); err == nil ||
				!strings.Contains(err.Error(), "address not allowed") {
				t.Errorf("dialled %q: %v", host, err)
			}
		})
	}
}
