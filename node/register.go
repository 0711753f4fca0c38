package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	goruntime "runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/client"
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
const version = "v1.37.2"

// register makes sure that the Node exists, with what the agent knows of it.
func (a *Agent) register(ctx context.Context) error {
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.cfg.Name, Labels: a.labels()}, Spec: corev1.NodeSpec{Taints: a.cfg.Taints}}
	cur, err := a.node(ctx)
	switch {
	case apierrors.IsNotFound(err):
		_, err = a.cfg.Client.Create(ctx, kinds.Nodes, want)
	case err == nil && !has(cur.Labels, want.Labels):
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"labels": want.Labels}}); err == nil {
			_, err = a.cfg.Client.Patch(ctx, kinds.Nodes, "", a.cfg.Name, client.Patch{Type: types.MergePatchType, Data: patch})
		}
	}
	if err != nil {
		return fmt.Errorf("register node %s: %w", a.cfg.Name, err)
	}
	return a.writeStatus(ctx)
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

func (a *Agent) labels() map[string]string {
	labels := map[string]string{corev1.LabelHostname: a.cfg.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: goruntime.GOARCH,
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": goruntime.GOARCH}
	maps.Copy(labels, a.cfg.Labels)
	return labels
}

func (a *Agent) node(ctx context.Context) (*corev1.Node, error) {
	obj, err := a.cfg.Client.Get(ctx, kinds.Nodes, "", a.cfg.Name)
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Node), nil
}

// heartbeat renews the lease, and keeps the status true.
func (a *Agent) heartbeat(ctx context.Context) {
	for wrote := time.Now(); ; {
		if err := a.renew(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("renew the node's lease", "err", err)
		}
		if time.Since(wrote) > statusEvery || a.statusChanged() {
			if err := a.writeStatus(ctx); err != nil && ctx.Err() == nil {
				a.log.Warn("write the node's status", "err", err)
			} else {
				wrote = time.Now()
			}
			if err := a.sweep(ctx); err != nil && ctx.Err() == nil {
				a.log.Warn("remove the files of pods that are gone", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(a.cfg.Beat):
		}
	}
}

// statusChanged says that somebody else overwrote the Ready condition: a server that did not hear from the node.
func (a *Agent) statusChanged() bool {
	n := resource.Get(a.cfg.Client.Read(), kinds.Nodes, "", a.cfg.Name)
	if n == nil {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue
		}
	}
	return true
}

func (a *Agent) renew(ctx context.Context) error {
	now, seconds := metav1.NowMicro(), int32(leaseFor)
	obj, err := a.cfg.Client.Get(ctx, kinds.Leases, corev1.NamespaceNodeLease, a.cfg.Name)
	if apierrors.IsNotFound(err) {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: a.cfg.Name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &a.cfg.Name, LeaseDurationSeconds: &seconds, RenewTime: &now}}
		if n, nerr := a.node(ctx); nerr == nil {
			l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
		}
		_, err = a.cfg.Client.Create(ctx, kinds.Leases, l)
		return err
	}
	if err != nil {
		return err
	}
	next := resource.Clone(obj.(*coordinationv1.Lease))
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds, next.Spec.RenewTime = &a.cfg.Name, &seconds, &now
	_, err = a.cfg.Client.Update(ctx, kinds.Leases, next, "")
	return err
}

// writeStatus tells what the node has and how it is. Resources that others put into the status stay.
func (a *Agent) writeStatus(ctx context.Context) error {
	for range 5 {
		cur, err := a.node(ctx)
		if err != nil {
			return err
		}
		next := resource.Clone(cur)
		a.fill(ctx, &next.Status)
		if equality.Semantic.DeepEqual(cur.Status, next.Status) {
			return nil
		}
		_, err = a.cfg.Client.Update(ctx, kinds.Nodes, next, "status")
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return errors.New("write the node's status: it keeps changing")
}

func (a *Agent) fill(ctx context.Context, st *corev1.NodeStatus) {
	if st.Capacity == nil {
		st.Capacity, st.Allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	}
	maps.Copy(st.Capacity, a.capacity())
	for name, q := range st.Capacity {
		st.Allocatable[name] = q
	}
	st.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: a.cfg.Address.String()}, {Type: corev1.NodeHostName, Address: a.cfg.Name}}
	st.DaemonEndpoints.KubeletEndpoint.Port = int32(a.cfg.Port)
	st.NodeInfo = a.info(ctx)
	a.setConditions(ctx, st)
	st.Images = a.imageList(ctx)
}

// capacity is what the machine has.
func (a *Agent) capacity() corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *apiresource.NewQuantity(int64(goruntime.NumCPU()), apiresource.DecimalSI),
		corev1.ResourceMemory: *apiresource.NewQuantity(totalMemory(), apiresource.BinarySI),
		corev1.ResourcePods:   *apiresource.NewQuantity(int64(a.cfg.MaxPods), apiresource.DecimalSI),
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(a.cfg.Dir, &fs); err == nil {
		list[corev1.ResourceEphemeralStorage] = *apiresource.NewQuantity(int64(fs.Blocks)*fs.Bsize, apiresource.BinarySI)
	}
	return list
}

func (a *Agent) allocatable() corev1.ResourceList {
	if n := resource.Get(a.cfg.Client.Read(), kinds.Nodes, "", a.cfg.Name); n != nil && len(n.Status.Allocatable) > 0 {
		return n.Status.Allocatable
	}
	return a.capacity()
}

func (a *Agent) info(ctx context.Context) corev1.NodeSystemInfo {
	info := corev1.NodeSystemInfo{Architecture: goruntime.GOARCH, OperatingSystem: "linux", KubeletVersion: version,
		MachineID: firstLine("/etc/machine-id"), BootID: firstLine("/proc/sys/kernel/random/boot_id"),
		SystemUUID: firstLine("/sys/class/dmi/id/product_uuid"), KernelVersion: firstLine("/proc/sys/kernel/osrelease"), OSImage: osName()}
	if v, err := a.cfg.Runtime.Containers.Version(ctx, &cri.VersionRequest{}); err == nil {
		info.ContainerRuntimeVersion = v.RuntimeName + "://" + v.RuntimeVersion
	}
	return info
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
func (a *Agent) setConditions(ctx context.Context, st *corev1.NodeStatus) {
	ready, why, text := corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
	res, err := a.cfg.Runtime.Containers.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		ready, why, text = corev1.ConditionFalse, "KubeletNotReady", fmt.Sprintf("container runtime is down: %v", err)
	}
	for _, c := range res.GetStatus().GetConditions() {
		if !c.Status && (c.Type == cri.RuntimeReady || c.Type == cri.NetworkReady) {
			ready, why, text = corev1.ConditionFalse, "KubeletNotReady", fmt.Sprintf("%s=false: %s", c.Type, c.Message)
		}
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
	set(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available")
	set(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure")
	set(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available")
	set(corev1.NodeReady, ready, why, text)
}

// maxImages bounds the images that the status lists, as upstream does.
const maxImages = 50

func (a *Agent) imageList(ctx context.Context) (list []corev1.ContainerImage) {
	res, err := a.cfg.Runtime.Images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return nil
	}
	for _, i := range res.Images[:min(len(res.Images), maxImages)] {
		list = append(list, corev1.ContainerImage{Names: append(i.RepoTags, i.RepoDigests...), SizeBytes: int64(i.Size)})
	}
	return list
}
