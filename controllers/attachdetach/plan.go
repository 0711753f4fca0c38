package attachdetach

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// patience is the time for which a node that is not ready may hold on to a volume after that was asked back, as upstream.
const patience = 6 * time.Minute

// A use is a volume that a pod on the node needs.
type use struct {
	pv, driver, handle string
	alone              bool // it can be attached to one node only
	pod                *corev1.Pod
}

// unique is the volume's name in the node's status.
func unique(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + handle)
}

// name is that of the attachment, as upstream makes it: either may take over from the other.
func (u use) name(node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(u.handle+u.driver+node)))
}

func (u use) attachment(node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: u.name(node)}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: u.driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &u.pv}}}
}

type todo struct {
	attach, detach []*storagev1.VolumeAttachment
	taken          []use // attached elsewhere
	attached       []corev1.AttachedVolume
	asked          map[types.UID]time.Time // attachments that the node does not let go of, and since when they are asked back
	again          time.Duration
}

// plan compares what the node's pods need with the attachments that there are. Attachments that others made, under
// names of their own, stay. asked is the previous plan's answer for the node.
func plan(n *corev1.Node, want []use, have []*storagev1.VolumeAttachment, asked map[types.UID]time.Time, now time.Time) (t todo) {
	t.asked = map[types.UID]time.Time{}
	wanted := map[string]use{}
	for _, u := range want {
		wanted[u.name(n.Name)] = u
	}
	there, busy := map[string]bool{}, map[string]bool{} // names of attachments; volumes attached to other nodes
	for _, va := range have {
		pv := va.Spec.Source.PersistentVolumeName
		if va.Spec.NodeName != n.Name {
			if pv != nil {
				busy[*pv] = true
			}
			continue
		}
		there[va.Name] = true
		u, needed := wanted[va.Name]
		switch {
		case va.DeletionTimestamp != nil:
		case needed && va.Status.Attached:
			t.attached = append(t.attached, corev1.AttachedVolume{Name: unique(u.driver, u.handle), DevicePath: ""})
		case needed || !strings.HasPrefix(va.Name, "csi-") || pv == nil:
		default:
			t.letGo(n, va, asked, now)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		switch u := wanted[name]; {
		case there[name]:
		case u.alone && busy[u.pv]:
			t.taken = append(t.taken, u)
		default:
			t.attach = append(t.attach, u.attachment(n.Name))
		}
	}
	coldsort.Func(t.attached, func(a, b corev1.AttachedVolume) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return t
}

// letGo detaches what no pod needs, once the node has unmounted it. A node that is not ready is waited for only so
// long, one that is out of service not at all.
func (t *todo) letGo(n *corev1.Node, va *storagev1.VolumeAttachment, asked map[types.UID]time.Time, now time.Time) {
	if held(n, va) && !outOfService(n) {
		since, before := asked[va.UID]
		if !before {
			since = now
		}
		left := since.Add(patience).Sub(now)
		if ready(n) || left > 0 {
			t.asked[va.UID] = since
			if !ready(n) && (t.again == 0 || left < t.again) {
				t.again = left
			}
			t.attached = append(t.attached, inUse(n, va)...)
			return
		}
	}
	t.detach = append(t.detach, va)
}

// held says whether the node uses a volume of the attachment's driver whose attachment this is.
func held(n *corev1.Node, va *storagev1.VolumeAttachment) bool { return len(inUse(n, va)) > 0 }

// inUse is the volume among those that the node reports to be attached and in use.
func inUse(n *corev1.Node, va *storagev1.VolumeAttachment) (list []corev1.AttachedVolume) {
	for _, name := range n.Status.VolumesInUse {
		driver, handle, ok := strings.Cut(strings.TrimPrefix(string(name), "kubernetes.io/csi/"), "^")
		if ok && (use{driver: driver, handle: handle}).name(n.Name) == va.Name {
			list = append(list, corev1.AttachedVolume{Name: name})
		}
	}
	return list
}

func outOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// ready says that nothing tells that the node's agent is not at work.
func ready(n *corev1.Node) bool {
	return !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}
