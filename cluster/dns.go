package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/kloop-dev/kloop/dns"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// ClusterDNS says how pods find names. Servers and nodes must agree on it.
type ClusterDNS struct {
	Off       bool         // agents serve no DNS: somebody else brings one
	Addresses []netip.Addr // cluster IPs of the Service kube-system/kube-dns; none: the tenth address of each service range
	Domain    string       // "": cluster.local
	Upstreams []string     // name servers for other names, ADDRESS or ADDRESS:PORT; none: those of the host's resolv.conf
	Stubs     []string     // stub domains: DOMAIN=ADDRESS or DOMAIN=ADDRESS:PORT, as often as it has servers
}

// addresses are those of the cluster DNS. With DNS switched off and none named, agents look for a Service kube-dns.
func (d ClusterDNS) addresses(services []netip.Prefix) []netip.Addr {
	if len(d.Addresses) > 0 || d.Off {
		return d.Addresses
	}
	if len(services) == 0 {
		services = DefaultServiceCIDRs()
	}
	var list []netip.Addr
	for _, p := range services {
		list = append(list, tenth(p))
	}
	return list
}

// tenth is the tenth address of a range, as kubeadm has it, or the last that a small one can give.
func tenth(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr()
	for range 10 {
		if next := a.Next(); p.Contains(next.Next()) {
			a = next
		}
	}
	return a
}

// published are the addresses under which the loop cluster-dns publishes the DNS; none: it publishes nothing.
func (d ClusterDNS) published(services []netip.Prefix) []netip.Addr {
	if d.Off {
		return nil
	}
	return d.addresses(services)
}

// check finds what can't be meant.
func (d ClusterDNS) check() error {
	var errs []error
	for _, text := range d.Upstreams {
		_, err := dns.ParseServer(text)
		errs = append(errs, err)
	}
	stubs, err := d.stubs()
	if len(d.Addresses) > 2 {
		errs = append(errs, errors.New("addresses of the cluster DNS: one of IPv4 and one of IPv6 at most"))
	}
	if d.Domain != "" && rule.Subdomain(strings.TrimSuffix(d.Domain, ".")) != nil {
		errs = append(errs, fmt.Errorf("domain of the cluster %q: use a DNS name, as cluster.local", d.Domain))
	}
	return errors.Join(append(errs, err, dns.Config{Stubs: stubs}.Check())...)
}

func (d ClusterDNS) stubs() (map[string][]string, error) {
	stubs := map[string][]string{}
	for _, text := range d.Stubs {
		domain, server, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("stub domain %q: use DOMAIN=ADDRESS or DOMAIN=ADDRESS:PORT", text)
		}
		stubs[domain] = append(stubs[domain], server)
	}
	return stubs, nil
}

// Server configures the DNS servers of nodes, but for what each of them is. The settings were checked.
func (d ClusterDNS) Server(services []netip.Prefix) dns.Config {
	c := dns.Config{Domain: d.Domain, Cluster: d.addresses(services)}
	c.Stubs, _ = d.stubs()
	for _, text := range d.Upstreams {
		if a, err := dns.ParseServer(text); err == nil {
			c.Upstreams = append(c.Upstreams, a)
		}
	}
	return c
}
