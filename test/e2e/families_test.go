//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// familiesOf writes addresses as the variable families does.
func familiesOf(ips []string) string {
	text := ""
	for _, ip := range ips {
		a, err := netip.ParseAddr(ip)
		switch {
		case err != nil:
			return err.Error()
		case a.Is4():
			text += "4"
		default:
			text += "6"
		}
	}
	return text
}

const tellsAddresses = `
        env:
        - {name: POD_IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
        - {name: HOST_IPS, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}
`

// TestFamilies: nodes, pods and services have the addresses of the cluster's families, the default one first; pods on two nodes reach each
// other at every address of theirs, services at every cluster IP, and the names of services have a record for each.
func TestFamilies(t *testing.T) {
	join(t)
	ns := space(t)
	startClient(t, ns)
	const port = "  ports: [{port: 80"
	apply(t, ns, strings.Replace(web("web", 2, tellsAddresses+spreadOver("web")), port, "  ipFamilyPolicy: PreferDualStack\n"+port, 1))
	rolledOut(t, ns, "web")
	for _, n := range nodes {
		obj, err := it.client.CoreV1().Nodes().Get(context.Background(), n.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var ips []string
		for _, a := range obj.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				ips = append(ips, a.Address)
			}
		}
		if got := familiesOf(ips); got != families || len(obj.Spec.PodCIDRs) != len(families) {
			t.Errorf("node %s has addresses %v and pod ranges %v, want the families %s", n.name, ips, obj.Spec.PodCIDRs, families)
		}
	}
	svc, err := it.client.CoreV1().Services(ns).Get(context.Background(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := familiesOf(svc.Spec.ClusterIPs); got != families {
		t.Errorf("the service has the addresses %v", svc.Spec.ClusterIPs)
	}
	reach := func(ip, want string) {
		t.Helper()
		eventually(t, ip+" answers", func() (bool, string) {
			out, err := it.try("exec", "-n", ns, "client", "--", "timeout", "3", "wget", "-q", "-O", "-", "http://"+host(ip)+"/hostname")
			return err == nil && strings.HasPrefix(out, want), fmt.Sprint(out, err)
		})
	}
	met := map[string]bool{}
	for _, p := range pods(t, ns, "web") {
		met[p.Spec.NodeName] = true
		tellsOwn(t, ns, &p)
		for _, ip := range p.Status.PodIPs {
			reach(ip.IP, p.Name)
		}
		crosses(t, ns, &p)
	}
	if len(met) != 2 {
		t.Errorf("the pods are on %v, want both nodes", met)
	}
	for _, ip := range svc.Spec.ClusterIPs {
		reach(ip, "web-")
		eventually(t, "the name has the record "+ip, func() (bool, string) {
			out, err := it.try("exec", "-n", ns, "client", "--", "nslookup", "web."+ns+".svc.cluster.local")
			return err == nil && strings.Contains(out, ip), fmt.Sprint(out, err)
		})
	}
}

// crosses checks the way from the first node to a pod of the second one: the tunnel when a router lies between, else a plain route. The
// API server's proxy takes it from the machine itself, and the pod's link leaves room for the tunnel's headers.
func crosses(t *testing.T, ns string, p *corev1.Pod) {
	t.Helper()
	if p.Spec.NodeName != nodes[1].name {
		return
	}
	link := "eth0"
	if routed {
		link = "kloop-vx"
	}
	for _, ip := range p.Status.PodIPs {
		out, err := exec.Command("ip", "-n", nodes[0].ns, "route", "get", ip.IP).CombinedOutput()
		if err != nil || !strings.Contains(string(out), " dev "+link+" ") {
			t.Errorf("the way to %s: %s %v, want it over %s", ip.IP, out, err, link)
		}
	}
	if out := kubectl(t, "get", "--raw", "/api/v1/namespaces/"+ns+"/pods/"+p.Name+":80/proxy/hostname"); !strings.HasPrefix(out, p.Name) {
		t.Errorf("the API server gets %q from %s", out, p.Name)
	}
	mtu := "1450"
	if families[0] == '6' {
		mtu = "1430"
	}
	if out := kubectl(t, "exec", "-n", ns, p.Name, "--", "cat", "/sys/class/net/eth0/mtu"); out != mtu {
		t.Errorf("the link of %s takes packets of %s bytes, want %s", p.Name, out, mtu)
	}
}

// tellsOwn compares the addresses in a pod's status with those that it is told of itself.
func tellsOwn(t *testing.T, ns string, p *corev1.Pod) {
	t.Helper()
	var ips, hosts []string
	for _, ip := range p.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	for _, ip := range p.Status.HostIPs {
		hosts = append(hosts, ip.IP)
	}
	if familiesOf(ips) != families || familiesOf(hosts) != families || ips[0] != p.Status.PodIP || hosts[0] != p.Status.HostIP {
		t.Errorf("pod %s on %s has %v, its node %v", p.Name, p.Spec.NodeName, ips, hosts)
	}
	out := kubectl(t, "exec", "-n", ns, p.Name, "--", "sh", "-c", "echo $POD_IPS $HOST_IPS")
	if want := strings.Join(ips, ",") + " " + strings.Join(hosts, ","); out != want {
		t.Errorf("pod %s is told %q, want %q", p.Name, out, want)
	}
}
