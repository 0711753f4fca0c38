package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// resolvText writes a configuration as the runtime writes the file.
func resolvText(c *cri.DNSConfig) string {
	var lines []string
	for _, s := range c.Servers {
		lines = append(lines, "nameserver "+s)
	}
	if len(c.Searches) > 0 {
		lines = append(lines, "search "+strings.Join(c.Searches, " "))
	}
	if len(c.Options) > 0 {
		lines = append(lines, "options "+strings.Join(c.Options, " "))
	}
	return strings.Join(lines, "\n")
}

func TestResolvConf(t *testing.T) {
	host := &cri.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"corp.example", "svc.cluster.local"},
		Options: []string{"rotate", "ndots:2"}}
	five := "5"
	const first = "nameserver 10.96.0.10\nsearch shop.svc.cluster.local svc.cluster.local cluster.local corp.example\noptions ndots:5"
	for _, tt := range []struct {
		name, policy string
		hostNetwork  bool
		more         *corev1.PodDNSConfig
		want         string
	}{
		{"", "ClusterFirst", false, nil, first},
		{"", "ClusterFirstWithHostNet", true, nil, first},
		{"", "ClusterFirst", true, nil, "nameserver 192.0.2.53\nsearch corp.example svc.cluster.local\noptions rotate ndots:2"},
		{"", "Default", false, nil, "nameserver 192.0.2.53\nsearch corp.example svc.cluster.local\noptions rotate ndots:2"},
		{"", "None", false, &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}, Searches: []string{"a.example"},
			Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &five}, {Name: "edns0"}}},
			"nameserver 1.1.1.1\nsearch a.example\noptions ndots:5 edns0"},
		{"options by name", "Default", false, &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &five}}},
			"nameserver 192.0.2.53\nsearch corp.example svc.cluster.local\noptions rotate ndots:5"},
		{"no doubles", "ClusterFirst", false, &corev1.PodDNSConfig{Nameservers: []string{"10.96.0.10", "1.1.1.1"},
			Searches: []string{"cluster.local", "b.example"}},
			"nameserver 10.96.0.10\nnameserver 1.1.1.1\nsearch shop.svc.cluster.local svc.cluster.local cluster.local corp.example b.example\n" +
				"options ndots:5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"},
				Spec: corev1.PodSpec{DNSPolicy: corev1.DNSPolicy(tt.policy), HostNetwork: tt.hostNetwork, DNSConfig: tt.more}}
			conf := resolvConf(pod, dnsPolicy(pod), host, []netip.Addr{netip.MustParseAddr("10.96.0.10")}, "cluster.local")
			if got := resolvText(conf); got != tt.want {
				t.Errorf("%s %s:\n%s\nwant\n%s", tt.policy, tt.name, got, tt.want)
			}
		})
	}
	if got := resolvText(host); !strings.HasPrefix(got, "nameserver 192.0.2.53\nsearch corp.example svc.cluster.local\n") {
		t.Errorf("the host's own configuration changed: %s", got)
	}
}

func TestResolvBounds(t *testing.T) {
	conf := &cri.DNSConfig{Servers: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"}}
	for i := range 40 {
		conf.Searches = append(conf.Searches, fmt.Sprintf("%d.example", i))
	}
	if w := cutDNS(conf); len(w) != 2 || len(conf.Servers) != maxServers || len(conf.Searches) != maxSearch {
		t.Errorf("%d servers, %d search paths: %v", len(conf.Servers), len(conf.Searches), w)
	}
	conf = &cri.DNSConfig{Searches: slices.Repeat([]string{strings.Repeat("a", 200)}, 20)}
	if w := cutDNS(conf); len(w) != 1 || len(conf.Searches) != 10 { // ten and the nine spaces between them
		t.Errorf("%d search paths: %v", len(conf.Searches), w)
	}
	if w := cutDNS(&cri.DNSConfig{Servers: []string{"1.1.1.1"}}); w != nil {
		t.Error(w)
	}
}

func TestHostDNS(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub := write("stub", "nameserver 127.0.0.53\nsearch lan.\noptions edns0\n")
	real := write("real", "# behind the stub\nnameserver 192.0.2.1\nsearch lan. . corp.example\n")
	for _, tt := range []struct{ path, behind, want string }{
		{real, stub, "nameserver 192.0.2.1\nsearch lan corp.example"},
		{stub, real, "nameserver 192.0.2.1\nsearch lan corp.example"},
		{stub, filepath.Join(dir, "none"), "nameserver 127.0.0.53\nsearch lan\noptions edns0"},
		{filepath.Join(dir, "none"), real, ""},
	} {
		t.Run(tt.path, func(t *testing.T) {
			conf, err := hostDNS(tt.path, tt.behind)
			if err != nil {
				t.Fatal(err)
			}
			if got := resolvText(conf); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.path, got, tt.want)
			}
		})
	}
}

// The hosts file has the pod's addresses and names, or is the machine's on its network; what the pod adds stands in both.
func TestHostsFile(t *testing.T) {
	own, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	st := testAgent(t).starter
	pod := testPod(never, "", "a")
	pod.Spec.Hostname, pod.Spec.Subdomain = "me", "sub"
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "10.9.9.9", Hostnames: []string{"a.test", "b.test"}},
		{IP: "fd00::9", Hostnames: []string{"c.test"}}}
	box := &sandbox{ips: []string{"10.1.0.9", "fd00::1"}}
	if err := os.MkdirAll(st.podDir(pod.UID), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, host := range []bool{false, true} {
		pod.Spec.HostNetwork = host
		path, err := st.hostsFile(pod, box)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		begins, ends := "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n", "10.1.0.9\tme.sub.d.svc.cluster.local\tme\n"+
			"fd00::1\tme.sub.d.svc.cluster.local\tme\n"
		if host {
			begins, ends = "# Kubernetes-managed hosts file (host network).\n"+string(own), ""
		}
		ends += "\n# Entries added by HostAliases.\n10.9.9.9\ta.test\tb.test\nfd00::9\tc.test\n"
		if got := string(text); !strings.HasPrefix(got, begins) || !strings.HasSuffix(got, ends) {
			t.Errorf("on the host's network: %t: %s", host, got)
		}
	}
}

// A hosts file that can't be written leaves the one as it was that other containers of the pod have, and one that is right is not written.
func TestHostsFileOnFullDisk(t *testing.T) {
	st := testAgent(t).starter
	pod, box := testPod(never, "", "a"), &sandbox{ips: []string{"10.1.0.9"}}
	if err := os.MkdirAll(st.podDir(pod.UID), 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := st.hostsFile(pod, box)
	if err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, ip string
		fails    bool
	}{{"the same", "10.1.0.9", false}, {"another address", "10.1.0.10", true}} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.Symlink("/dev/full", path+".new"); err != nil {
				t.Fatal(err)
			}
			box.ips[0] = c.ip
			if _, err := st.hostsFile(pod, box); (err != nil) != c.fails {
				t.Error(err)
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != string(was) {
				t.Errorf("%v: %s", err, now)
			}
			_ = os.Remove(path + ".new")
		})
	}
}
