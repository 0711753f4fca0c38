package rule

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Reachable refuses addresses that lead nowhere or to the machine itself, as those of endpoints must not.
func Reachable(s string, path *field.Path) field.ErrorList {
	a := netutils.ParseIPSloppy(s)
	if a == nil {
		return field.ErrorList{field.Invalid(path, s, "must be a valid IP address")}
	}
	for _, c := range []struct {
		bad  bool
		says string
	}{{a.IsUnspecified(), "may not be unspecified (" + s + ")"},
		{a.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{a.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{a.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"}} {
		if c.bad {
			return field.ErrorList{field.Invalid(path, s, c.says)}
		}
	}
	return nil
}
