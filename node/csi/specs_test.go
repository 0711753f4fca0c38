package csi

import (
	"errors"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/csidriver"
)

// TestStageErrors says which calls follow when staging or unstaging fails, while the pod is there and after it has gone.
func TestStageErrors(t *testing.T) {
	const stage, unstage = "NodeStageVolume", "NodeUnstageVolume"
	for _, c := range []struct {
		name  string
		rpc   string // that fails
		code  codes.Code
		times int // that it fails
		mount int // attempts of the first pod
		want  string
		next  string // with a second pod, which comes before Sweep
	}{
		{"nothing fails", "", 0, 0, 1, "stage unstage", "stage unstage"},
		{"a final error, again", stage, codes.InvalidArgument, 3, 4, "stage stage stage stage unstage", "stage unstage"},
		{"a passing error, again", stage, codes.DeadlineExceeded, 3, 4, "stage stage stage stage unstage", "stage unstage"},
		{"a passing error to the end", stage, codes.DeadlineExceeded, 2, 2, "stage stage unstage", "stage unstage"},
		{"a final error to the end", stage, codes.InvalidArgument, 2, 2, "stage stage", "stage unstage"},
		{"a final error of the end", unstage, codes.InvalidArgument, 1, 1, "stage unstage", "stage unstage"},
		{"a passing error of the end", unstage, codes.DeadlineExceeded, 1, 1, "stage unstage", "stage unstage"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, left := newRig(t, csidriver.Config{}), c.times
			r.d.Fail(func(rpc string) *csidriver.Fault {
				if rpc != c.rpc || left == 0 {
					return nil
				}
				left--
				return &csidriver.Fault{Code: c.code}
			})
			seen := 0
			since := func() string {
				all := strings.Fields(calls(r))
				var list []string
				for _, rpc := range all[seen:] {
					switch rpc {
					case stage:
						list = append(list, "stage")
					case unstage:
						list = append(list, "unstage")
					}
				}
				seen = len(all)
				return strings.Join(list, " ")
			}
			pv := r.volume("pv")
			for i := range c.mount {
				if _, err := r.Mount(r.ctx, ask("u1", pv, false)); (err != nil) != (c.rpc == stage && i < c.times) {
					t.Errorf("attempt %d: %v", i, err)
				}
			}
			r.check(r.Unmount(r.ctx, "u1"))
			if got := since(); got != c.want {
				t.Errorf("called %s, want %s", got, c.want)
			}
			r.mounts(ask("u2", pv, false))
			r.check(r.Unmount(r.ctx, "u2"))
			if got := since(); got != c.next {
				t.Errorf("for a second pod: %s, want %s", got, c.next)
			}
			r.clean()
		})
	}
}

// drive replaces the driver's description; nil: there is none.
func (r *rig) drive(spec *storagev1.CSIDriverSpec) {
	r.Helper()
	obj, err := r.c.Get(r.Context(), kinds.CSIDrivers, "", r.d.Name)
	switch {
	case spec == nil && err == nil:
		r.check(r.c.Delete(r.Context(), kinds.CSIDrivers, "", r.d.Name, &metav1.DeleteOptions{}))
	case err == nil:
		d := resource.Clone(obj.(*storagev1.CSIDriver))
		d.Spec = *spec
		_, err = r.c.Update(r.Context(), kinds.CSIDrivers, d, "")
		r.check(err)
	case spec != nil:
		r.create(kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: r.d.Name}, Spec: *spec})
	}
}

// attach says that a volume is attached to the node.
func (r *rig) attach(pv *corev1.PersistentVolume) {
	r.Helper()
	v := volumeID{r.d.Name, pv.Spec.CSI.VolumeHandle}
	va := resource.Clone(r.create(kinds.VolumeAttachments, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName(v, "n")},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: r.d.Name, NodeName: "n",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}}}).(*storagev1.VolumeAttachment))
	va.Status.Attached = true
	_, err := r.c.Update(r.Context(), kinds.VolumeAttachments, va, "status")
	r.check(err)
	n := resource.Clone(get(r, kinds.Nodes, "", "n"))
	n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: v.unique()})
	_, err = r.c.Update(r.Context(), kinds.Nodes, n, "status")
	r.check(err)
}

// TestDescriptionIsFollowed has a pod of each description of the driver that follows another: what it says by then holds for the pod.
func TestDescriptionIsFollowed(t *testing.T) {
	tokens := []storagev1.TokenRequest{{Audience: "vault"}}
	file, none, usual := storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	all := &storagev1.CSIDriverSpec{AttachRequired: new(bool), PodInfoOnMount: new(true), TokenRequests: tokens}
	r := newRig(t, csidriver.Config{})
	for i, s := range []struct {
		name   string
		spec   *storagev1.CSIDriverSpec
		told   string // of the pod, of tokens in the volume's words, of tokens among the secrets
		ours   bool   // the agent gives the files to the group
		fsType string
	}{
		{"no description", nil, "", true, "ext4"},
		{"usual group policy", &storagev1.CSIDriverSpec{AttachRequired: new(bool), FSGroupPolicy: &usual}, "", true, "ext4"},
		{"no group policy", &storagev1.CSIDriverSpec{AttachRequired: new(bool), FSGroupPolicy: &none}, "", false, "ext4"},
		{"file group policy, told of the pod",
			&storagev1.CSIDriverSpec{AttachRequired: new(bool), FSGroupPolicy: &file, PodInfoOnMount: new(true)}, "pod", true, ""},
		{"not told of the pod",
			&storagev1.CSIDriverSpec{AttachRequired: new(bool), FSGroupPolicy: &none, PodInfoOnMount: new(bool)}, "", false, ""},
		{"tokens",
			&storagev1.CSIDriverSpec{AttachRequired: new(bool), FSGroupPolicy: &usual, TokenRequests: tokens}, "tokens", false, ""},
		{"tokens among the secrets", &storagev1.CSIDriverSpec{AttachRequired: new(bool), FSGroupPolicy: &file, TokenRequests: tokens,
			ServiceAccountTokenInSecrets: new(true)}, "secret", true, ""},
		{"tokens not among the secrets", &storagev1.CSIDriverSpec{AttachRequired: new(bool), FSGroupPolicy: &usual, TokenRequests: tokens,
			ServiceAccountTokenInSecrets: new(bool)}, "tokens", true, "ext4"},
		{"everything", all, "pod tokens", true, "ext4"},
		{"the description gone", nil, "", true, "ext4"},
	} {
		r.drive(s.spec)
		pv := r.volume("pv" + string(rune('a'+i)))
		pv.Spec.CSI.FSType = s.fsType
		q := ask("u"+pv.Name, pv, false)
		q.Group = new(int64(5))
		if s.spec == nil {
			if _, err := r.Mount(r.ctx, q); !IsWaiting(err) {
				t.Fatal(s.name, i, err)
			}
			r.attach(pv)
		}
		got := r.mounts(q)
		req := r.d.Request("NodePublishVolume").(*csispec.NodePublishVolumeRequest)
		var told []string
		for _, of := range []struct {
			what string
			is   bool
		}{{"pod", req.VolumeContext["csi.storage.k8s.io/pod.uid"] == string(q.Pod.UID)}, {"tokens", req.VolumeContext[tokensKey] != ""},
			{"secret", req.Secrets[tokensKey] != ""}} {
			if of.is {
				told = append(told, of.what)
			}
		}
		if strings.Join(told, " ") != s.told || got.Own != s.ours || req.VolumeContext["a"] != "b" {
			t.Errorf("%s: %d: told %v, %v, own %t", s.name, i, told, req.VolumeContext, got.Own)
		}
		if g := req.VolumeCapability.GetMount().VolumeMountGroup; g != "" {
			t.Errorf("%s: %d: it can't give files to groups, and is told of %s", s.name, i, g)
		}
		r.check(r.Unmount(r.ctx, q.Pod.UID))
	}
	r.clean()
}

// TestAttachingEnds follows volumes whose driver is told not to attach any more: a pod that waits gets its volume, one that has it
// keeps it, and the attachment is in use as long as that.
func TestAttachingEnds(t *testing.T) {
	r := newRig(t, csidriver.Config{})
	no := &storagev1.CSIDriverSpec{AttachRequired: new(bool)}
	r.drive(nil)
	pv, other := r.volume("pv"), r.volume("other")
	for _, q := range []*Request{ask("u1", pv, false), ask("u2", other, false)} {
		if _, err := r.Mount(r.ctx, q); !IsWaiting(err) {
			t.Fatal(err)
		}
	}
	r.attach(pv)
	r.mounts(ask("u1", pv, false))
	r.drive(no)
	r.mounts(ask("u2", other, false))
	if n, err := r.Report(r.ctx); err != nil || len(n.Status.VolumesInUse) != 2 {
		t.Errorf("in use: %v, %v", n.Status.VolumesInUse, err)
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		r.check(r.Unmount(r.ctx, uid))
	}
	r.clean()
}

// TestGrowsWhenMounted enlarges a volume before its pod begins, with the agent's first look after it was away, and as a device.
func TestGrowsWhenMounted(t *testing.T) {
	for _, c := range []struct {
		name  string
		block bool
		away  bool // the pod has it when the agent goes
		fail  codes.Code
		never bool // the driver can't do it on nodes: what the resizer did is all
	}{{name: "at first"}, {name: "after the agent was away", away: true}, {name: "a device", block: true},
		{name: "it can't", fail: codes.OutOfRange}, {name: "not on nodes", never: true}} {
		t.Run(c.name, func(t *testing.T) {
			can := csidriver.Usual
			if c.never {
				can = []csispec.NodeServiceCapability_RPC_Type{csidriver.Stage, csidriver.Stats}
			}
			r := newRig(t, csidriver.Config{Can: can})
			q := claimed(r)
			q.Block = c.block
			q.PV.Spec.CSI.NodeExpandSecretRef = &corev1.SecretReference{Namespace: "ns", Name: "grow"}
			r.create(kinds.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "grow"},
				Data: map[string][]byte{"k": []byte("v")}})
			if c.away {
				r.mounts(q)
				r.kill()
			}
			grows(r, q, "3Gi", corev1.PersistentVolumeClaimNodeResizePending, 0)
			q.Claim = get(r, kinds.PersistentVolumeClaims, "ns", "c")
			if c.away {
				r.start()
			}
			r.d.Fail(func(rpc string) *csidriver.Fault {
				if c.fail == 0 || rpc != "NodeExpandVolume" {
					return nil
				}
				return &csidriver.Fault{Code: c.fail}
			})
			if c.away {
				_, err := r.Refresh(r.ctx, q)
				r.check(err)
			} else {
				r.mounts(q)
			}
			claim := get(r, kinds.PersistentVolumeClaims, "ns", "c")
			if grown := claim.Status.Capacity.Storage().String() == "3Gi"; grown != (c.fail == 0 && !c.never) || notGrown(claim) != (c.fail != 0) {
				t.Errorf("the claim says %v", claim.Status)
			}
			req, ok := r.d.Request("NodeExpandVolume").(*csispec.NodeExpandVolumeRequest)
			if ok == c.never {
				t.Errorf("asked with %v", req)
			} else if ok && (req.StagingTargetPath == "" || req.VolumePath == "" || req.Secrets["k"] != "v" ||
				(req.VolumeCapability.GetBlock() != nil) != c.block || req.CapacityRange.RequiredBytes != 3<<30) {
				t.Errorf("asked with %v", req)
			}
			if _, err := r.Refresh(r.ctx, q); err != nil && !errors.Is(err, r.ctx.Err()) {
				t.Error(err)
			}
			if u := r.Usage("u1"); len(u) != 1 || u[0].Size != 1000 || u[0].Claim != "c" {
				t.Errorf("how full it is: %+v", u)
			}
			r.check(r.Unmount(r.ctx, "u1"))
			r.clean()
		})
	}
}
