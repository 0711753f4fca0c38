package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/policy"
	admissionhooks "github.com/kloop-dev/kloop/admission/webhook"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/served"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/kit"
)

// How services become rules of the kernel.
const (
	ProxyNftables = "nftables"
	ProxyIPVS     = "ipvs"
	ProxyNone     = "none" // somebody else does it
)

// How pods reach those of other machines.
const (
	NetworkAuto      = wellknown.NetworkAuto
	NetworkVXLAN     = wellknown.NetworkVXLAN
	NetworkRoutes    = wellknown.NetworkRoutes
	NetworkWireGuard = wellknown.NetworkWireGuard
	NetworkNone      = "none" // somebody else makes the pod network, as Flannel, Calico or Cilium
)

func checkNetwork(mode string) error {
	switch mode {
	case "", NetworkAuto, NetworkVXLAN, NetworkRoutes, NetworkWireGuard, NetworkNone:
		return nil
	}
	return fmt.Errorf("network mode %q: use auto, vxlan, routes or wireguard, or none where another program makes the pod network", mode)
}

// check finds what can't be meant, before anything is opened.
func (c Config) check() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse((c.ServingCert == "") != (c.ServingKey == ""), "a serving certificate needs its key, and a key its certificate")
	refuse((c.SigningCert == "") != (c.SigningKey == ""), "the authority that signs requests needs its certificate and its key")
	refuse(c.TokenKey == "" && len(c.TokenKeys) > 0 && c.DataDir == "" && len(c.EtcdServers) > 0,
		"keys of service account tokens are given but none that signs")
	for what, d := range map[string]time.Duration{"node monitor grace": c.NodeMonitorGrace, "node monitor period": c.NodeMonitorPeriod,
		"autoscaler period": c.AutoscalerPeriod, "volume binder period": c.BinderPeriod} {
		refuse(d < 0, "%s of %s: can't be negative", what, d)
		refuse(d > 0 && d < 100*time.Millisecond, "%s of %s: use 100ms or more", what, d)
	}
	refuse(c.NodeName != "" && rule.Subdomain(c.NodeName) != nil, "node name %q: use lower case letters, digits, - and .", c.NodeName)
	errs = append(errs, c.Authn.check(), c.Authz.check(c.Authorization), c.checkNames())
	for _, at := range c.EtcdServers {
		_, _, err := net.SplitHostPort(at)
		refuse(err != nil && !strings.Contains(at, "://"), "etcd server %q: use a URL, as https://10.0.0.2:2379", at)
	}
	refuse(c.NodeCIDRBits6 < 0 || c.NodeCIDRBits6 > 128 || c.NodeCIDRBits4 < 0 || c.NodeCIDRBits4 > 32,
		"nodes' parts of the pod range: use prefixes of /1 to /32 for IPv4, /1 to /128 for IPv6")
	refuse(c.TraceExport != "" && !webURL(c.TraceExport), "where cascades go %q: use a URL, as http://collector:4318/v1/traces",
		c.TraceExport)
	refuse(c.ShutdownDelay < 0 || c.ShutdownDelay > maxShutdownDelay, "shutdown delay of %s: use 0 to %s", c.ShutdownDelay,
		maxShutdownDelay)
	switch c.LoadBalancer {
	case "", "nodes", "pools", "none":
	default:
		refuse(true, "load balancer mode %q: use nodes, pools, or none where another program gives the addresses", c.LoadBalancer)
	}
	if c.Machine != nil {
		errs = append(errs, c.Machine.Check(c))
	}
	if on, set := c.Features["KubeProxyIPVS"]; set && !on && c.ProxyMode == ProxyIPVS {
		errs = append(errs, errors.New("proxy mode ipvs needs the feature gate KubeProxyIPVS, which is set to false"))
	}
	_, err := inOrder(c.Authorization, nil)
	return errors.Join(append(errs, err, c.checkPods(), c.CheckNode(), checkPorts(c.NodePortLow, c.NodePortHigh))...)
}

// CheckNode finds what can't be meant among the settings that servers and nodes share.
func (c Config) CheckNode() error {
	_, _, _, err := c.Pressure.Limits()
	return errors.Join(err, checkProxy(c.ProxyMode, c.ProxyScheduler, c.IPVS), checkServices(c.ServiceCIDRs), c.DNS.check(),
		checkNetwork(c.Network), checkNodePortAddresses(c.NodePortAddresses))
}

// IPVS has the settings of ProxyIPVS beside its scheduler, as kube-proxy names them.
type IPVS struct {
	LooseARP bool           // the kernel answers ARP for services' addresses on every interface: no strictARP
	Exclude  []netip.Prefix // addresses whose virtual servers are somebody else's

	// How long the kernel remembers silent connections; 0: as it does.
	TCPTimeout, TCPFinTimeout, UDPTimeout time.Duration
}

func (i IPVS) none() bool {
	return !i.LooseARP && len(i.Exclude) == 0 && i.TCPTimeout == 0 && i.TCPFinTimeout == 0 && i.UDPTimeout == 0
}

// schedulers are those that Linux has, each in a module ip_vs_NAME.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh", "twos"}

func checkProxy(mode, scheduler string, settings IPVS) error {
	switch {
	case mode == ProxyIPVS && scheduler != "" && !slices.Contains(schedulers, scheduler):
		return fmt.Errorf("ipvs scheduler %q: use one of %s", scheduler, strings.Join(schedulers, ", "))
	case mode == ProxyIPVS && min(settings.TCPTimeout, settings.TCPFinTimeout, settings.UDPTimeout) < 0:
		return errors.New("a timeout of ipvs is negative")
	case mode == ProxyIPVS:
		return nil
	case mode != "" && mode != ProxyNftables && mode != ProxyNone:
		return fmt.Errorf("proxy mode %q: use nftables, ipvs, or none where another program serves the services", mode)
	case !settings.none():
		return errors.New("settings of ipvs need the proxy's mode ipvs")
	case scheduler != "":
		return fmt.Errorf("a scheduler of the proxy (%s) needs its mode ipvs: nftables chooses endpoints at random", scheduler)
	}
	return nil
}

// checkNames finds loops and plugins of admission that there are not, and what the scheduler can't be told.
func (c Config) checkNames() error {
	if len(c.AdmissionOn)+len(c.AdmissionOff) == 0 && c.SchedulerConfig == "" &&
		(len(c.Controllers) == 0 || slices.Equal(c.Controllers, []string{"*"})) {
		return nil
	}
	set := served.Set(c.on, c.RuntimeConfig, c.kinds())
	if c.Kit.Plugins == nil {
		return errNoAdmission
	}
	plugins := c.Kit.Plugins(admission.Config{Kinds: set})
	for _, name := range []string{policy.Mutating, policy.Validating, admissionhooks.MutatingName, admissionhooks.ValidatingName} {
		plugins = append(plugins, admission.Plugin{Name: name})
	}
	_, err := c.plugins(append(plugins, c.Kit.Admission...))
	if c.Kit.Loops == nil || c.NoLoops {
		return err
	}
	_, wrong := c.table(kit.Cluster{Kinds: set})
	return errors.Join(err, wrong)
}

func webURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func checkNodePortAddresses(words []string) error {
	for _, w := range words {
		if _, err := netip.ParsePrefix(w); err != nil && w != wellknown.NodePortPrimary {
			return fmt.Errorf("addresses of node ports %q: use %s or ranges such as 192.168.0.0/16", w, wellknown.NodePortPrimary)
		}
	}
	return nil
}

func checkServices(ranges []netip.Prefix) error {
	for i, p := range ranges {
		switch {
		case p.Addr().BitLen()-p.Bits() < 3:
			return fmt.Errorf("service CIDR %s: too small, at least eight addresses are needed", p)
		case i > 1 || i == 1 && p.Addr().Is4() == ranges[0].Addr().Is4():
			return errors.New("service CIDRs: one of IPv4 and one of IPv6 at most")
		}
	}
	return nil
}

func checkPorts(low, high int32) error {
	if low == 0 && high == 0 {
		return nil
	}
	if low < 1 || high > 65535 || low > high {
		return fmt.Errorf("node ports %d-%d: use a range within 1-65535, the lower port first", low, high)
	}
	return nil
}

// serviceCIDRs are the ranges of cluster IPs as text; nil: the default.
func (c Config) serviceCIDRs() (list []string) {
	for _, p := range c.ServiceCIDRs {
		list = append(list, p.Masked().String())
	}
	return list
}

// plugins are the admission plugins that are on.
func (c Config) plugins(all admission.Chain) (admission.Chain, error) {
	return chosen(all, c.AdmissionOn, c.AdmissionOff)
}

// resync is after which time all keys of a loop are looked at again; 0: the engine's.
func (c Config) resync(loop string) time.Duration {
	switch {
	case loop == "node-lifecycle":
		return c.NodeMonitorPeriod
	case strings.HasPrefix(loop, "volume-"):
		return c.BinderPeriod
	}
	return 0
}
