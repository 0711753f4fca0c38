package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// Nodes declares the kind. A node agent registers its node with the status in place.
var Nodes = &resource.Def[*corev1.Node]{
	GVK: gvk("Node"), Plural: "nodes", Short: []string{"no"}, Storage: "minions",
	Quirks: resource.Quirks{MetaNewFirst: true},
	Status: true, KeepStatus: true,
	Default: defaultNode, Prepare: resource.Serving(prepareNode), PrepareStatus: resource.Serving(prepareNode),
	Validate: resource.Serving(validateNode), ValidateStatus: resource.Serving(validateNodeUpdate),
	Warn:    resource.Serving(warnNode),
	Connect: []resource.SubInfo{{Name: "proxy", GVK: gvk("NodeProxyOptions"), Verbs: doAll}},
	Select: []resource.Field[*corev1.Node]{
		{Label: "spec.unschedulable", Value: func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) }},
	},
	Columns: []resource.Column[*corev1.Node]{
		resource.Col("Status", "string", func(n *corev1.Node) any { return nodeStatus(n) }),
		resource.Col("Roles", "string", func(n *corev1.Node) any { return nodeRoles(n) }),
		resource.Age[*corev1.Node](),
		resource.Col("Version", "string", func(n *corev1.Node) any { return n.Status.NodeInfo.KubeletVersion }),
		resource.Wide("Internal-IP", "string", func(n *corev1.Node) any { return nodeAddress(n, corev1.NodeInternalIP) }),
		resource.Wide("External-IP", "string", func(n *corev1.Node) any { return nodeAddress(n, corev1.NodeExternalIP) }),
		resource.Wide("OS-Image", "string", func(n *corev1.Node) any { return cell.Or(n.Status.NodeInfo.OSImage, unknown) }),
		resource.Wide("Kernel-Version", "string", func(n *corev1.Node) any { return nodeKernel(n) }),
		resource.Wide("Container-Runtime", "string", func(n *corev1.Node) any {
			return cell.Or(n.Status.NodeInfo.ContainerRuntimeVersion, unknown)
		}),
	},
}

const unknown = "<unknown>"

// defaultNode also keeps the first of the pod ranges and the old single field the same; the latter decides.
func defaultNode(n *corev1.Node) {
	if len(n.Status.Allocatable) == 0 && n.Status.Capacity != nil { // what is stored as protobuf knows no empty list
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	podspec.RoundResources(n.Status.Capacity)
	podspec.RoundResources(n.Status.Allocatable)
	switch s := &n.Spec; {
	case s.PodCIDR == "" && len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	}
}

// prepareNode forgets a source of configuration: node agents no longer know the feature.
func prepareNode(n, old *corev1.Node) {
	if old == nil || old.Spec.ConfigSource == nil {
		n.Spec.ConfigSource = nil
	}
	if old == nil || old.Status.Config == nil {
		n.Status.Config = nil
	}
	if old == nil || old.Spec.PodPreemptionPolicy == nil {
		n.Spec.PodPreemptionPolicy = nil // its feature is off
	}
}

// nodeStatus is the column STATUS: Unknown while no agent has reported.
func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			status = "Ready"
		default:
			status = "NotReady"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

const (
	rolePrefix = "node-role.kubernetes.io/"
	roleLabel  = "kubernetes.io/role"
)

// nodeRoles is the column ROLES, read off labels alone: kubernetes has no other notion of a role.
func nodeRoles(n *corev1.Node) string {
	roles := map[string]bool{}
	for k, v := range n.Labels {
		if role, ok := strings.CutPrefix(k, rolePrefix); ok && role != "" {
			roles[role] = true
		}
		if k == roleLabel && v != "" {
			roles[v] = true
		}
	}
	return cell.Or(strings.Join(slices.Sorted(maps.Keys(roles)), ","), cell.None)
}

func nodeAddress(n *corev1.Node, t corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			return a.Address
		}
	}
	return cell.None
}

func nodeKernel(n *corev1.Node) string {
	switch i := n.Status.NodeInfo; {
	case i.Architecture == "":
		return cell.Or(i.KernelVersion, unknown)
	default:
		return fmt.Sprintf("%s (%s)", cell.Or(i.KernelVersion, unknown), i.Architecture)
	}
}

// FakeNode is the annotation that makes a node a simulated one; its value is "fake". It is kwok's.
const FakeNode = "kwok.x-k8s.io/node"

// Simulated says whether a node, and so each of its pods, lives in simulation: nobody answers at their addresses.
func Simulated(n *corev1.Node) bool { return n != nil && n.Annotations[FakeNode] == "fake" }
