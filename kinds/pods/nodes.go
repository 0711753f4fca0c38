package pods

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// Nodes completes the kind. A node agent registers its node with the status in place.
var Nodes = resource.Complete(core.Nodes, func(d *resource.Def[*corev1.Node]) {
	d.Quirks = resource.Quirks{MetaNewFirst: true}
	d.KeepStatus = true
	d.Default = defaultNode
	d.Prepare = resource.Serving(prepareNode)
	d.PrepareStatus = resource.Serving(prepareNode)
	d.Gated.Validate = resource.Serving(validateNode)
	d.ValidateStatus = resource.Serving(validateNodeUpdate)
	d.Warn = resource.Serving(warnNode)
	d.Columns = []resource.Column[*corev1.Node]{
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
	}
})

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
