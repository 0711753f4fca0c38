package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// What a simulated node has when its Node does not say.
var capacity = corev1.ResourceList{
	corev1.ResourceCPU:    apiresource.MustParse("8"),
	corev1.ResourceMemory: apiresource.MustParse("16Gi"),
	corev1.ResourcePods:   apiresource.MustParse("110"),
}

// nodeLoop brings simulated nodes up.
//
//	reads   Node
//	writes  Node: status
//	rule    every simulated node is ready and has capacity
func nodeLoop(hosts []string) loop.Loop {
	return &loop.Controller[*corev1.Node]{
		Name:   "sim-node",
		For:    kinds.Nodes,
		Writes: []resource.Kind{kinds.Nodes},
		Skip:   func(n *corev1.Node) bool { return !alive(n) },
		Reconcile: func(ctx context.Context, c *loop.Ctx, n *corev1.Node) (time.Duration, error) {
			if n.DeletionTimestamp != nil || up(n) {
				return 0, nil
			}
			next := resource.Clone(n)
			next.Status = running(n, c.Now(), hosts)
			return 0, c.UpdateStatus(ctx, kinds.Nodes, next)
		},
	}
}

func up(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// running is the status of a node that is up.
func running(n *corev1.Node, at time.Time, hosts []string) corev1.NodeStatus {
	st := *n.Status.DeepCopy()
	now := metav1.NewTime(at)
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"},
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
	} {
		c.Message, c.LastHeartbeatTime, c.LastTransitionTime = "simulated", now, now
		if i := slices.IndexFunc(st.Conditions, func(old corev1.NodeCondition) bool { return old.Type == c.Type }); i >= 0 {
			st.Conditions[i] = c
		} else {
			st.Conditions = append(st.Conditions, c) // those of others stay
		}
	}
	st.Addresses = nil
	for _, a := range hosts {
		st.Addresses = append(st.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	st.Addresses = append(st.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.Name})
	if len(st.Capacity) == 0 {
		st.Capacity = capacity.DeepCopy()
	}
	if len(st.Allocatable) == 0 {
		st.Allocatable = st.Capacity.DeepCopy()
	}
	st.Phase = corev1.NodeRunning
	st.NodeInfo = corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: "v" + features.Release,
		OSImage:                 "kloop simulation",
		ContainerRuntimeVersion: "sim://1", KernelVersion: "6.0", MachineID: n.Name, SystemUUID: string(n.UID), BootID: string(n.UID)}
	return st
}

// Nodes makes n simulated nodes, sim-0 to sim-(n-1). Those that exist stay as they are.
func Nodes(ctx context.Context, c client.Client, n int) error {
	_, err := loop.Batch(n, func(i int) error {
		name := fmt.Sprintf("sim-%d", i)
		_, err := c.Create(ctx, kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{Fake: "fake", managed: "true", Agent: "yes"},
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
				"type": "simulated"}}})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	return err
}
