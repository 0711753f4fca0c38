package clusters

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/forwarding"
	"github.com/kloop-dev/kloop/node/rootdir"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/podnetwork"
)

// Reset ends all that kloop runs in a data directory and removes what it made in this network namespace and on this machine: containers,
// mounts, bridge, links, tables, chains, logs, cgroups. Then it removes the directory, unless keep is set. It returns what could not be
// removed, in words. Named clusters are not touched: they have directories and networks of their own.
func Reset(dir string, keep bool) (left []string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := endClaimed(dir); err != nil {
		return nil, err
	}
	ranges, conf := podRanges(dir)
	left = dropHostPorts(podsBelow(dir))
	more, err := Sweep(dir)
	if left = append(left, more...); err != nil {
		return left, err
	}
	if err := errors.Join(dropTables(), dropNetwork(ranges)); err != nil {
		return left, err
	}
	if err := os.Remove(conf); err != nil && !errors.Is(err, os.ErrNotExist) {
		return left, fmt.Errorf("remove the CNI configuration: %w", err)
	}
	for _, d := range []string{shims, cniCache} { // made by containerd and the CNI library
		if os.Remove(d) == nil {
			_ = os.Remove(filepath.Dir(d)) // others may have something there
		}
	}
	if keep {
		return left, nil
	}
	for _, root := range agentRoots(dir) {
		if err := rootdir.Remove(root); err != nil {
			return left, err
		}
	}
	switch err := os.RemoveAll(dir); {
	case errors.Is(err, unix.EBUSY): // empty by now, but for that
		left = append(left, fmt.Sprintf("the data directory: a file system of its own is mounted there: %v", err))
	case err != nil:
		return left, fmt.Errorf("remove the data directory: %w", err)
	}
	return left, nil
}

// podRanges are the ranges of pods that the node of a directory had, by the CNI configuration of its runtime, and that file: of the node's
// own runtime, or of one that was there already.
func podRanges(dir string) (list []*net.IPNet, path string) {
	c := runtime.Config{Dir: filepath.Join(dir, "runtime")}
	path = c.OwnConfig()
	if _, err := os.Stat(path); err != nil {
		path = c.FormerConfig()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, ""
	}
	var conf struct {
		Plugins []struct {
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if json.Unmarshal(text, &conf) != nil {
		return nil, path
	}
	for _, p := range conf.Plugins {
		for _, set := range p.IPAM.Ranges {
			for _, r := range set {
				if _, n, err := net.ParseCIDR(r.Subnet); err == nil {
					list = append(list, n)
				}
			}
		}
	}
	return list, path
}

// dropNetwork removes the pods' bridge, if it has an address of the pods' range and nobody else's links, and the links that kloop names.
func dropNetwork(ranges []*net.IPNet) error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list the links: %w", err)
	}
	ours := func(l netlink.Link) bool {
		if strings.HasPrefix(l.Attrs().Name, "kloop-") {
			return true
		}
		if l.Attrs().Name != podnetwork.Bridge {
			return false
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		for _, a := range addrs {
			for _, r := range ranges {
				if err == nil && r.Contains(a.IP) {
					return true
				}
			}
		}
		return false
	}
	for _, l := range links {
		if ours(l) {
			if e := dropLink(l.Attrs().Name); e != nil {
				err = errors.Join(err, e)
			}
		}
	}
	return errors.Join(err, dropRoutes(podnetwork.Protocol), dropRoutes(forwarding.RouteProtocol))
}

// dropRoutes removes those that have a number of kloop's.
func dropRoutes(protocol netlink.RouteProtocol) error {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	for i := range routes {
		if e := netlink.RouteDel(&routes[i]); e != nil && !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, fmt.Errorf("remove the route to %s: %w", routes[i].Dst, e))
		}
	}
	return err
}

// dropTables removes the nftables tables of nodes. Those of named clusters begin with kloop-cluster.
func dropTables() error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	tables, err := c.ListTables()
	if err != nil {
		return fmt.Errorf("list the tables of the packet filter: %w", err)
	}
	for _, t := range tables {
		if t.Name == "kloop" || strings.HasPrefix(t.Name, "kloop-") && !strings.HasPrefix(t.Name, "kloop-cluster-") {
			c.DelTable(t)
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("remove the tables of the packet filter: %w", err)
	}
	return nil
}

// dropHostPorts has the CNI plugin portmap take its rules back: it knows them by the pod's sandbox, and best itself where they are.
// What the plugin made for all pods, chains that lead nowhere, goes when no rule is left in them.
func dropHostPorts(pods map[string]bool) (left []string) {
	for _, path := range cachedFor(pods) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if err := dropPorts(text); err != nil {
			left = append(left, fmt.Sprintf("host ports of %s: %v", filepath.Base(path), err))
		}
	}
	for _, name := range []string{"iptables", "ip6tables"} {
		dropEmptyChains(name)
	}
	return left
}

// dropPorts calls the plugin for one sandbox, with what the CNI library remembers of it.
func dropPorts(cache []byte) error {
	var kept struct {
		ContainerID, IfName, NetworkName, Config string
		CapabilityArgs                           map[string]json.RawMessage
	}
	if err := json.Unmarshal(cache, &kept); err != nil || kept.NetworkName != "kloop" {
		return err
	}
	text, err := base64.StdEncoding.DecodeString(kept.Config)
	if err != nil {
		return err
	}
	var conf struct {
		CNIVersion string
		Plugins    []map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &conf); err != nil {
		return err
	}
	for _, p := range conf.Plugins {
		if string(p["type"]) != `"portmap"` {
			continue
		}
		in, err := json.Marshal(map[string]any{"cniVersion": conf.CNIVersion, "name": kept.NetworkName, "type": "portmap",
			"runtimeConfig": map[string]json.RawMessage{"portMappings": kept.CapabilityArgs["portMappings"]}})
		if err != nil {
			return err
		}
		dir := pluginDir()
		cmd := exec.Command(filepath.Join(dir, "portmap"))
		cmd.Stdin = bytes.NewReader(in)
		cmd.Env = append(os.Environ(), "CNI_COMMAND=DEL", "CNI_CONTAINERID="+kept.ContainerID, "CNI_IFNAME="+kept.IfName, "CNI_PATH="+dir,
			"CNI_NETNS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// pluginDir is the directory of the CNI plugins.
func pluginDir() string {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		if _, err := os.Stat(filepath.Join(dir, "portmap")); err == nil {
			return dir
		}
	}
	return ""
}

// dropEmptyChains removes the chains of the plugin portmap, and the rules that lead there, when no pod has a host port any more: other
// users of the plugin may be on the machine.
func dropEmptyChains(program string) {
	out, err := exec.Command(program, "-w", "5", "-t", "nat", "-S").Output()
	if err != nil {
		return // no such program, no such table
	}
	var rules []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "-A CNI-HOSTPORT-DNAT "), strings.HasPrefix(line, "-A CNI-DN-"):
			return // in use
		case strings.HasPrefix(line, "-A ") && strings.Contains(line, "CNI-HOSTPORT-"):
			rules = append(rules, "-D"+strings.TrimPrefix(line, "-A"))
		}
	}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "-N CNI-HOSTPORT-"); ok {
			rules = append(rules, "-X CNI-HOSTPORT-"+name)
		}
	}
	for _, r := range rules {
		_ = exec.Command(program, append([]string{"-w", "5", "-t", "nat"}, unquoted(r)...)...).Run() // what stays is seen by those who look
	}
}

// unquoted are the arguments in a rule that iptables printed, which quotes those with spaces and escapes within with backslashes.
func unquoted(rule string) (args []string) {
	var arg strings.Builder
	began, quoted := false, false
	for i := 0; i < len(rule); i++ {
		switch c := rule[i]; {
		case c == '"':
			began, quoted = true, !quoted
		case c == ' ' && !quoted:
			if began {
				args = append(args, arg.String())
			}
			arg.Reset()
			began = false
		default:
			if c == '\\' && quoted && i+1 < len(rule) {
				i++
			}
			began = true
			arg.WriteByte(rule[i])
		}
	}
	if began {
		args = append(args, arg.String())
	}
	return args
}

// RunningPods counts the pods that go on running below a data directory when kloop has stopped: each has a shim.
func RunningPods(dir string) (n int) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline") // fails on bad patterns only
	for _, p := range procs {
		text, err := os.ReadFile(p)
		if err == nil && bytes.HasPrefix(program(text), []byte("containerd-shim")) && names(text, dir) {
			n++
		}
	}
	return n
}

// program cuts a command line: it begins with the last part of its program's path.
func program(line []byte) []byte {
	path, _, _ := bytes.Cut(line, []byte{0})
	return line[bytes.LastIndexByte(path, '/')+1:]
}
