package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/csidriver"
)

// claim makes a claim that is bound to a volume of the driver d.csi.
func (r *rig) claim(name string) {
	r.t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	class := ""
	pvc := create(r, kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name,
		Finalizers: []string{"kubernetes.io/pvc-protection"}},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name, AccessModes: modes, StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: size}}})
	create(r, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "d", Name: name,
				UID: pvc.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.csi", VolumeHandle: name}}}})
	next := resource.Clone(pvc)
	next.Status.Phase, next.Status.Capacity, next.Status.AccessModes = corev1.ClaimBound, size, modes
	if _, err := r.Update(r.t.Context(), kinds.PersistentVolumeClaims, next, "status"); err != nil {
		r.t.Fatal(err)
	}
}

// uses gives a pod's containers the claim's volume.
func uses(claim string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}
	}
}

func (r *rig) driver() *csidriver.Driver {
	r.t.Helper()
	d := csidriver.New(csidriver.Config{Name: "d.csi", Dir: r.cfg.Dir, Store: r.t.TempDir(), Can: csidriver.Usual})
	r.until("the agent listens", func() bool { return exists(filepath.Join(r.cfg.Dir, "plugins_registry")) })
	if err := d.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(d.Stop)
	return d
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// attach says that the volume is attached, as the attacher and the loop attach-detach do.
func (r *rig) attach(claim string) {
	r.t.Helper()
	name := corev1.UniqueVolumeName("kubernetes.io/csi/d.csi^" + claim)
	r.until("the volume is in use", func() bool {
		n := resource.Get(r.Read(), kinds.Nodes, "", "n")
		return n != nil && slices.Contains(n.Status.VolumesInUse, name)
	})
	pv := "pv-" + claim
	va := create(r, kinds.VolumeAttachments, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: csidriver.Attachment("d.csi", claim, "n")},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "d.csi", NodeName: "n",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}}})
	next := resource.Clone(va)
	next.Status.Attached = true
	if _, err := r.Update(r.t.Context(), kinds.VolumeAttachments, next, "status"); err != nil {
		r.t.Fatal(err)
	}
	for range 10 { // the agent writes the status too
		n := resource.Clone(resource.Get(r.Read(), kinds.Nodes, "", "n"))
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: name}}
		if _, err := r.Update(r.t.Context(), kinds.Nodes, n, "status"); err == nil {
			return
		}
	}
	r.t.Fatal("the Node keeps changing")
}

// TestDrivenVolume follows a pod whose volume has to be attached, while the agent starts anew, until it is gone.
func TestDrivenVolume(t *testing.T) {
	live(t, func(r *rig) {
		r.claim("c")
		r.pod("web", uses("c"), "c")
		events := func(part string) bool {
			return slices.ContainsFunc(resource.List(r.Read(), kinds.Events, "d"), func(e *corev1.Event) bool {
				return e.Reason == "FailedMount" && strings.Contains(e.Message, part)
			})
		}
		r.until("an event names the driver", func() bool { return events("driver name d.csi not found") })
		d := r.driver()
		r.until("the CSINode names the driver", func() bool {
			n := resource.Get(r.Read(), kinds.CSINodes, "", "n")
			return n != nil && len(n.Spec.Drivers) == 1
		})
		r.until("an event names the attacher", func() bool { return events("the attacher of d.csi has not answered") })
		if n := resource.Get(r.Read(), kinds.Nodes, "", "n"); n.Annotations[attachNote] != "true" {
			t.Errorf("nobody attaches: %v", n.Annotations)
		}
		r.attach("c")
		uid := r.reaches("web", corev1.PodRunning).UID
		mount := r.rt.newest("c").Mounts[0]
		want := filepath.Join(r.cfg.Dir, "pods", string(uid), "volumes/kubernetes.io~csi/pv-c/mount")
		if mount.ContainerPath != "/data" || mount.HostPath != want || d.Published("c") != 1 {
			t.Errorf("mounted %s at %s", mount.HostPath, mount.ContainerPath)
		}
		if n := r.counted("csi_operations_seconds", "d.csi", "OK", "/csi.v1.Node/NodePublishVolume"); n != 1 {
			t.Errorf("metrics have %v calls that publish", n)
		}
		if err := r.Delete(t.Context(), kinds.PersistentVolumeClaims, "d", "c", &metav1.DeleteOptions{}); err != nil { // its pod has it
			t.Fatal(err)
		}
		if c := resource.Get(r.Read(), kinds.PersistentVolumeClaims, "d", "c"); c == nil || c.DeletionTimestamp == nil {
			t.Fatalf("the claim is not going: %+v", c)
		}
		r.stop()
		r.start()
		r.until("the driver registers anew", func() bool { return len(d.Told) >= 2 })
		if n := len(d.Calls()); d.Published("c") != 1 {
			t.Errorf("after a restart: %d calls", n)
		}
		if got := r.get("web").Status.Phase; got != corev1.PodRunning {
			t.Errorf("after a restart the pod is %s", got)
		}
		if err := r.Delete(t.Context(), kinds.Pods, "d", "web", &metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.until("the pod is gone", func() bool { return r.get("web") == nil })
		r.until("nothing is in use", func() bool {
			return len(resource.Get(r.Read(), kinds.Nodes, "", "n").Status.VolumesInUse) == 0
		})
		if left := d.Left(); len(left) > 0 || len(d.Breaches()) > 0 || exists(filepath.Join(r.cfg.Dir, "pods", string(uid))) {
			t.Errorf("left: %v, breaches: %v", left, d.Breaches())
		}
	})
}

// TestGrowthIsSeen enlarges a volume as soon as the claim says so, not with the next look at volumes.
func TestGrowthIsSeen(t *testing.T) {
	live(t, func(r *rig) {
		no := false
		create(r, kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d.csi"},
			Spec: storagev1.CSIDriverSpec{AttachRequired: &no}})
		r.driver()
		r.claim("c")
		p := r.pod("web", uses("c"), "c")
		r.reaches("web", corev1.PodRunning)
		r.until("the volume has been looked at", func() bool { return len(r.agent.vols.CSI().Usage(p.UID)) > 0 })
		size := corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("2Gi")}
		pv := resource.Clone(resource.Get(r.Read(), kinds.PersistentVolumes, "", "pv-c"))
		pv.Spec.Capacity = size
		if _, err := r.Update(t.Context(), kinds.PersistentVolumes, pv, ""); err != nil {
			t.Fatal(err)
		}
		c := resource.Clone(resource.Get(r.Read(), kinds.PersistentVolumeClaims, "d", "c"))
		c.Status.AllocatedResources = size
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending}
		if _, err := r.Update(t.Context(), kinds.PersistentVolumeClaims, c, "status"); err != nil {
			t.Fatal(err)
		}
		r.until("the claim has grown", func() bool {
			return resource.Get(r.Read(), kinds.PersistentVolumeClaims, "d", "c").Status.Capacity.Storage().String() == "2Gi"
		})
	})
}

// TestDriverAwayAtTheEnd keeps a pod until its volume is unpublished.
func TestDriverAwayAtTheEnd(t *testing.T) {
	live(t, func(r *rig) {
		no := false
		create(r, kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d.csi"},
			Spec: storagev1.CSIDriverSpec{AttachRequired: &no}})
		d := r.driver()
		r.claim("c")
		r.pod("web", uses("c"), "c")
		uid := r.reaches("web", corev1.PodRunning).UID
		d.Stop()
		if err := os.Remove(d.RegistrationSocket()); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		r.until("the driver is struck out", func() bool {
			return len(resource.Get(r.Read(), kinds.CSINodes, "", "n").Spec.Drivers) == 0
		})
		if err := r.Delete(t.Context(), kinds.Pods, "d", "web", &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Fatal(err)
		}
		r.until("the pod is gone from the API", func() bool { return r.get("web") == nil })
		if d.Published("c") != 1 || !exists(filepath.Join(r.cfg.Dir, "pods", string(uid), "volumes/kubernetes.io~csi/pv-c/vol_data.json")) {
			t.Error("the record of a mounted volume is gone")
		}
		if err := d.Start(); err != nil {
			t.Fatal(err)
		}
		r.until("the volume is taken down", func() bool { return len(d.Left()) == 0 })
		r.until("its files are gone", func() bool { return !exists(filepath.Join(r.cfg.Dir, "pods", string(uid))) })
		if list := d.Breaches(); len(list) > 0 {
			t.Error(list)
		}
	})
}

// TestFullNode ends a pod whose volume finds no room on the node, once, and lets nothing of it start.
func TestFullNode(t *testing.T) {
	live(t, func(r *rig) {
		create(r, kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d.csi"},
			Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: new(int64(60))}})
		r.driver()
		r.claim("c")
		pv := "pv-c"
		va := resource.Clone(create(r, kinds.VolumeAttachments, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: csidriver.Attachment("d.csi", "c", "n")},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: "d.csi", NodeName: "n",
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}}}))
		va.Status.AttachError = &storagev1.VolumeError{Message: "no slot is free", ErrorCode: new(int32(codes.ResourceExhausted))}
		if _, err := r.Update(r.t.Context(), kinds.VolumeAttachments, va, "status"); err != nil {
			t.Fatal(err)
		}
		r.pod("web", uses("c"), "c")
		p := r.reaches("web", corev1.PodFailed)
		if p.Status.Reason != "VolumeAttachmentLimitExceeded" || !strings.HasPrefix(p.Status.Message, "Pod was rejected: Node has reached "+
			"its volume attachment limit, rejecting pod. unmounted volumes=[data], unattached volumes=[data]") ||
			!strings.HasSuffix(p.Status.Message, "no slot is free") {
			t.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
		}
		if n, boxes := r.rt.count(); n+boxes > 0 {
			t.Errorf("%d containers, %d sandboxes", n, boxes)
		}
		r.until("nothing is in use", func() bool {
			return len(resource.Get(r.Read(), kinds.Nodes, "", "n").Status.VolumesInUse) == 0
		})
	})
}
