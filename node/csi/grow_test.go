package csi

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/csidriver"
)

func gib(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse(s)}
}

// claimed is a request for a volume whose claim has 1Gi, and asks for 3Gi.
func claimed(r *rig) *Request {
	r.create(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	claim := r.create(kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: gib("3Gi")}}}).(*corev1.PersistentVolumeClaim)
	claim = resource.Clone(claim)
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, gib("1Gi")
	_, err := r.c.Update(r.Context(), kinds.PersistentVolumeClaims, claim, "status")
	r.check(err)
	q := ask("u1", r.volume("pv"), false)
	q.Claim = get(r, kinds.PersistentVolumeClaims, "ns", "c")
	return q
}

// grows lets the resizer hand a size over, with the claim's status, and the node look so many times.
func grows(r *rig, q *Request, to string, is corev1.ClaimResourceStatus, looks int) *corev1.PersistentVolumeClaim {
	r.Helper()
	q.PV.Spec.Capacity = gib(to)
	claim := resource.Clone(get(r, kinds.PersistentVolumeClaims, "ns", "c"))
	claim.Status.AllocatedResources = gib(to)
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: is}
	if is == "" {
		claim.Status.AllocatedResourceStatuses = nil
	}
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: "True"}}
	_, err := r.c.Update(r.Context(), kinds.PersistentVolumeClaims, claim, "status")
	r.check(err)
	for range looks {
		q.Claim = get(r, kinds.PersistentVolumeClaims, "ns", "c")
		_, err := r.Refresh(r.ctx, q)
		r.check(err)
	}
	return get(r, kinds.PersistentVolumeClaims, "ns", "c")
}

func resizing(c *corev1.PersistentVolumeClaim) corev1.ClaimResourceStatus {
	return c.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
}

func notGrown(c *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimNodeResizeError && c.Status == corev1.ConditionTrue
	})
}

// TestGrow enlarges a volume while it is mounted, once, when the resizer has handed it over.
func TestGrow(t *testing.T) {
	r := newRig(t, csidriver.Config{})
	q := claimed(r)
	r.mounts(q)
	asked := func() int { return strings.Count(calls(r), "Expand") }
	for _, is := range []corev1.ClaimResourceStatus{"", corev1.PersistentVolumeClaimControllerResizeInProgress,
		corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible} {
		if got := grows(r, q, "2Gi", is, 2); asked() != 0 || resizing(got) != is {
			t.Errorf("it is %q: asked %d times, the claim says %v", is, asked(), got.Status)
		}
	}
	got := grows(r, q, "2Gi", corev1.PersistentVolumeClaimNodeResizePending, 2)
	if got.Status.Capacity.Storage().String() != "2Gi" || len(got.Status.Conditions) != 0 || resizing(got) != "" || asked() != 1 {
		t.Errorf("asked %d times, the claim says %v", asked(), got.Status)
	}
	if u := r.Usage("u1"); len(u) != 1 || u[0].Volume != "data" || u[0].Claim != "c" || u[0].Used != 300 || u[0].InodesFree != 7 {
		t.Errorf("used %+v", u)
	}
	r.check(r.Unmount(r.ctx, "u1"))
	r.clean()
	if u := r.Usage("u1"); len(u) != 0 {
		t.Errorf("of a pod that is gone: %v", u)
	}
}

// TestGrowsOnEveryNode enlarges a volume here too after another node has done so and told the claim: once for all of the node's pods, and
// again after a failure.
func TestGrowsOnEveryNode(t *testing.T) {
	r := newRig(t, csidriver.Config{})
	q := claimed(r)
	r.mounts(q)
	asked := func() int { return strings.Count(calls(r), "Expand") }
	elsewhere := func(to string, looks int) {
		t.Helper()
		claim := resource.Clone(get(r, kinds.PersistentVolumeClaims, "ns", "c"))
		claim.Status.Capacity = gib(to)
		_, err := r.c.Update(r.Context(), kinds.PersistentVolumeClaims, claim, "status")
		r.check(err)
		grows(r, q, to, "", looks)
	}
	if elsewhere("1Gi", 2); asked() != 0 {
		t.Errorf("nothing grew, asked %d times", asked())
	}
	if elsewhere("2Gi", 3); asked() != 1 {
		t.Errorf("it grew elsewhere: asked %d times", asked())
	}
	other := *q
	other.Pod = ask("u2", q.PV, false).Pod
	r.mounts(&other)
	if _, err := r.Refresh(r.ctx, &other); err != nil || asked() != 1 {
		t.Errorf("for another pod: asked %d times, %v", asked(), err)
	}
	for _, c := range []struct {
		name  string
		code  codes.Code
		to    string
		times int
	}{
		{"fault that passes", codes.Internal, "3Gi", 2},
		{"volume that must not be in use", codes.FailedPrecondition, "4Gi", 1},
	} {
		before := asked()
		r.d.Fail(func(string) *csidriver.Fault { return &csidriver.Fault{Code: c.code} })
		if elsewhere(c.to, 2); asked()-before != c.times {
			t.Errorf("%s: %v: asked %d times", c.name, c.code, asked()-before)
		}
		r.d.Fail(nil)
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		r.check(r.Unmount(r.ctx, uid))
	}
	r.clean()
}

// TestGrowFails tells the resizer what a driver's error means, and asks again as long as it may help.
func TestGrowFails(t *testing.T) {
	pending, going := corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress
	for _, c := range []struct {
		code   codes.Code
		looks  int
		is     corev1.ClaimResourceStatus
		failed bool
	}{
		{codes.OutOfRange, 1, corev1.PersistentVolumeClaimNodeResizeInfeasible, true},
		{codes.InvalidArgument, 1, corev1.PersistentVolumeClaimNodeResizeInfeasible, true},
		{codes.NotFound, 1, corev1.PersistentVolumeClaimNodeResizeInfeasible, true},
		{codes.FailedPrecondition, 1, going, true},
		{codes.Internal, 3, going, true},
		{codes.Unavailable, 3, going, false},
		{codes.DeadlineExceeded, 3, going, false},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			r := newRig(t, csidriver.Config{})
			q := claimed(r)
			r.mounts(q)
			r.d.Fail(func(string) *csidriver.Fault { return &csidriver.Fault{Code: c.code} })
			asked := func() int { return strings.Count(calls(r), "Expand") }
			got := grows(r, q, "3Gi", pending, 3)
			if resizing(got) != c.is || notGrown(got) != c.failed || asked() != c.looks {
				t.Errorf("asked %d times, the claim says %v", asked(), got.Status)
			}
			if c.failed && c.looks > 1 { // the claim asks for less by now: the resizer may see to it
				if got := grows(r, q, "4Gi", pending, 2); resizing(got) != corev1.PersistentVolumeClaimNodeResizeInfeasible {
					t.Errorf("the claim says %v", got.Status)
				}
			}
			r.d.Fail(nil)
			if got := grows(r, q, "2Gi", pending, 1); got.Status.Capacity.Storage().String() != "2Gi" || notGrown(got) {
				t.Errorf("a smaller size: %v", got.Status)
			}
			r.check(r.Unmount(r.ctx, "u1"))
			r.clean()
		})
	}
}

// TestNewClaimDoesNotGrow has a pod that the node mounts before its claim says what it got: nothing is to be enlarged then.
func TestNewClaimDoesNotGrow(t *testing.T) {
	r := newRig(t, csidriver.Config{})
	q := claimed(r)
	q.PV.Spec.Capacity = gib("1Gi")
	told := resource.Clone(q.Claim)
	q.Claim = resource.Clone(q.Claim)
	q.Claim.Status.Capacity = nil
	r.mounts(q)
	q.Claim = told
	_, err := r.Refresh(r.ctx, q)
	r.check(err)
	if n := strings.Count(calls(r), "Expand"); n != 0 {
		t.Errorf("the driver was asked %d times to enlarge what is new", n)
	}
	r.check(r.Unmount(r.ctx, "u1"))
	r.clean()
}

// TestGrowthInWords tells the claim and the pod of a growth, as the kubelet does.
func TestGrowthInWords(t *testing.T) {
	r := newRig(t, csidriver.Config{})
	events := client.NewRecorder(r.c, "kubelet", nil)
	r.cfg.Events = events
	go events.Run(r.ctx)
	q := claimed(r)
	r.mounts(q)
	grows(r, q, "2Gi", corev1.PersistentVolumeClaimNodeResizePending, 1)
	eventually.True(t, "both are told", func() bool {
		told := map[string]bool{}
		for _, e := range resource.List(r.c.(interface{ Read() resource.Reader }).Read(), kinds.Events, "ns") {
			if e.Reason == "FileSystemResizeSuccessful" && e.Message == `MountVolume.NodeExpandVolume succeeded for volume "pv" n` {
				told[e.InvolvedObject.Kind] = true
			}
		}
		return told["Pod"] && told["PersistentVolumeClaim"]
	})
	r.check(r.Unmount(r.ctx, "u1"))
	r.clean()
}
