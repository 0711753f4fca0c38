package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/plugins"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/scheduler"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/extensions"
	"github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/sim"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

// A house is a whole cluster in this process.
type house struct {
	*client.Local
	set   *resource.Set
	st    *memory.Store
	loops loop.Watchers
	all   sync.WaitGroup
}

// open starts a server on an empty store.
func (h *house) open(ctx context.Context) error {
	h.set, h.st = kinds.NewSet(), memory.New()
	v, ready := view.New(h.set), make(chan struct{})
	h.all.Go(func() {
		if err := v.Follow(ctx, h.st, func() { close(ready) }); err != nil {
			slog.Error("follow the store", "err", err)
		}
	})
	<-ready
	srv, _ := extensions.New(server.Config{Kinds: h.set, Store: h.st, View: v, Sole: true,
		Admission: plugins.Default(admission.Config{})}, extensions.Config{More: workload.All})
	h.Local = &client.Local{Ops: srv, View: v, Set: h.set, User: &auth.User{Name: "admin", Groups: []string{auth.GroupMasters}},
		Manager: "scale"}
	for _, ns := range []string{"default", "kube-system", corev1.NamespaceNodeLease} {
		if _, err := h.Create(ctx, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
			return err
		}
	}
	return nil
}

// work starts all loops.
func (h *house) work(ctx context.Context) {
	var list []loop.Loop
	for _, e := range controllers.All(controllers.Config{Kinds: h.set, RootCA: []byte("ca")}) {
		list = append(list, e.Loop)
	}
	list = append(append(list, scheduler.New(scheduler.Config{})), sim.Loops()...)
	for _, l := range list {
		h.all.Go(func() {
			if err := l.Run(ctx, loop.Env{Client: h.Local, Log: slog.Default(), Watch: &h.loops}); err != nil {
				slog.Error("loop", "loop", l.LoopName(), "err", err)
			}
		})
	}
}

// calm waits until all loops have looked at everything and nothing is written but heartbeats. A look at the queues
// costs as many steps as they have keys, so there are few of them; and nodes are looked at for ever, some each moment.
func (h *house) calm(ctx context.Context) error {
	const (
		quiet = 2               // looks in a row
		pause = 5 * time.Second // between them
		few   = 1000            // keys that wait
		beats = 2               // heartbeats in a pause
	)
	for still, rev := 0, int64(0); still < quiet; {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		depth := 0
		for _, s := range h.loops.Stats() {
			depth += s.Depth
		}
		now := h.View.Revision()
		if still++; depth > few || now > rev+beats {
			still = 0
		}
		rev = now
	}
	return nil
}

// perSet is the number of pods of one ReplicaSet.
const perSet = 1000

// load writes nodes, replica sets and their pods into the store as they stand when all is well.
func (h *house) load(ctx context.Context, nodes, pods int) error {
	now := metav1.NewTime(time.Now())
	for i := range nodes {
		if err := h.put(ctx, kinds.Nodes, nodeOf(i, now)); err != nil {
			return err
		}
	}
	for s := 0; s*perSet < pods; s++ {
		n := min(perSet, pods-s*perSet)
		rs := setOf(s, n, now)
		if err := h.put(ctx, kinds.ReplicaSets, rs); err != nil {
			return err
		}
		for i := range n {
			at := s*perSet + i
			if err := h.put(ctx, kinds.Pods, podOf(rs, i, at, fmt.Sprint("sim-", at%nodes), now)); err != nil {
				return err
			}
		}
		// The view follows; its history is bounded, and it must not fall behind the store's.
		if _, err := h.View.Wait(ctx, h.revision(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (h *house) revision(ctx context.Context) int64 {
	rev, err := h.st.Revision(ctx)
	if err != nil {
		return 0
	}
	return rev
}

func (h *house) put(ctx context.Context, k resource.Kind, obj resource.Object) error {
	k.SetDefaults(nil, obj)
	obj.GetObjectKind().SetGroupVersionKind(k.Info().GVK)
	value, err := codec.Stored(k, obj)
	if err != nil {
		return err
	}
	_, err = h.st.Write(ctx, store.Write{Key: k.Info().Key(obj.GetNamespace(), obj.GetName()), Value: value})
	return err
}

func uid(kind byte, i int) types.UID {
	return types.UID(fmt.Sprintf("%02x000000-0000-4000-8000-%012x", kind, i))
}

func nodeOf(i int, now metav1.Time) *corev1.Node {
	name := fmt.Sprint("sim-", i)
	has := corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("8"), corev1.ResourceMemory: apiresource.MustParse("16Gi"),
		corev1.ResourcePods: apiresource.MustParse("110")}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid(1, i), CreationTimestamp: now,
		Annotations: map[string]string{sim.Fake: "fake"},
		Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			"beta.kubernetes.io/os":   "linux",
			"beta.kubernetes.io/arch": "amd64", corev1.LabelTopologyZone: fmt.Sprint("z", i%10)}},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has, Phase: corev1.NodeRunning,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.10"}, {Type: corev1.NodeHostName,
				Address: name}},
			NodeInfo: corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: "v" + features.Release,
				OSImage: "kloop simulation"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				Message:           "simulated",
				LastHeartbeatTime: now, LastTransitionTime: now}}}}
}

func setOf(s, n int, now metav1.Time) *appsv1.ReplicaSet {
	name := fmt.Sprint("set-", s)
	l := map[string]string{"app": name}
	replicas := int32(n)
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid(2, s), Generation: 1,
		CreationTimestamp: now},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: l}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: l}, Spec: podSpec()}},
		Status: appsv1.ReplicaSetStatus{Replicas: replicas, FullyLabeledReplicas: replicas, ReadyReplicas: replicas,
			AvailableReplicas: replicas, ObservedGeneration: 1}}
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/app:1",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("100m"),
				corev1.ResourceMemory: apiresource.MustParse("64Mi")}}}}}
}

func podOf(rs *appsv1.ReplicaSet, i, at int, node string, now metav1.Time) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: rs.Namespace, Name: fmt.Sprintf("%s-%05d", rs.Name, i),
		GenerateName: rs.Name + "-", UID: uid(3, at),
		CreationTimestamp: now, Labels: rs.Spec.Selector.MatchLabels, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1",
			Kind: "ReplicaSet",
			Name: rs.Name, UID: rs.UID, Controller: new(true), BlockOwnerDeletion: new(true)}}}, Spec: podSpec()}
	p.Spec.NodeName, p.Spec.ServiceAccountName = node, "default"
	p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-aaaaa",
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}}}}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-aaaaa", ReadOnly: true,
		MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(300))}}
	ip := fmt.Sprintf("10.%d.%d.%d", 128+at>>16, at>>8&255, at&255)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, HostIP: "203.0.113.10", PodIP: ip,
		PodIPs: []corev1.PodIP{{IP: ip}}, QOSClass: corev1.PodQOSBurstable,
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Image: "registry.example/app:1", Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}}
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue,
			LastTransitionTime: now})
	}
	return p
}

// more makes a set of n pods and waits until all are ready.
func (h *house) more(ctx context.Context, n int) error {
	replicas := int32(n)
	l := map[string]string{"app": "next"}
	feed := h.Feed(kinds.ReplicaSets)
	if _, err := h.Create(ctx, kinds.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "next"},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}, Spec: podSpec()}}}); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Minute)
	defer stop()
	for {
		if _, err := feed.Next(ctx); err != nil {
			return errors.Join(errors.New("the next pods are not ready"), err)
		}
		if rs := resource.Get(h.Read(), kinds.ReplicaSets, "default", "next"); rs != nil && rs.Status.ReadyReplicas == replicas {
			return nil
		}
	}
}

func lines(s string) iter.Seq[string] { return strings.SplitSeq(s, "\n") }
