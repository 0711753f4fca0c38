package node

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	conflicts "k8s.io/client-go/util/retry"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/userns"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// How often a node renews its lease unless told otherwise, and how often it writes its status though nothing changed (KEP-0009).
const (
	leaseEvery  = 10 * time.Second
	leaseFor    = 40
	statusEvery = 5 * time.Minute
)

// version is the agent's, as nodeInfo tells it.
const version = "v" + features.Release

// nodeStatus registers the Node, keeps its status true and renews its lease.
type nodeStatus struct {
	*common
	clean  *cleaner
	evict  *evictor
	untold atomic.Bool // the last write of the status failed
	gone   atomic.Bool // the Node was deleted, and the log says so
}

// register makes sure that the Node exists, with what the agent knows of it.
func (ns *nodeStatus) register(ctx context.Context) error {
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns.cfg.Name, Labels: ns.labels()}, Spec: corev1.NodeSpec{Taints: ns.cfg.Taints}}
	if ns.cfg.Plugins {
		want.Annotations = map[string]string{attachNote: "true"}
	}
	for _, p := range ns.cfg.PodCIDRs {
		want.Spec.PodCIDRs = append(want.Spec.PodCIDRs, p.Masked().String())
		want.Spec.PodCIDR = want.Spec.PodCIDRs[0]
	}
	ns.meter.Registers()
	cur, err := ns.node(ctx)
	if err == nil && want.Spec.PodCIDR != "" && cur.Spec.PodCIDR != "" && !slices.Equal(want.Spec.PodCIDRs, cur.Spec.PodCIDRs) {
		ns.log.Warn("the Node has other pod ranges, and they can't be changed: delete the Node first", "has", cur.Spec.PodCIDRs,
			"wanted", want.Spec.PodCIDRs)
	}
	switch {
	case err != nil && !apierrors.IsNotFound(err):
	case apierrors.IsNotFound(err):
		if _, err = ns.cfg.Client.Create(ctx, kinds.Nodes, want); err == nil {
			ns.meter.Registered()
		}
	case err == nil && (!has(cur.Labels, want.Labels) || !has(cur.Annotations, want.Annotations) ||
		cur.Spec.PodCIDR == "" && want.Spec.PodCIDR != ""):
		change := map[string]any{"metadata": map[string]any{"labels": want.Labels, "annotations": want.Annotations}}
		if cur.Spec.PodCIDR == "" && want.Spec.PodCIDR != "" { // it can be set once
			change["spec"] = map[string]any{"podCIDR": want.Spec.PodCIDR, "podCIDRs": want.Spec.PodCIDRs}
		}
		var patch []byte
		if patch, err = json.Marshal(change); err == nil {
			_, err = ns.cfg.Client.Patch(ctx, kinds.Nodes, "", ns.cfg.Name, client.Patch{Type: types.MergePatchType, Data: patch})
		}
	}
	if err != nil {
		return fmt.Errorf("register node %s: %w", ns.cfg.Name, err)
	}
	if ns.cfg.Plugins {
		if err := ns.clean.vols.CSI().Open(ctx); err != nil {
			return fmt.Errorf("make the CSINode of node %s: %w", ns.cfg.Name, err)
		}
	}
	return ns.writeStatus(ctx)
}

// has says that all holds every pair of some.
func has(all, some map[string]string) bool {
	for k, v := range some {
		if have, ok := all[k]; !ok || have != v {
			return false
		}
	}
	return true
}

func (ns *nodeStatus) labels() map[string]string {
	labels := map[string]string{corev1.LabelHostname: ns.cfg.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: goruntime.GOARCH,
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": goruntime.GOARCH}
	maps.Copy(labels, ns.cfg.Labels)
	return labels
}

func (ns *nodeStatus) node(ctx context.Context) (*corev1.Node, error) {
	obj, err := ns.cfg.Client.Get(ctx, kinds.Nodes, "", ns.cfg.Name)
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Node), nil
}

// keepStatus keeps the status true until ctx ends.
func (ns *nodeStatus) keepStatus(ctx context.Context) {
	for wrote := time.Now(); ; {
		if time.Since(wrote) > statusEvery || ns.untold.Load() || ns.statusChanged() {
			if err := ns.writeStatus(ctx); err != nil && ctx.Err() == nil {
				ns.complain("write the node's status", err)
			} else {
				wrote = time.Now()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(ns.cfg.Beat):
		}
	}
}

// statusChanged says that somebody else overwrote the Ready condition: a server that did not hear from the node; that volumes are named
// that are not in use any more; or that there is no Node to be seen.
func (ns *nodeStatus) statusChanged() bool {
	n := resource.Get(ns.cfg.Client.Read(), kinds.Nodes, "", ns.cfg.Name)
	if n == nil {
		return true // it was deleted, perhaps: the server knows
	}
	if ns.cfg.Plugins && !slices.Equal(n.Status.VolumesInUse, ns.clean.vols.CSI().Fill(n.Status.VolumesInUse)) {
		return true
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue
		}
	}
	return true
}

// writeStatus tells what the node has and how it is. Resources that others put into the status stay. What could not be written is written
// with the next heartbeat.
func (ns *nodeStatus) writeStatus(ctx context.Context) error {
	seen := ns.askRuntime(ctx)
	var was, is corev1.NodeStatus
	err := conflicts.RetryOnConflict(patient, func() error {
		cur, err := ns.node(ctx)
		if err != nil {
			return err
		}
		next := resource.Clone(cur)
		ns.fill(&next.Status, seen)
		was, is = cur.Status, next.Status
		if equality.Semantic.DeepEqual(cur.Status, next.Status) {
			return nil
		}
		_, err = ns.cfg.Client.Update(ctx, kinds.Nodes, next, "status")
		return err
	})
	if ns.untold.Store(err != nil); err == nil {
		ns.gone.Store(false)
		ns.announce(&was, &is)
	}
	return err
}

// announce makes events of what has become of the node.
func (ns *nodeStatus) announce(was, is *corev1.NodeStatus) {
	if is.NodeInfo.BootID != was.NodeInfo.BootID && was.NodeInfo.BootID != "" {
		ns.nodeEvent(corev1.EventTypeWarning, "Rebooted", "Node %s has been rebooted, boot id: %s", ns.cfg.Name, is.NodeInfo.BootID)
	}
	now := readyNow(is)
	if now == corev1.ConditionTrue {
		ns.meter.Ready()
	}
	if now != readyNow(was) {
		reason := "NodeNotReady"
		if now == corev1.ConditionTrue {
			reason = "NodeReady"
		}
		ns.nodeEvent(corev1.EventTypeNormal, reason, "Node %s status is now: %s", ns.cfg.Name, reason)
	}
}

// readyNow is the status of the node's condition Ready; "": it has none.
func readyNow(st *corev1.NodeStatus) corev1.ConditionStatus {
	for _, c := range st.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// patient outlasts all who write a Node when it is new: loops that label, taint and number it, drivers, and the agent's own parts. It is
// some five seconds; the node does not start without its status.
var patient = wait.Backoff{Steps: 10, Duration: 5 * time.Millisecond, Factor: 2, Jitter: 0.5}

// A runtimeAnswer holds the words of the runtime about the node. On a busy machine it takes its time, and others write the Node meanwhile:
// it is had before the Node is read.
type runtimeAnswer struct {
	info    corev1.NodeSystemInfo
	status  *cri.StatusResponse // nil: it did not answer
	trouble string
	images  []corev1.ContainerImage
	listed  bool // images are those that it has
}

// runtimePatience bounds the questions to the runtime for the node's status. One that does not answer is down.
const runtimePatience = time.Minute

func (ns *nodeStatus) askRuntime(ctx context.Context) runtimeAnswer {
	ctx, cancel := context.WithTimeout(ctx, runtimePatience)
	defer cancel()
	s := runtimeAnswer{info: ns.info(ctx)}
	s.images, s.listed = ns.imageList(ctx)
	s.trouble, _ = ns.trouble(ctx)
	if res, err := ns.cfg.Runtime.Containers.Status(ctx, &cri.StatusRequest{}); err == nil {
		s.status = res
	}
	return s
}

func (ns *nodeStatus) fill(st *corev1.NodeStatus, seen runtimeAnswer) {
	if st.Capacity == nil {
		st.Capacity, st.Allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	}
	own := ns.capacity()
	maps.Copy(st.Capacity, own)
	for name, q := range st.Capacity {
		st.Allocatable[name] = q
	}
	maps.Copy(st.Allocatable, ns.spare(own))
	ns.hardware.count(st)
	st.Addresses = nil
	for _, ip := range ns.cfg.hostIPs() {
		st.Addresses = append(st.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	st.Addresses = append(st.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: ns.cfg.Name})
	st.DaemonEndpoints.KubeletEndpoint.Port = int32(ns.cfg.Port)
	seen.info.ContainerRuntimeVersion = cmp.Or(seen.info.ContainerRuntimeVersion, st.NodeInfo.ContainerRuntimeVersion)
	st.NodeInfo = seen.info
	st.DeclaredFeatures = declared
	if seen.status != nil {
		st.RuntimeHandlers = handlers(seen.status)
		st.Features = nil
		if f := seen.status.GetFeatures(); f != nil {
			st.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: new(f.SupplementalGroupsPolicy)}
		}
	}
	ns.setConditions(st, seen.trouble)
	if seen.listed {
		st.Images = seen.images
	}
	if ns.cfg.Plugins {
		st.VolumesInUse = ns.clean.vols.CSI().Fill(st.VolumesInUse)
	}
}

// declared are the features that pods may need of a node, in order: the scheduler and admission look for them (KEP-5328).
var declared = []string{"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
	"RestartAllContainersOnContainerExits"}

func (ns *nodeStatus) info(ctx context.Context) corev1.NodeSystemInfo {
	info := corev1.NodeSystemInfo{Architecture: goruntime.GOARCH, OperatingSystem: "linux", KubeletVersion: version,
		MachineID: firstLine("/etc/machine-id"), BootID: firstLine("/proc/sys/kernel/random/boot_id"),
		SystemUUID:    cmp.Or(firstLine("/sys/class/dmi/id/product_uuid"), firstLine("/etc/machine-id")),
		KernelVersion: firstLine("/proc/sys/kernel/osrelease"), OSImage: osName()}
	info.RunningInUserNamespace = new(userns.Inside())
	if ns.terms.swap > 0 {
		info.Swap = &corev1.NodeSwapStatus{Capacity: &ns.terms.swap}
	}
	if v, err := ns.cfg.Runtime.Containers.Version(ctx, &cri.VersionRequest{}); err == nil {
		info.ContainerRuntimeVersion = v.RuntimeName + "://" + plainVersion(v.RuntimeVersion)
	}
	return info
}

// plainVersion is a runtime's version as the kubelet writes it: without v, and without what a distribution adds. A text that is no version
// stays.
func plainVersion(text string) string {
	if v, err := utilversion.ParseSemantic(text); err == nil {
		return v.String()
	}
	if v, err := utilversion.ParseGeneric(text); err == nil {
		return v.String()
	}
	return text
}

// firstLine reads one fact of the system; what can't be read is empty.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

func osName() string {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return "Linux"
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if name, ok := strings.CutPrefix(in.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"`)
		}
	}
	return "Linux"
}

// setConditions judges the node's health: ready when the runtime and its network are.
func (ns *nodeStatus) setConditions(st *corev1.NodeStatus, trouble string) {
	ready, why, text := corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
	if ns.down.Load() {
		trouble = "node is shutting down"
	}
	if trouble != "" {
		ready, why, text = corev1.ConditionFalse, "KubeletNotReady", trouble
	}
	now := metav1.Now()
	set := func(t corev1.NodeConditionType, s corev1.ConditionStatus, reason, message string) {
		c := corev1.NodeCondition{Type: t, Status: s, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
		for i, old := range st.Conditions {
			if old.Type == t {
				if old.Status == s {
					c.LastTransitionTime = old.LastTransitionTime
				}
				st.Conditions[i] = c
				return
			}
		}
		st.Conditions = append(st.Conditions, c)
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if p := pressureTexts[c]; ns.evict.lacks(c) {
			set(c, corev1.ConditionTrue, p.pressed, p.says)
		} else {
			set(c, corev1.ConditionFalse, p.calm, p.fine)
		}
	}
	set(corev1.NodeReady, ready, why, text)
}

// pressureTexts are the reasons and messages of the pressure conditions, as the kubelet has them.
var pressureTexts = map[corev1.NodeConditionType]struct{ pressed, says, calm, fine string }{
	corev1.NodeMemoryPressure: {"KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
		"KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
	corev1.NodeDiskPressure: {"KubeletHasDiskPressure", "kubelet has disk pressure", "KubeletHasNoDiskPressure",
		"kubelet has no disk pressure"},
	corev1.NodePIDPressure: {"KubeletHasInsufficientPID", "kubelet has insufficient PID available",
		"KubeletHasSufficientPID", "kubelet has sufficient PID available"},
}

// The bounds of the images that the status lists, as upstream's.
const (
	maxImages = 50
	maxNames  = 5 // of one image
)

// imageList tells the largest images that the node has: the scheduler prefers nodes that need not pull them. false: nobody knows.
func (ns *nodeStatus) imageList(ctx context.Context) ([]corev1.ContainerImage, bool) {
	res, err := ns.cfg.Runtime.Images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return nil, false
	}
	return imageStatuses(res.Images), true
}

func imageStatuses(images []*cri.Image) (list []corev1.ContainerImage) {
	images = slices.SortedStableFunc(slices.Values(images), func(a, b *cri.Image) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Id, b.Id))
	})
	for _, i := range images[:min(len(images), maxImages)] {
		names := slices.Concat(i.RepoDigests, i.RepoTags)
		list = append(list, corev1.ContainerImage{Names: names[:min(len(names), maxNames)], SizeBytes: int64(i.Size)})
	}
	return list
}
