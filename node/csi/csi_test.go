package csi

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/plugins"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/csidriver"
)

// TestMount follows two pods that share a volume: it is staged once, published for each, and unstaged with the last.
func TestMount(t *testing.T) {
	for _, block := range []bool{false, true} {
		r := newRig(t, csidriver.Config{})
		pv := r.volume("pv")
		first := r.mounts(ask("u1", pv, block))
		if again := r.mounts(ask("u1", pv, block)); again != first {
			t.Errorf("%v, then %v", first, again)
		}
		r.mounts(ask("u2", pv, block))
		if n := r.d.Published("h-pv"); n != 2 {
			t.Errorf("published %d times", n)
		}
		if !block {
			r.check(os.WriteFile(filepath.Join(first.Path, "kept"), []byte("1"), 0o600))
			var d map[string]string
			text, err := os.ReadFile(filepath.Join(first.Path, "../vol_data.json"))
			r.check(err)
			r.check(json.Unmarshal(text, &d))
			if d["driverName"] != r.d.Name || d["volumeHandle"] != "h-pv" || d["specVolID"] != "pv" || d["volumeLifecycleMode"] != "Persistent" {
				t.Errorf("recorded %v", d)
			}
		}
		r.check(r.Unmount(r.ctx, "u1"))
		r.check(r.Unmount(r.ctx, "u1"))
		if n := r.d.Published("h-pv"); n != 1 {
			t.Errorf("after the first pod is gone: published %d times", n)
		}
		r.check(r.Unmount(r.ctx, "u2"))
		want := "NodeStageVolume NodePublishVolume NodePublishVolume NodeUnpublishVolume NodeUnpublishVolume NodeUnstageVolume"
		if got := calls(r); got != want {
			t.Errorf("called %s\nwant %s", got, want)
		}
		r.clean()
		if _, err := os.Stat(filepath.Join(r.d.Directory("h-pv"), "kept")); !block && os.Getuid() == 0 && err != nil {
			t.Error("data is lost:", err)
		}
	}
}

// calls are the calls of volumes so far.
func calls(r *rig) string {
	var list []string
	for _, c := range r.d.Calls() {
		if name, volume, _ := strings.Cut(c, " "); volume != "" {
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

// TestRegister enters a driver in the Node and the CSINode, and strikes it out.
func TestRegister(t *testing.T) {
	r := newRig(t, csidriver.Config{Max: 7, Topology: map[string]string{"test.example.com/zone": "z"}})
	csiNode := func() *storagev1.CSINode {
		n := get(r, kinds.CSINodes, "", "n")
		return n
	}
	node := func() *corev1.Node {
		n := get(r, kinds.Nodes, "", "n")
		return n
	}
	n := csiNode()
	if len(n.Spec.Drivers) != 1 || n.Spec.Drivers[0].NodeID != "node-1" || *n.Spec.Drivers[0].Allocatable.Count != 7 ||
		n.Spec.Drivers[0].TopologyKeys[0] != "test.example.com/zone" || n.OwnerReferences[0].UID != node().UID {
		t.Errorf("the CSINode is %+v", n)
	}
	if got := node(); got.Annotations[idNote] != `{"test.csi.example.com":"node-1"}` || got.Labels["test.example.com/zone"] != "z" {
		t.Errorf("the Node has %v %v", got.Annotations, got.Labels)
	}
	p := plugins.Plugin{Type: plugins.CSI, Name: r.d.Name, Endpoint: r.d.Socket(), Versions: []string{"1.0.0"}}
	if err := r.Drivers.Register(t.Context(), p); err == nil || !strings.Contains(err.Error(), "registered already") {
		t.Errorf("twice: %v", err)
	}
	for _, versions := range [][]string{nil, {"0.3.0"}, {"2.0.0"}, {"x"}} {
		q := p
		q.Versions = versions
		if err := r.Drivers.Register(t.Context(), q); err == nil || !strings.Contains(err.Error(), "CSI 1 only") {
			t.Errorf("%q: %v", versions, err)
		}
	}
	r.Drivers.Deregister(p)
	if n := csiNode(); len(n.Spec.Drivers) != 0 || node().Annotations[idNote] != "" {
		t.Errorf("after it has gone: %v, %v", n.Spec.Drivers, node().Annotations)
	}
	r.d.Node = "node-2"
	r.check(r.Drivers.Register(t.Context(), p))
	if n := csiNode(); n.Spec.Drivers[0].NodeID != "node-2" {
		t.Errorf("%v", n.Spec.Drivers)
	}
	r.Drivers.Deregister(p)
	r.d.Topology = map[string]string{"test.example.com/zone": "y"}
	if err := r.Drivers.Register(t.Context(), p); err == nil || !strings.Contains(err.Error(), `the Node's label says "z"`) {
		t.Errorf("another zone: %v", err)
	}
	if n := csiNode(); len(n.Spec.Drivers) != 0 {
		t.Errorf("a refused driver is entered: %v", n.Spec.Drivers)
	}
	if _, err := r.Mount(t.Context(), ask("u", r.volume("v"), false)); !IsWaiting(err) {
		t.Errorf("without a driver: %v", err)
	}
}

// TestLimits asks a driver again how many volumes the node can have, when its time has come and not before.
func TestLimits(t *testing.T) {
	r := newRig(t, csidriver.Config{Max: 7})
	most := func() int32 { return *get(r, kinds.CSINodes, "", "n").Spec.Drivers[0].Allocatable.Count }
	asked := map[string]time.Time{}
	r.d.Max = 5
	if wait := r.refreshLimits(t.Context(), asked); wait != limitsEvery || len(asked) != 0 {
		t.Errorf("asked for nothing: wait %v, %v", wait, asked)
	}
	d := resource.Clone(get(r, kinds.CSIDrivers, "", r.d.Name))
	select {
	case <-r.Drivers.came: // limits are looked at when a driver registers: its time may be shorter than the wait
	default:
		t.Error("nobody heard that it came")
	}
	every := int64(20)
	d.Spec.NodeAllocatableUpdatePeriodSeconds = &every
	_, err := r.c.Update(t.Context(), kinds.CSIDrivers, d, "")
	r.check(err)
	if wait := r.refreshLimits(t.Context(), asked); wait > 20*time.Second || most() != 7 {
		t.Errorf("before its time: wait %v, %d", wait, most())
	}
	asked[r.d.Name] = time.Now().Add(-time.Minute)
	r.refreshLimits(t.Context(), asked)
	if most() != 5 {
		t.Errorf("%d volumes", most())
	}
	never := int64(math.MaxInt64)
	d = resource.Clone(get(r, kinds.CSIDrivers, "", r.d.Name))
	d.Spec.NodeAllocatableUpdatePeriodSeconds = &never
	_, err = r.c.Update(t.Context(), kinds.CSIDrivers, d, "")
	r.check(err)
	r.d.Max = 9
	asked[r.d.Name] = time.Now().Add(-time.Hour)
	if wait := r.refreshLimits(t.Context(), asked); wait != limitsEvery || most() != 5 {
		t.Errorf("a time that never comes: wait %v, %d", wait, most())
	}
}

// TestFull ends a pod whose volume finds no room on the node, if the driver's limits can change, and learns the limit.
func TestFull(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  codes.Code
		every *int64
		full  bool
	}{
		{"full", codes.ResourceExhausted, new(int64(20)), true},
		{"fixed limits", codes.ResourceExhausted, nil, false},
		{"other trouble", codes.Internal, new(int64(20)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, csidriver.Config{Max: 7})
			d := get(r, kinds.CSIDrivers, "", r.d.Name)
			r.check(r.c.Delete(t.Context(), kinds.CSIDrivers, "", d.Name, &metav1.DeleteOptions{})) // whether it attaches can't be changed
			r.create(kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: r.d.Name},
				Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: c.every}})
			pv := r.volume("pv")
			va := r.create(kinds.VolumeAttachments, &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: attachmentName(volumeID{r.d.Name, "h-pv"}, "n")},
				Spec: storagev1.VolumeAttachmentSpec{Attacher: r.d.Name, NodeName: "n",
					Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}}}).(*storagev1.VolumeAttachment)
			va = resource.Clone(va)
			va.Status.AttachError = &storagev1.VolumeError{Message: "no", ErrorCode: new(int32(c.code))}
			_, err := r.c.Update(t.Context(), kinds.VolumeAttachments, va, "status")
			r.check(err)
			r.d.Max = 5
			_, err = r.Mount(r.ctx, ask("u1", pv, false))
			var full *FullError
			if errors.As(err, &full) != c.full || IsWaiting(err) == c.full || c.full && full.Volume != "data" {
				t.Errorf("%v", err)
			}
			if most := *get(r, kinds.CSINodes, "", "n").Spec.Drivers[0].Allocatable.Count; (most == 5) != c.full {
				t.Errorf("%d volumes", most)
			}
		})
	}
}

// TestAttach mounts nothing before the volume is attached, and says first that it is in use.
func TestAttach(t *testing.T) {
	r := newRig(t, csidriver.Config{})
	d := get(r, kinds.CSIDrivers, "", r.d.Name)
	r.check(r.c.Delete(t.Context(), kinds.CSIDrivers, "", d.Name, &metav1.DeleteOptions{})) // one that says nothing attaches
	pv, name := r.volume("pv"), corev1.UniqueVolumeName("kubernetes.io/csi/test.csi.example.com^h-pv")
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := get(r, kinds.Nodes, "", "n")
		n = resource.Clone(n)
		change(n)
		out, err := r.c.Update(t.Context(), kinds.Nodes, n, "status")
		r.check(err)
		return out.(*corev1.Node)
	}
	none := func(*corev1.Node) {}
	if _, err := r.Mount(r.ctx, ask("u1", pv, false)); !IsWaiting(err) || !strings.Contains(err.Error(), "not attached to this node yet") {
		t.Fatal(err)
	}
	if n := node(none); !slices.Equal(n.Status.VolumesInUse, []corev1.UniqueVolumeName{name}) {
		t.Errorf("in use: %v", n.Status.VolumesInUse)
	}
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName(volumeID{r.d.Name, "h-pv"}, "n")},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: r.d.Name, NodeName: "n", Source: storagev1.VolumeAttachmentSource{
			PersistentVolumeName: &pv.Name}}}
	va = r.create(kinds.VolumeAttachments, va).(*storagev1.VolumeAttachment)
	va = resource.Clone(va)
	va.Status.AttachError = &storagev1.VolumeError{Message: "no such disk"}
	out, err := r.c.Update(t.Context(), kinds.VolumeAttachments, va, "status")
	r.check(err)
	if _, err := r.Mount(r.ctx, ask("u1", pv, false)); !IsWaiting(err) || !strings.Contains(err.Error(), "no such disk") {
		t.Fatal(err)
	}
	va = resource.Clone(out.(*storagev1.VolumeAttachment))
	va.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"dev": "/dev/x"}}
	_, err = r.c.Update(t.Context(), kinds.VolumeAttachments, va, "status")
	r.check(err)
	if calls(r) != "" {
		t.Errorf("called before it is attached: %s", calls(r))
	}
	node(func(n *corev1.Node) { n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: name}} })
	r.mounts(ask("u1", pv, false))
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		if got := r.d.Request(rpc).(interface{ GetPublishContext() map[string]string }).GetPublishContext(); got["dev"] != "/dev/x" {
			t.Errorf("%s is told %v", rpc, got)
		}
	}
	r.start() // a restart forgets nothing
	if _, err := r.Report(r.ctx); err != nil || len(node(none).Status.VolumesInUse) != 1 {
		t.Errorf("after a restart in use: %v, %v", node(none).Status.VolumesInUse, err)
	}
	r.check(r.Unmount(r.ctx, "u1"))
	r.clean()
}

// TestWords checks the calls of a driver: attributes, secrets, the pod, tokens, access modes, groups.
func TestWords(t *testing.T) {
	can := []csispec.NodeServiceCapability_RPC_Type{csidriver.Stage, csidriver.MountGroup, csidriver.MultiWrite}
	r := newRig(t, csidriver.Config{Can: can})
	for _, ns := range []string{"ns", "sys"} {
		r.create(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		r.create(kinds.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "s"}, Data: map[string][]byte{"k": []byte(ns)}})
	}
	d := get(r, kinds.CSIDrivers, "", r.d.Name)
	yes := true
	d = resource.Clone(d)
	r.check(r.c.Delete(t.Context(), kinds.CSIDrivers, "", d.Name, &metav1.DeleteOptions{}))
	d.ResourceVersion, d.UID, d.Spec.PodInfoOnMount = "", "", &yes
	d.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent}
	r.create(kinds.CSIDrivers, d)
	pv := r.volume("pv", corev1.ReadWriteOncePod)
	ref := &corev1.SecretReference{Namespace: "sys", Name: "s"}
	pv.Spec.CSI.NodeStageSecretRef, pv.Spec.CSI.NodePublishSecretRef, pv.Spec.MountOptions = ref, ref, []string{"noatime"}
	group := int64(7)
	q := ask("u1", pv, false)
	q.Group = &group
	if got := r.mounts(q); got.Own {
		t.Error("the driver gives the files to the group, not the agent")
	}
	st := r.d.Request("NodeStageVolume").(*csispec.NodeStageVolumeRequest)
	mount := st.VolumeCapability.GetMount()
	if st.Secrets["k"] != "sys" || mount.FsType != "ext4" || mount.MountFlags[0] != "noatime" || mount.VolumeMountGroup != "7" ||
		st.VolumeCapability.AccessMode.Mode != csispec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER || st.VolumeContext["a"] != "b" {
		t.Errorf("staged with %v", st)
	}
	pub := r.d.Request("NodePublishVolume").(*csispec.NodePublishVolumeRequest)
	if pub.Secrets["k"] != "sys" || pub.VolumeContext["csi.storage.k8s.io/pod.name"] != "pod-u1" ||
		pub.VolumeContext["csi.storage.k8s.io/serviceAccount.name"] != "acct" || pub.VolumeContext["csi.storage.k8s.io/ephemeral"] != "false" ||
		!strings.Contains(pub.VolumeContext[tokensKey], `{"vault":{"token":"pod-u1@vault","expirationTimestamp":"2001-09-09T`) {
		t.Errorf("published with %v", pub.VolumeContext)
	}
	if _, err := r.Mount(r.ctx, ask("u2", pv, false)); !IsWaiting(err) || !strings.Contains(err.Error(), "already in use by another pod") {
		t.Errorf("a second pod: %v", err)
	}
	in := &Request{Pod: pod("u3"), Name: "tmp", Inline: &corev1.CSIVolumeSource{Driver: r.d.Name,
		VolumeAttributes:     map[string]string{"x": "y"},
		NodePublishSecretRef: &corev1.LocalObjectReference{Name: "s"}}}
	r.mounts(in)
	pub = r.d.Request("NodePublishVolume").(*csispec.NodePublishVolumeRequest)
	if pub.Secrets["k"] != "ns" || pub.VolumeContext["x"] != "y" || pub.VolumeContext["csi.storage.k8s.io/ephemeral"] != "true" ||
		pub.StagingTargetPath != "" || len(pub.VolumeId) != len("csi-")+64 {
		t.Errorf("an inline volume is published with %v", pub)
	}
	for _, uid := range []types.UID{"u1", "u2", "u3"} {
		r.check(r.Unmount(r.ctx, uid))
	}
	r.clean()
}

// TestRepublish publishes again where the driver asks for that; a failure leaves the mount alone.
func TestRepublish(t *testing.T) {
	r := newRig(t, csidriver.Config{})
	d := get(r, kinds.CSIDrivers, "", r.d.Name)
	d = resource.Clone(d)
	yes := true
	d.Spec.RequiresRepublish = &yes
	_, err := r.c.Update(t.Context(), kinds.CSIDrivers, d, "")
	r.check(err)
	q := ask("u1", r.volume("pv"), false)
	got := r.mounts(q)
	s, _ := r.settled(q)
	s.again = time.Now()
	r.settle(q, s)
	r.d.Fail(func(rpc string) *csidriver.Fault { return &csidriver.Fault{Code: codes.Internal} })
	if _, err := r.Refresh(r.ctx, q); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(got.Path); err != nil || r.d.Published("h-pv") != 1 {
		t.Errorf("the mount is gone: %v", err)
	}
	if next, err := r.Refresh(r.ctx, q); err != nil || next <= 0 || strings.Count(calls(r), "NodePublishVolume") != 2 {
		t.Errorf("at once again: %v, %v", next, err)
	}
	r.d.Fail(nil)
	r.start()
	if _, err := r.Refresh(r.ctx, q); err != nil || strings.Count(calls(r), "NodePublishVolume") != 3 {
		t.Errorf("after a restart: %v, %s", err, calls(r))
	}
	r.check(r.Unmount(r.ctx, "u1"))
	r.clean()
}

// TestGroup gives the files to the group by the driver's policy.
func TestGroup(t *testing.T) {
	group, ro, none, file := int64(5), corev1.ReadOnlyMany, storagev1.NoneFSGroupPolicy, storagev1.FileFSGroupPolicy
	for _, tt := range []struct {
		name   string
		policy *storagev1.FSGroupPolicy
		fsType string
		mode   corev1.PersistentVolumeAccessMode
		block  bool
		want   bool
	}{
		{"default", nil, "ext4", corev1.ReadWriteOnce, false, true},
		{"one pod", nil, "ext4", corev1.ReadWriteOncePod, false, true},
		{"no type", nil, "", corev1.ReadWriteOnce, false, false},
		{"many", nil, "ext4", ro, false, false},
		{"none", &none, "ext4", corev1.ReadWriteOnce, false, false},
		{"file", &file, "", ro, false, true},
		{"a device", &file, "", corev1.ReadWriteOnce, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{tt.mode},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{FSType: tt.fsType}}}}
			j := &job{Request: &Request{PV: pv, Group: &group, Block: tt.block}, d: &driver{},
				about: &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{FSGroupPolicy: tt.policy}}}
			if got := j.owns(); got != tt.want {
				t.Errorf("%s: %v", tt.name, got)
			}
		})
	}
}
