package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// How often a volume of a running pod is looked at: whether it has to grow, and whether its driver wants to publish it again.
const (
	lookEvery      = time.Minute
	republishEvery = 90 * time.Second
)

// Refresh keeps a mounted volume of a running pod as its objects say: it grows, and is published again where its driver asks for that. A
// failure leaves the mount as it is. After next it should be called again.
func (m *Mounter) Refresh(ctx context.Context, r *Request) (next time.Duration, err error) {
	j, err := m.job(ctx, r)
	if err != nil {
		return lookEvery, err
	}
	if !m.recorded(j) {
		return 0, nil
	}
	m.want(j.v, r.Pod.UID, j.attaches(), label{text: j.label.text}) // it has it
	unlock, err := m.lock(ctx, j.v)
	if err != nil {
		return lookEvery, err
	}
	defer unlock()
	m.grow(ctx, j)
	if err := m.measure(ctx, j); err != nil && ctx.Err() == nil {
		m.log.Warn("ask how full a volume is", "volume", j.v.String(), "err", err)
	}
	if j.about == nil || !is(j.about.Spec.RequiresRepublish) {
		return lookEvery, nil
	}
	s, known := m.settled(r)
	if left := time.Until(s.again); known && left > 0 {
		return min(left, lookEvery), nil
	}
	if j.attaches() {
		if j.context, err = m.attached(ctx, j.v); err != nil {
			return lookEvery, err
		}
	}
	err = m.publish(ctx, j)
	if known {
		s.again = time.Now().Add(republishEvery)
		m.settle(r, s)
	}
	return lookEvery, err
}

// recorded says that the volume was published for the pod.
func (m *Mounter) recorded(j *job) bool {
	files, blocks, err := m.published(j.Pod.UID)
	if j.Block {
		files = blocks
	}
	return err == nil && slices.Contains(files, j.name())
}

// grow has the driver enlarge a published volume to what the PersistentVolume has become, and writes that into the claim. What comes of
// it stands in the claim and its events; the volume can be used as it is. It is the claim's status that says whose turn it is: the
// resizer's, which hands over with NodeResizePending, or the node's (KEP-1790). Where several nodes have the volume, one of them says that
// it has grown; the others enlarge it too.
func (m *Mounter) grow(ctx context.Context, j *job) {
	if j.Claim == nil || j.ReadOnly || !j.d.does(csi.NodeServiceCapability_RPC_EXPAND_VOLUME) {
		return
	}
	want, have := j.PV.Spec.Capacity[corev1.ResourceStorage], j.Claim.Status.Capacity[corev1.ResourceStorage]
	if have.IsZero() {
		return // the claim does not say yet what it got
	}
	here := m.sizeOf(j.v, have.Value())
	if m.refusedGrowth(j, want.Value()) {
		return
	}
	var err error
	switch is := j.Claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; {
	case nodesTurn(&j.Claim.Status) && want.Cmp(have) > 0:
		err = j.enlarge(ctx, m, want.Value())
	case is == "" && want.Cmp(have) == 0 && here < want.Value():
		err = j.follow(ctx, m, want.Value())
	default:
		return
	}
	switch {
	case err == nil:
		m.sized(j.v, want.Value())
		m.event(j, corev1.EventTypeNormal, "FileSystemResizeSuccessful", "MountVolume.NodeExpandVolume succeeded for volume %q %s", j.PV.Name,
			m.cfg.Node)
	case ctx.Err() == nil:
		m.event(j, corev1.EventTypeWarning, "VolumeResizeFailed", "NodeExpandVolume failed for volume %q: %v", j.PV.Name, err)
		m.log.Warn("enlarge a volume", "volume", j.PV.Name, "err", err)
	}
}

// enlarge has the driver do it, and writes into the claim what came of it.
func (j *job) enlarge(ctx context.Context, m *Mounter, size int64) error {
	err := m.status(ctx, j, func(s *corev1.PersistentVolumeClaimStatus) {
		s.AllocatedResourceStatuses[corev1.ResourceStorage] = corev1.PersistentVolumeClaimNodeResizeInProgress
	})
	if err != nil {
		return err
	}
	if err = m.expand(ctx, j, size); err == nil {
		return m.grown(ctx, j)
	}
	if ctx.Err() == nil {
		err = errors.Join(failed("the driver", err), m.notGrown(ctx, j, err))
	}
	return err
}

// follow enlarges here what another node has said to have grown.
func (j *job) follow(ctx context.Context, m *Mounter, size int64) error {
	err := m.expand(ctx, j, size)
	if err == nil {
		return nil
	}
	if status.Code(err) == codes.FailedPrecondition {
		m.refuseGrowth(j, size)
	}
	return failed("the driver", err)
}

// nodesTurn says that the resizer has done its part and the node has not.
func nodesTurn(s *corev1.PersistentVolumeClaimStatus) bool {
	is := s.AllocatedResourceStatuses[corev1.ResourceStorage]
	return is == corev1.PersistentVolumeClaimNodeResizePending || is == corev1.PersistentVolumeClaimNodeResizeInProgress
}

func (m *Mounter) expand(ctx context.Context, j *job, size int64) error {
	secrets, err := m.secret(ctx, "NodeExpandSecretRef", j.PV.Spec.CSI.NodeExpandSecretRef)
	if err != nil {
		return err
	}
	call, stop := m.Drivers.limit(ctx)
	defer stop()
	_, err = j.d.node.NodeExpandVolume(call, &csi.NodeExpandVolumeRequest{VolumeId: j.v.handle, VolumePath: j.target,
		StagingTargetPath: j.staging, CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapability: j.capability(j.d),
		Secrets: secrets})
	return err
}

// notGrown writes into the claim what a driver's refusal means. What it will never do is the resizer's again, which may take the claim's
// size back, and so is a failure at another size than the claim asks for by now.
func (m *Mounter) notGrown(ctx context.Context, j *job, err error) error {
	if !final(err) {
		return nil
	}
	size := j.PV.Spec.Capacity[corev1.ResourceStorage]
	infeasible := false
	switch status.Code(err) {
	case codes.OutOfRange, codes.InvalidArgument, codes.NotFound:
		infeasible = true
	case codes.FailedPrecondition: // not as long as it is in use here
		m.refuseGrowth(j, size.Value())
	}
	return m.status(ctx, j, func(s *corev1.PersistentVolumeClaimStatus) {
		now := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.Now(), Message: fmt.Sprintf("failed to expand pvc with %v", err)}
		i := slices.IndexFunc(s.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == now.Type })
		asked := j.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if infeasible || i >= 0 && asked.Cmp(size) != 0 {
			s.AllocatedResourceStatuses[corev1.ResourceStorage] = corev1.PersistentVolumeClaimNodeResizeInfeasible
		}
		if i < 0 {
			s.Conditions = append(s.Conditions, now)
		}
	})
}

func sizeKey(j *job, size int64) string { return fmt.Sprint(j.PV.Name, " ", size) }

func (k *knowledge) refuseGrowth(j *job, size int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bad[j.Pod.UID] == nil {
		k.bad[j.Pod.UID] = map[string]struct{}{}
	}
	k.bad[j.Pod.UID][sizeKey(j, size)] = struct{}{}
}

// sizeOf is the size that the volume has on this node, as far as known; at first what its claim says.
func (k *knowledge) sizeOf(v volumeID, said int64) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.sizes[v]; !known {
		k.sizes[v] = said
	}
	return k.sizes[v]
}

func (k *knowledge) sized(v volumeID, size int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sizes[v] = size
}

// refusedGrowth says that the driver won't enlarge the volume to this size while it is in use here.
func (k *knowledge) refusedGrowth(j *job, size int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, bad := k.bad[j.Pod.UID][sizeKey(j, size)]
	return bad
}

// grown writes the new size into the claim.
func (m *Mounter) grown(ctx context.Context, j *job) error {
	return m.status(ctx, j, func(s *corev1.PersistentVolumeClaimStatus) { Grown(s, j.PV.Spec.Capacity[corev1.ResourceStorage]) })
}

// Grown says in a claim's status that its volume has a size by now, and that nothing of its growth is left to do.
func Grown(s *corev1.PersistentVolumeClaimStatus, size apiresource.Quantity) {
	if s.Capacity == nil {
		s.Capacity = corev1.ResourceList{}
	}
	s.Capacity[corev1.ResourceStorage] = size
	if delete(s.AllocatedResourceStatuses, corev1.ResourceStorage); len(s.AllocatedResourceStatuses) == 0 {
		s.AllocatedResourceStatuses = nil
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		switch c.Type {
		case corev1.PersistentVolumeClaimFileSystemResizePending, corev1.PersistentVolumeClaimResizing,
			corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			return true
		}
		return false
	})
}

// status changes the claim's status, as long as it is the node's turn.
func (m *Mounter) status(ctx context.Context, j *job, change func(*corev1.PersistentVolumeClaimStatus)) error {
	for range tries {
		obj, err := m.cfg.Client.Get(ctx, kinds.PersistentVolumeClaims, j.Claim.Namespace, j.Claim.Name)
		if err != nil {
			return fmt.Errorf("read the claim: %w", err)
		}
		next := resource.Clone(obj.(*corev1.PersistentVolumeClaim))
		if next.UID != j.Claim.UID || !nodesTurn(&next.Status) {
			return errors.New("the claim is another one by now, or its growth somebody else's")
		}
		change(&next.Status)
		j.Claim = next
		if _, err = m.cfg.Client.Update(ctx, kinds.PersistentVolumeClaims, next, "status"); !apierrors.IsConflict(err) {
			return err
		}
	}
	return errors.New("write the claim's status: it keeps changing")
}

// event tells of the claim, and of the pod that waits for it to grow.
func (m *Mounter) event(j *job, typ, reason, format string, args ...any) {
	if m.cfg.Events == nil {
		return
	}
	for _, ref := range []corev1.ObjectReference{
		{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: j.Claim.Namespace, Name: j.Claim.Name, UID: j.Claim.UID},
		{Kind: "Pod", APIVersion: "v1", Namespace: j.Pod.Namespace, Name: j.Pod.Name, UID: j.Pod.UID},
	} {
		m.cfg.Events.Ref(ref, typ, reason, format, args...)
	}
}
