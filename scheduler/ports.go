package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// A port is a port of the node that a pod takes; ip "" stands for all addresses.
type port struct {
	ip    string
	proto corev1.Protocol
	num   int32
}

var portTaken = &refusal{plugin: nodePorts, reasons: []string{"node(s) didn't have free ports for the requested pod ports"}}

// portsOf lists the host ports of containers and sidecars.
func portsOf(p *corev1.Pod) (list []port) {
	collect := func(c *corev1.Container) {
		for _, cp := range c.Ports {
			if cp.HostPort <= 0 {
				continue
			}
			x := port{cp.HostIP, cp.Protocol, cp.HostPort}
			if x.ip == "0.0.0.0" || x.ip == "::" {
				x.ip = ""
			}
			if x.proto == "" {
				x.proto = corev1.ProtocolTCP
			}
			list = append(list, x)
		}
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; podspec.Sidecar(c) {
			collect(c)
		}
	}
	for i := range p.Spec.Containers {
		collect(&p.Spec.Containers[i])
	}
	return list
}

func (s *nodeInfo) takePort(p port, n int) {
	if s.ports == nil {
		s.ports = map[port]int{}
	}
	if s.ports[p] += n; s.ports[p] <= 0 {
		delete(s.ports, p)
	}
}

func noPorts(o *nodeVerdicts) bool { return len(o.need.ports) == 0 }

// checkPorts is the plugin NodePorts: no host port twice; an address conflicts with itself and with "all".
func checkPorts(o *nodeVerdicts, s *nodeInfo) *refusal {
	for _, want := range o.need.ports {
		for have := range s.ports {
			if have.num == want.num && have.proto == want.proto && (have.ip == want.ip || have.ip == "" || want.ip == "") {
				return portTaken
			}
		}
	}
	return nil
}
