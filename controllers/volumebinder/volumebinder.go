// Package volumebinder brings claims and volumes together.
//
//	reads   PersistentVolumeClaim, PersistentVolume, StorageClass, the Pods that use a claim
//	writes  PersistentVolumeClaim, PersistentVolume: each other's name, phase, a finalizer on volumes of provisioners of the tree
//	rule    a claim gets the smallest volume that suits it, or one that is meant for it, the latter alone when it waits for its
//	        first consumer; both sides name each other; a volume whose claim is gone is released, then what its policy says
package volumebinder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// The annotations of binding. Their names are fixed by schedulers and provisioners.
const (
	completed      = "pv.kubernetes.io/bind-completed"
	byController   = "pv.kubernetes.io/bound-by-controller"
	provisioner    = "volume.kubernetes.io/storage-provisioner"
	oldProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
	selectedNode   = "volume.kubernetes.io/selected-node"
	defaultClass   = "storageclass.kubernetes.io/is-default-class"
	oldDefault     = "storageclass.beta.kubernetes.io/is-default-class"
	provisionedBy  = "pv.kubernetes.io/provisioned-by"
	inTree         = "kubernetes.io/" // provisioners of this name would have to be part of the cluster
)

// Claims is the loop over claims: wake on a claim, on volumes, and on classes.
var Claims = &loop.Controller[*corev1.PersistentVolumeClaim]{
	Name: "volume-binder",
	For:  kinds.PersistentVolumeClaims,
	Wake: []loop.Wake{{Kind: kinds.PersistentVolumes, Keys: hopeful}, {Kind: kinds.StorageClasses, Keys: classChanged},
		{Kind: kinds.Pods, Keys: refused}},
	Writes:    []resource.Kind{kinds.PersistentVolumeClaims, kinds.PersistentVolumes},
	Reconcile: reconcileClaim,
}

// Volumes is the loop over volumes: wake on a volume, and on the claim that it names.
var Volumes = &loop.Controller[*corev1.PersistentVolume]{
	Name:      "volume-phase",
	For:       kinds.PersistentVolumes,
	Wake:      []loop.Wake{{Kind: kinds.PersistentVolumeClaims, Keys: volumeOf}},
	Writes:    []resource.Kind{kinds.PersistentVolumes},
	Reconcile: reconcileVolume,
}

func reconcileClaim(ctx context.Context, c *loop.Ctx, p *corev1.PersistentVolumeClaim) (time.Duration, error) {
	class := resource.Get(c, kinds.StorageClasses, "", core.ClaimClass(p)) // observe
	named := func(name string) *corev1.PersistentVolume { return resource.Get(c, kinds.PersistentVolumes, "", name) }
	v, verdict := choose(p, waits(class), named, resource.List(c, kinds.PersistentVolumes, "")) // decide
	if verdict == missing && p.Spec.StorageClassName == nil && p.Annotations[corev1.BetaStorageClassAnnotation] == "" {
		if name := newestDefault(resource.List(c, kinds.StorageClasses, "")); name != "" {
			next := resource.Clone(p)
			next.Spec.StorageClassName = &name
			return loop.Now, c.Update(ctx, kinds.PersistentVolumeClaims, next)
		}
	}
	switch verdict { // act
	case bind:
		return 0, join(ctx, c, p, v)
	case lost, misbound:
		if p.Status.Phase != corev1.ClaimLost {
			tellLost(c, p, verdict == misbound)
		}
		return 0, setPhase(ctx, c, p, withoutVolume(p.Status, corev1.ClaimLost))
	case unfit:
		c.Event(kinds.PersistentVolumeClaims, p, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind to requested volume %q: %s",
			v.Name, mismatch(v, p))
	case taken:
		c.Event(kinds.PersistentVolumeClaims, p, corev1.EventTypeWarning, "FailedBinding",
			"volume %q already bound to a different claim.", p.Spec.VolumeName)
	case wait:
	case missing:
		if p.DeletionTimestamp == nil {
			if err := provide(ctx, c, p, class); err != nil {
				return 0, err
			}
		}
	}
	return 0, setPhase(ctx, c, p, withoutVolume(p.Status, corev1.ClaimPending))
}

// tellLost makes the event of a claim whose volume has gone, or is another claim's.
func tellLost(c *loop.Ctx, p *corev1.PersistentVolumeClaim, misbound bool) {
	reason, text := "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
	switch {
	case misbound:
		reason, text = "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly"
	case p.Spec.VolumeName == "":
		text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
	}
	c.Event(kinds.PersistentVolumeClaims, p, corev1.EventTypeWarning, reason, "%s", text)
}

// withoutVolume is the status of a claim that has no volume. What others say in it, as conditions, stays theirs.
func withoutVolume(st corev1.PersistentVolumeClaimStatus, phase corev1.PersistentVolumeClaimPhase) corev1.PersistentVolumeClaimStatus {
	st.Phase, st.AccessModes, st.Capacity, st.CurrentVolumeAttributesClassName = phase, nil, nil, nil
	return st
}

func setPhase(ctx context.Context, c *loop.Ctx, p *corev1.PersistentVolumeClaim, st corev1.PersistentVolumeClaimStatus) error {
	if equality.Semantic.DeepEqual(p.Status, st) {
		return nil
	}
	next := resource.Clone(p)
	next.Status = st
	return c.UpdateStatus(ctx, kinds.PersistentVolumeClaims, next)
}

// join makes both sides name each other, the volume first. One write at a time: its change wakes the claim again.
func join(ctx context.Context, c *loop.Ctx, p *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) error {
	if ref := v.Spec.ClaimRef; ref == nil || ref.UID != p.UID {
		next := resource.Clone(v)
		if !meantFor(v, p) {
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, byController, "yes")
		}
		next.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name,
			UID: p.UID, ResourceVersion: p.ResourceVersion}
		return c.Update(ctx, kinds.PersistentVolumes, next)
	}
	if p.Spec.VolumeName == "" || p.Annotations[completed] == "" {
		next := resource.Clone(p)
		if p.Spec.VolumeName == "" {
			next.Spec.VolumeName = v.Name
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, byController, "yes")
		}
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, completed, "yes")
		return c.Update(ctx, kinds.PersistentVolumeClaims, next)
	}
	st := *p.Status.DeepCopy()
	if p.Status.Phase == corev1.ClaimPending { // after that, it is the resizer's to change (KEP-3751)
		st.CurrentVolumeAttributesClassName = v.Spec.VolumeAttributesClassName
	}
	st.Phase, st.AccessModes = corev1.ClaimBound, v.Spec.AccessModes
	if p.Status.Phase != corev1.ClaimBound || st.Capacity == nil {
		st.Capacity = v.Spec.Capacity.DeepCopy()
	}
	return setPhase(ctx, c, p, st)
}

// provide asks the class's provisioner for a volume, or tells people why there will be none.
func provide(ctx context.Context, c *loop.Ctx, p *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	tell := func(typ, reason, text string) error {
		c.Event(kinds.PersistentVolumeClaims, p, typ, reason, "%s", text)
		return nil
	}
	switch name := core.ClaimClass(p); {
	case name == "":
		return tell(corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	case class == nil:
		_, err := c.Client().Get(ctx, kinds.StorageClasses, "", name)
		if !apierrors.IsNotFound(err) { // its watch is behind that of claims, and wakes this claim when it has caught up
			return err
		}
		return tell(corev1.EventTypeWarning, "ProvisioningFailed", fmt.Sprintf("storageclass.storage.k8s.io %q not found", name))
	case waits(class) && p.Annotations[selectedNode] == "":
		return tell(unplaced(c, p))
	case strings.HasPrefix(class.Provisioner, inTree):
		return tell(corev1.EventTypeWarning, "ProvisioningFailed", "no volume plugin matched name: "+class.Provisioner)
	}
	c.Event(kinds.PersistentVolumeClaims, p, corev1.EventTypeNormal, "ExternalProvisioning",
		"Waiting for a volume to be created either by the external provisioner '%s' "+
			"or manually by the system administrator. If volume creation is delayed, "+
			"please verify that the provisioner is running and correctly registered.", class.Provisioner)
	if p.Annotations[provisioner] == class.Provisioner {
		return nil
	}
	next := resource.Clone(p)
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, provisioner, class.Provisioner)
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, oldProvisioner, class.Provisioner)
	return c.Update(ctx, kinds.PersistentVolumeClaims, next)
}

// unplaced returns the event for a claim that waits for a pod that uses it to get a node.
func unplaced(read resource.Reader, p *corev1.PersistentVolumeClaim) (typ, reason, text string) {
	var names []string
	for _, pod := range resource.List(read, kinds.Pods, p.Namespace) {
		if pod.Spec.NodeName == "" && !core.Terminal(pod) &&
			slices.Contains(core.ClaimNames(pod), p.Name) {
			names = append(names, pod.Name)
		}
	}
	switch len(names) {
	case 0:
		return corev1.EventTypeNormal, "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
	case 1:
		return corev1.EventTypeNormal, "WaitForPodScheduled", "waiting for pod " + names[0] + " to be scheduled"
	}
	return corev1.EventTypeNormal, "WaitForPodScheduled", "waiting for pods " + strings.Join(names, ",") + " to be scheduled"
}

func waits(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// newestDefault is the class that claims get which name none; "" when there is none.
func newestDefault(list []*storagev1.StorageClass) string {
	var best *storagev1.StorageClass
	for _, s := range list {
		if (s.Annotations[defaultClass] == "true" || s.Annotations[oldDefault] == "true") &&
			(best == nil || best.CreationTimestamp.Before(&s.CreationTimestamp)) {
			best = s
		}
	}
	if best == nil {
		return ""
	}
	return best.Name
}

func reconcileVolume(ctx context.Context, c *loop.Ctx, v *corev1.PersistentVolume) (time.Duration, error) {
	var claim *corev1.PersistentVolumeClaim
	if ref := v.Spec.ClaimRef; ref != nil {
		claim = resource.Get(c, kinds.PersistentVolumeClaims, ref.Namespace, ref.Name)
	}
	if next := guarded(v); next != nil {
		return 0, c.Update(ctx, kinds.PersistentVolumes, next) // which wakes it again
	}
	if claim != nil && claim.UID == v.Spec.ClaimRef.UID && claim.Spec.VolumeName == "" &&
		mode(claim.Spec.VolumeMode) != mode(v.Spec.VolumeMode) {
		c.Event(kinds.PersistentVolumes, v, corev1.EventTypeWarning, "VolumeMismatch",
			"Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name)
		c.Event(kinds.PersistentVolumeClaims, claim, corev1.EventTypeWarning, "VolumeMismatch",
			"Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", v.Name)
	}
	phase, unbind := phaseOf(v, claim)
	if unbind {
		next := resource.Clone(v)
		if v.Annotations[byController] != "" {
			next.Spec.ClaimRef = nil
			delete(next.Annotations, byController)
		} else {
			next.Spec.ClaimRef.UID = "" // somebody meant it for that claim
		}
		return 0, c.Update(ctx, kinds.PersistentVolumes, next)
	}
	text := ""
	if phase == corev1.VolumeReleased && v.Status.Phase == phase &&
		(v.DeletionTimestamp == nil || slices.Contains(v.Finalizers, treeFinalizer)) {
		reason := ""
		if reason, text = reclaim(v); reason != "" {
			c.Event(kinds.PersistentVolumes, v, corev1.EventTypeWarning, reason, "%s", text)
			phase = corev1.VolumeFailed
		}
	}
	if v.Status.Phase == phase {
		return 0, nil
	}
	next := resource.Clone(v)
	next.Status.Phase, next.Status.Message = phase, text
	return 0, c.UpdateStatus(ctx, kinds.PersistentVolumes, next)
}

// hopeful wakes the claims that a volume's change concerns: its own, and those that wait for one.
func hopeful(c client.Change, read resource.Reader, wake func(ns, name string)) {
	for _, obj := range []resource.Object{c.Old, c.New} {
		if obj == nil {
			continue
		}
		if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil {
			wake(ref.Namespace, ref.Name)
		}
	}
	pending(read, wake)
}

// refused wakes the claims of a pod that gets no node: they may wait for that.
func refused(c client.Change, read resource.Reader, wake func(ns, name string)) {
	p, ok := c.New.(*corev1.Pod)
	if !ok || p.Spec.NodeName != "" || !slices.ContainsFunc(p.Status.Conditions, func(x corev1.PodCondition) bool {
		return x.Type == corev1.PodScheduled && x.Status == corev1.ConditionFalse
	}) {
		return
	}
	for _, name := range core.ClaimNames(p) {
		if claim := resource.Get(read, kinds.PersistentVolumeClaims, p.Namespace, name); claim != nil && claim.Spec.VolumeName == "" {
			wake(p.Namespace, name)
		}
	}
}

func classChanged(_ client.Change, read resource.Reader, wake func(ns, name string)) {
	pending(read, wake)
}

func pending(read resource.Reader, wake func(ns, name string)) {
	for obj := range read.Each(kinds.PersistentVolumeClaims, "") {
		if p := obj.(*corev1.PersistentVolumeClaim); p.Status.Phase != corev1.ClaimBound {
			wake(p.Namespace, p.Name)
		}
	}
}

func volumeOf(c client.Change, read resource.Reader, wake func(ns, name string)) {
	p := c.Object().(*corev1.PersistentVolumeClaim)
	if p.Spec.VolumeName != "" {
		wake("", p.Spec.VolumeName)
	}
	if c.New != nil {
		return
	}
	for obj := range read.Each(kinds.PersistentVolumes, "") {
		if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil && ref.UID == p.UID {
			wake("", obj.GetName())
		}
	}
}
