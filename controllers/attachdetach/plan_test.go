package attachdetach

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func vol(pv string, alone bool) use { return use{pv: pv, driver: "d", handle: "h-" + pv, alone: alone} }

func attachedTo(node string, u use, attached bool) *storagev1.VolumeAttachment {
	va := u.attachment(node)
	va.Status.Attached = attached
	return va
}

func TestPlan(t *testing.T) {
	a, b := vol("a", true), vol("b", false)
	foreign := attachedTo("n", a, true)
	foreign.Name = "made-by-hand"
	leaving := attachedTo("n", a, true)
	leaving.DeletionTimestamp = &metav1.Time{Time: noon}
	uses := []corev1.UniqueVolumeName{unique(a.driver, a.handle)}
	silent := func(since time.Duration) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
			LastTransitionTime: metav1.NewTime(noon.Add(-since))}}
	}
	asked := map[types.UID]time.Time{}
	askedBack := func(ago time.Duration) *storagev1.VolumeAttachment {
		va := attachedTo("n", a, true)
		va.UID = types.UID(ago.String())
		asked[va.UID] = noon.Add(-ago)
		return va
	}
	for _, tt := range []struct {
		name   string
		node   corev1.Node
		want   []use
		have   []*storagev1.VolumeAttachment
		expect string // attach, detach, taken, attached
		again  time.Duration
	}{
		{"new", corev1.Node{}, []use{a, b}, nil, "2 0 0 0", 0},
		{"under way", corev1.Node{}, []use{a}, []*storagev1.VolumeAttachment{attachedTo("n", a, false)}, "0 0 0 0", 0},
		{"attached", corev1.Node{}, []use{a}, []*storagev1.VolumeAttachment{attachedTo("n", a, true)}, "0 0 0 1", 0},
		{"no longer needed", corev1.Node{}, nil, []*storagev1.VolumeAttachment{attachedTo("n", a, true)}, "0 1 0 0", 0},
		{"still mounted", corev1.Node{Status: corev1.NodeStatus{VolumesInUse: uses}}, nil,
			[]*storagev1.VolumeAttachment{attachedTo("n", a, true)}, "0 0 0 1", 0},
		{"mounted where nobody answers", corev1.Node{Status: corev1.NodeStatus{VolumesInUse: uses, Conditions: silent(time.Hour)}}, nil,
			[]*storagev1.VolumeAttachment{attachedTo("n", a, true)}, "0 0 0 1", 6 * time.Minute},
		{"mounted where nobody answers, asked back a minute ago", corev1.Node{Status: corev1.NodeStatus{VolumesInUse: uses,
			Conditions: silent(time.Hour)}}, nil,
			[]*storagev1.VolumeAttachment{askedBack(time.Minute)}, "0 0 0 1", 5 * time.Minute},
		{"for too long", corev1.Node{Status: corev1.NodeStatus{VolumesInUse: uses, Conditions: silent(time.Second)}}, nil,
			[]*storagev1.VolumeAttachment{askedBack(6 * time.Minute)}, "0 1 0 0", 0},
		{"for long by a node that is well", corev1.Node{Status: corev1.NodeStatus{VolumesInUse: uses}}, nil,
			[]*storagev1.VolumeAttachment{askedBack(time.Hour)}, "0 0 0 1", 0},
		{"out of service", corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}},
			Status: corev1.NodeStatus{VolumesInUse: uses}}, nil,
			[]*storagev1.VolumeAttachment{attachedTo("n", a, true)}, "0 1 0 0", 0},
		{"one node's volume elsewhere", corev1.Node{}, []use{a}, []*storagev1.VolumeAttachment{attachedTo("m", a, true)}, "0 0 1 0", 0},
		{"everybody's volume elsewhere", corev1.Node{}, []use{b}, []*storagev1.VolumeAttachment{attachedTo("m", b, true)}, "1 0 0 0", 0},
		{"another's attachment", corev1.Node{}, nil, []*storagev1.VolumeAttachment{foreign}, "0 0 0 0", 0},
		{"leaving, wanted again", corev1.Node{}, []use{a}, []*storagev1.VolumeAttachment{leaving}, "0 0 0 0", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.Name = "n"
			got := plan(&tt.node, tt.want, tt.have, asked, noon)
			sum := fmt.Sprint(len(got.attach), len(got.detach), len(got.taken), len(got.attached))
			if sum != tt.expect || got.again != tt.again {
				t.Errorf("%s: %s again %v, want %s again %v", tt.name, sum, got.again, tt.expect, tt.again)
			}
		})
	}
}
