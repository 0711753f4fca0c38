package causes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// nodes are the ways in which nodes are not well, and pods with them.
func nodes() []converge.Situation {
	return []converge.Situation{
		{Name: "NodeSilent", Of: []resource.Kind{kinds.Nodes}, See: node(nodeSilent)},
		{Name: "NodeNeverReported", Of: []resource.Kind{kinds.Nodes}, See: node(nodeNeverReported)},
		{Name: "NodeReportsTrouble", Of: []resource.Kind{kinds.Nodes}, See: node(nodeReportsTrouble)},
		{Name: "NodeNotTakenUp", Of: []resource.Kind{kinds.Nodes}, See: node(nodeNotTakenUp)},
		{Name: "PodNodeMissing", Of: []resource.Kind{kinds.Pods}, See: podNodeMissing},
		{Name: "PodNodeNotReady", Of: []resource.Kind{kinds.Pods}, See: podNodeNotReady},
	}
}

// nodeNotTakenUp: a program is to look at a new node before it is used, and has not, or waits for something.
func nodeNotTakenUp(_ *converge.Look, n *corev1.Node) *converge.Finding {
	t := health.StartupTaint(n)
	if t == nil {
		return nil
	}
	f := &converge.Finding{Says: "waits until a program takes its taint " + t.ToString() + " away", State: converge.Waiting,
		Next:   converge.Does("the program of "+t.Key, "takes the taint away when the node may be used"),
		Advice: []string{"look at its pod there: kubectl get pods -A --field-selector spec.nodeName=" + n.Name}}
	f.Owner = f.Next.Who
	if s, ok := words.Meaning(Taints, t.Key); ok {
		f.Advice = strings.Split(s.Advice(), "\n")
	}
	return f
}

func node(see func(l *converge.Look, n *corev1.Node) *converge.Finding) func(l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding { return see(l, l.Obj.(*corev1.Node)) }
}

// nodeSilent is Ready=Unknown, which the loop node-lifecycle writes in the agent's place: the time of the last sign is the Lease's, since
// the conditions' own heartbeats come minutes apart.
func nodeSilent(l *converge.Look, n *corev1.Node) *converge.Finding {
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady || c.Status != corev1.ConditionUnknown || c.Reason == neverUpdated {
			continue
		}
		agent := "node agent on " + n.Name
		f := &converge.Finding{Says: "has not been heard of", Owner: agent, State: converge.Missing,
			Waits: converge.On("Node", converge.Ref{Kind: kinds.Leases, NS: corev1.NamespaceNodeLease, Name: n.Name}, "spec.renewTime"),
			Next:  converge.Does(agent, "reports again when it runs and reaches the API server"),
			Advice: []string{"look whether the machine is up and its node agent runs and reaches the API server",
				"if it is gone for good: kubectl delete node " + n.Name}}
		if lease := resource.Get(l.Read, kinds.Leases, corev1.NamespaceNodeLease, n.Name); lease != nil && lease.Spec.RenewTime != nil {
			f.Says += fmt.Sprintf(" since %s", lease.Spec.RenewTime.UTC().Format("15:04:05 MST"))
		}
		for _, r := range resource.List(l.Read, kinds.CertificateSigningRequests, "") {
			if r.Spec.Username == "system:node:"+n.Name && len(r.Status.Conditions) == 0 {
				f.Aside = "it asks for a certificate, which nobody has approved: certificatesigningrequest/" + r.Name
				f.Advice = append([]string{"kubectl certificate approve " + r.Name}, f.Advice...)
				break
			}
		}
		return f
	}
	return nil
}

// neverUpdated is the node lifecycle's reason for a node that no agent ever spoke for.
const neverUpdated = "NodeStatusNeverUpdated"

// nodeNeverReported is a Node that somebody made by hand, or a cloud for a machine whose agent did not start.
func nodeNeverReported(_ *converge.Look, n *corev1.Node) *converge.Finding {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Reason != neverUpdated {
			return nil
		}
	}
	agent := "node agent on " + n.Name
	return &converge.Finding{Says: "was created and no node agent ever reported for it", Owner: agent, State: converge.Missing,
		Next: converge.Does(agent, "reports when it starts"),
		Advice: []string{"start the node agent on the machine, with this node's name: kloop node",
			"or delete the node: kubectl delete node " + n.Name}}
}

// nodeReportsTrouble is a condition of the agent's own: False for Ready, True for each kind of pressure.
func nodeReportsTrouble(l *converge.Look, n *corev1.Node) *converge.Finding {
	for _, c := range n.Status.Conditions {
		if !health.BadFor(&c) {
			continue
		}
		agent := "node agent on " + n.Name
		f := &converge.Finding{Says: fmt.Sprintf("reports %s: %s", cmp.Or(c.Reason, string(c.Type)), c.Message), Owner: agent,
			State: converge.Blocked,
			Waits: converge.On("Field", converge.Ref{Kind: kinds.Nodes, NS: "", Name: n.Name}, fmt.Sprintf("status.conditions[%s]",
				c.Type)), Next: converge.Does(agent,
				"reports again when that is over"), Advice: []string{troubleAdvice(n, &c)}}
		if strings.Contains(strings.ToLower(c.Message), "network") {
			if f.Below = servants(l.World, n.Name); len(f.Below) == 0 {
				unserved(l, f, n)
			}
		}
		return f
	}
	return nil
}

// unserved tells of a DaemonSet in the network of nodes, as a network plugin is, that runs on none of them for want of a label.
func unserved(l *converge.Look, f *converge.Finding, n *corev1.Node) {
	for _, d := range resource.List(l.Read, kinds.DaemonSets, "") {
		t := &d.Spec.Template.Spec
		if !t.HostNetwork || len(t.NodeSelector) == 0 || d.Status.DesiredNumberScheduled > 0 || d.Status.ObservedGeneration < d.Generation {
			continue
		}
		r, lacks := converge.RefTo(kinds.DaemonSets, d), ""
		for _, key := range slices.Sorted(maps.Keys(t.NodeSelector)) {
			if value := t.NodeSelector[key]; n.Labels[key] != value {
				lacks += " " + key + "=" + value
			}
		}
		if lacks == "" {
			continue
		}
		f.Says += "; daemonset/" + d.Name + " in namespace " + d.Namespace + " runs on no node: it asks for the label" + lacks
		f.Advice = []string{"if that is to run here: kubectl label node " + n.Name + lacks + " --overwrite"}
		if near, body := Reselect(l.World, t); near != "" {
			f.Says += near
			f.Advice = []string{"if that is meant: kubectl patch daemonset " + d.Name + " -n " + d.Namespace + " -p '" + body + "'"}
		} else if key, _, _ := strings.Cut(lacks[1:], "="); n.Labels[key] != "" {
			f.Says += ", and the node has " + key + "=" + n.Labels[key]
			f.Advice = []string{"if that is meant: " + converge.Merged(r, n.Labels[key], "spec", "template", "spec", "nodeSelector", key)}
		}
		f.Waits = converge.On("Object", r, "spec.template.spec.nodeSelector")
		return
	}
}

// troubleAdvice holds what helps a node that reports a condition.
func troubleAdvice(n *corev1.Node, c *corev1.NodeCondition) string {
	low := strings.ToLower(c.Message)
	switch {
	case c.Type == wellknown.IPVSUnavailable:
		return "run the commands of the message on " + n.Name + ", which goes over to IPVS by itself; or take the proxy's mode nftables"
	case strings.Contains(strings.ToLower(string(c.Type)), "readonly"):
		return "its disk may be broken: drain it, check the file system, and start the machine anew" + drained(n.Name)
	case strings.Contains(string(c.Type), "Deadlock") || strings.Contains(string(c.Type), "Kernel"):
		return "drain it, and start the machine anew; what the kernel says: dmesg on " + n.Name + drained(n.Name)
	case c.Type == corev1.NodeDiskPressure:
		return "free disk space on " + n.Name + ": images and logs that nobody needs (on it: crictl rmi --prune), or give it a larger disk"
	case c.Type == corev1.NodeMemoryPressure || c.Type == corev1.NodePIDPressure:
		return "have fewer pods on " + n.Name + ", or pods with limits; see who uses most: kubectl top pods -A --sort-by=memory"
	case c.Type == wellknown.SilentPeers:
		return "let UDP port 51820 through between the machines, look whether the other nodes are up: kloop why node/NAME"
	case c.Type == corev1.NodeNetworkUnavailable && strings.Contains(c.Message, "modprobe"):
		return "on " + n.Name + ": modprobe wireguard, and a line wireguard in /etc/modules-load.d/kloop.conf for the next start"
	case c.Reason == wellknown.PodNetworkTrouble && strings.Contains(c.Message, "overlaps that of node"):
		return "give it another pod range: restart its agent after: kubectl delete node " + n.Name
	case c.Reason == wellknown.PodNetworkTrouble:
		return "see on " + n.Name + " which routes its kernel has (ip route; ip -6 route), and what the agent may not do: docs/network.md"
	case c.Type == corev1.NodeNetworkUnavailable || strings.Contains(low, "cni") || strings.Contains(low, "network"):
		return "look whether the network plugin is installed, and at its pod there: kubectl get pods -A --field-selector spec.nodeName=" +
			n.Name
	}
	return "look at the node agent's log and the container runtime on " + n.Name
}

// drained is the command that has the pods of a node go elsewhere.
func drained(node string) string {
	return ": kubectl drain " + node + " --ignore-daemonsets --delete-emptydir-data"
}

// podNodeMissing waits for the collector of pods, which makes sure for a while that the node is gone.
func podNodeMissing(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	if p.Spec.NodeName == "" || resource.Get(l.Read, kinds.Nodes, "", p.Spec.NodeName) != nil || !l.Sees(kinds.Nodes, "") {
		return nil
	}
	r := converge.Ref{Kind: kinds.Nodes, NS: "", Name: p.Spec.NodeName}
	f := &converge.Finding{Says: "is on node " + p.Spec.NodeName + ", which does not exist", Owner: "pod-garbage-collector",
		State: converge.Waiting,
		Waits: converge.On("Node", r, ""),
		Next:  converge.Does("pod-garbage-collector", "deletes the pod")}
	return f
}

// podNodeNotReady comes before what the pod's containers say: their states are the last that the node told, and may be long past.
func podNodeNotReady(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	n := resource.Get(l.Read, kinds.Nodes, "", p.Spec.NodeName)
	if p.Spec.NodeName == "" || n == nil || l.Health(kinds.Nodes, n).Converged() || general.NodeReady(n) || p.Spec.HostNetwork &&
		!unheard(n) {
		return nil
	}
	r := converge.RefTo(kinds.Nodes, n)
	return &converge.Finding{Says: "is on node " + n.Name + ", which is not ready", Owner: converge.AgentOf(p), State: converge.Blocked,
		Waits: converge.On("Node", r, "status.conditions[Ready]"),
		Next:  converge.Does("taint-eviction", "deletes the pod when it has tolerated the node's taints for long enough"),
		Below: []converge.Ref{r}}
}

// unheard says that a node's agent tells nothing any more: what is known of its pods may be long past.
func unheard(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}
