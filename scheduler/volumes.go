package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Annotations by which the parties of volume binding talk.
const (
	bindCompleted = "pv.kubernetes.io/bind-completed"
	boundByLoop   = "pv.kubernetes.io/bound-by-controller"
	selectedNode  = "volume.kubernetes.io/selected-node"
	byHand        = "kubernetes.io/no-provisioner"
)

var (
	volumeElsewhere = &refusal{plugin: volumeBinding, reasons: []string{"node(s) didn't match PersistentVolume's node affinity"},
		unresolvable: true}
	noVolumes = &refusal{plugin: volumeBinding, reasons: []string{"node(s) didn't find available persistent volumes to bind"},
		unresolvable: true}
	inUse = &refusal{plugin: volumeBinding,
		reasons: []string{"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"}}
	otherZone  = &refusal{plugin: volumeBinding, reasons: []string{"node(s) had no available volume zone"}, unresolvable: true}
	lostVolume = &refusal{plugin: volumeBinding,
		reasons: []string{"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"}, unresolvable: true}
)

// volumes are the persistent volume claims of a class at one moment, by what has to be done for them.
type volumes struct {
	broken string // why no node will do
	lost   bool   // a bound volume does not exist
	bound  []*nodeaffinity.NodeSelector
	zones  []volumeZone
	once   []key        // claims for one pod at a time
	attach []attachment // what CSI drivers will have to attach
	wait   []waitingClaim
	state  *state
}

// A volumeZone volume says by a label in which zones or regions it is.
type volumeZone struct {
	label  string
	values []string
}

// A waitingClaim is a claim that binds when its pod is placed.
type waitingClaim struct {
	claim   *corev1.PersistentVolumeClaim
	class   *storagev1.StorageClass
	volumes []*corev1.PersistentVolume // that could be its own, the best first
}

// A volumePlan lists the bindings to be written before the pod can be bound.
type volumePlan struct {
	static    []staticBinding
	provision []*corev1.PersistentVolumeClaim
	claims    []key            // all that must be bound
	given     map[string]share // what is taken of the volumes, by storage class
	room      map[string]share // what is taken of the storage that new ones come from
}

type staticBinding struct {
	volume *corev1.PersistentVolume
	claim  *corev1.PersistentVolumeClaim
}

// volumeIndex holds what is assumed and counted of claims and volumes, beside the objects themselves.
type volumeIndex struct {
	st         *state
	epoch      int64                   // claims, volumes, storage classes
	users      map[key]int             // claim → placed pods that use it
	assumed    map[string]key          // volume → claim that was just given it
	attachedOn map[string][]attachment // by node; nil: to be looked up again
	driverless map[string]*refusal     // by CSI driver
}

func newVolumeIndex(st *state) *volumeIndex {
	return &volumeIndex{st: st, users: map[key]int{}, assumed: map[string]key{}, driverless: map[string]*refusal{}}
}

// of looks up the class's claims.
func (x *volumeIndex) of(c *podClass) *volumes {
	v := &volumes{state: x.st}
	if x.st.read == nil {
		return v
	}
	made := ephemeral(c.pod)
	for _, name := range c.claims {
		pvc := resource.Get(x.st.read, kinds.PersistentVolumeClaims, c.pod.Namespace, name)
		switch {
		case pvc == nil && made[name]:
			v.broken = fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
		case pvc != nil && made[name] && !metav1.IsControlledBy(pvc, c.pod):
			v.broken = fmt.Sprintf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", pvc.Namespace, name, c.pod.Namespace, c.pod.Name)
		case pvc == nil:
			v.broken = fmt.Sprintf("persistentvolumeclaim %q not found", name)
		case pvc.DeletionTimestamp != nil:
			v.broken = fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
		case pvc.Status.Phase == corev1.ClaimLost:
			v.broken = fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, pvc.Spec.VolumeName)
		case isBound(pvc):
			v.addBound(pvc)
		case !v.addWaiting(pvc):
			v.broken = "pod has unbound immediate PersistentVolumeClaims"
		}
		if v.broken != "" {
			return v
		}
		if a, ok := x.attachmentOf(pvc.Namespace, name); ok {
			v.attach = append(v.attach, a)
		}
		if slices.Contains(pvc.Spec.AccessModes, corev1.ReadWriteOncePod) {
			v.once = append(v.once, keyOfClaim(pvc))
		}
	}
	return v
}

// ephemeral names the claims that are made for the pod alone.
func ephemeral(p *corev1.Pod) map[string]bool {
	made := map[string]bool{}
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Ephemeral != nil {
			made[p.Name+"-"+v.Name] = true
		}
	}
	return made
}

func isBound(pvc *corev1.PersistentVolumeClaim) bool {
	_, done := pvc.Annotations[bindCompleted]
	return pvc.Spec.VolumeName != "" && done
}

func (v *volumes) addBound(pvc *corev1.PersistentVolumeClaim) {
	pv := resource.Get(v.state.read, kinds.PersistentVolumes, "", pvc.Spec.VolumeName)
	if pv == nil {
		v.lost = true
		return
	}
	for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
		corev1.LabelFailureDomainBetaRegion} {
		if x, ok := pv.Labels[label]; ok {
			v.zones = append(v.zones, volumeZone{label, strings.Split(x, "__")})
		}
	}
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		if sel, err := nodeaffinity.NewNodeSelector(a.Required); err == nil {
			v.bound = append(v.bound, sel)
		} else {
			v.lost = true
		}
	}
}

// addWaiting notes a claim that waits for its first pod; false: it should have been bound already, as one should that names its volume.
func (v *volumes) addWaiting(pvc *corev1.PersistentVolumeClaim) bool {
	name := core.ClaimClass(pvc)
	sc := resource.Get(v.state.read, kinds.StorageClasses, "", name)
	if pvc.Spec.VolumeName != "" || name == "" || sc == nil || sc.VolumeBindingMode == nil ||
		*sc.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return false
	}
	w := waitingClaim{claim: pvc, class: sc}
	sel := labels.Everything()
	if pvc.Spec.Selector != nil {
		s, err := metav1.LabelSelectorAsSelector(pvc.Spec.Selector)
		if err != nil {
			return false
		}
		sel = s
	}
	for _, pv := range resource.List(v.state.read, kinds.PersistentVolumes, "") {
		if v.state.volumes.couldBe(pv, pvc, sel) {
			w.volumes = append(w.volumes, pv)
		}
	}
	slices.SortStableFunc(w.volumes, func(a, b *corev1.PersistentVolume) int {
		if x, y := a.Spec.ClaimRef != nil, b.Spec.ClaimRef != nil; x != y {
			if x {
				return -1
			}
			return 1
		}
		x, y := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
		return x.Cmp(y)
	})
	v.wait = append(v.wait, w)
	return true
}

// couldBe tells whether a volume suits a claim, nodes aside.
func (x *volumeIndex) couldBe(pv *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim, sel labels.Selector) bool {
	have, want := pv.Spec.Capacity[corev1.ResourceStorage], pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	if pv.DeletionTimestamp != nil || have.Cmp(want) < 0 || volumeMode(pv.Spec.VolumeMode) != volumeMode(pvc.Spec.VolumeMode) {
		return false
	}
	own := keyOfClaim(pvc)
	if other, taken := x.assumed[pv.Name]; taken && other != own {
		return false
	}
	if ref := pv.Spec.ClaimRef; ref != nil {
		return ref.Namespace == own.Namespace && ref.Name == own.Name && (ref.UID == "" || ref.UID == pvc.UID)
	}
	for _, m := range pvc.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, m) {
			return false
		}
	}
	return pv.Status.Phase == corev1.VolumeAvailable && core.VolumeClass(pv) == core.ClaimClass(pvc) && sel.Matches(labels.Set(pv.Labels))
}

func volumeMode(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

func keyOfClaim(pvc *corev1.PersistentVolumeClaim) key {
	return key{Namespace: pvc.Namespace, Name: pvc.Name}
}

// readClaims notes which claims the class's pods have.
func readClaims(c *podClass) { c.claims = core.ClaimNames(c.pod) }

// refreshVolumes looks the claims up again when something about volumes changed.
func refreshVolumes(c *podClass) {
	if x := c.st.volumes; len(c.claims) > 0 && (c.volumes == nil || c.volEpoch != x.epoch) {
		c.volumes, c.volEpoch = x.of(c), x.epoch
	}
}

// checkVolumes is the filters of the plugins VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.
func checkVolumes(c *podClass, s *nodeInfo) *refusal {
	if c.volumes == nil {
		return nil
	}
	return c.volumes.check(s)
}

func (v *volumes) check(s *nodeInfo) *refusal {
	for _, k := range v.once {
		if v.state.volumes.users[k] > 0 {
			return inUse
		}
	}
	if r := v.checkLimits(s); r != nil {
		return r
	}
	if v.lost {
		return lostVolume
	}
	for _, sel := range v.bound {
		if !sel.Match(s.node) {
			return volumeElsewhere
		}
	}
	if _, r := v.plan(s.node); r != nil {
		return r
	}
	return v.checkZones(s.node)
}

// checkZones compares what volumes say of their zone with what the node says of its own, if it says anything.
func (v *volumes) checkZones(node *corev1.Node) *refusal {
	for _, z := range v.zones {
		here, ok := node.Labels[z.label]
		if ok && !slices.Contains(z.values, here) {
			return otherZone
		}
	}
	return nil
}

// plan says how the waiting claims would be served on a node, or why they can't be.
func (v *volumes) plan(node *corev1.Node) (*volumePlan, *refusal) {
	p := &volumePlan{given: map[string]share{}, room: map[string]share{}}
	used := map[string]bool{}
	for i := range v.wait {
		w := &v.wait[i]
		p.claims = append(p.claims, keyOfClaim(w.claim))
		if n := w.claim.Annotations[selectedNode]; n != "" { // chosen already: its provisioner is at work
			if n != node.Name {
				return nil, noVolumes
			}
			p.provision = append(p.provision, w.claim)
			continue
		}
		pv := w.volumeOn(node, used)
		switch {
		case pv != nil:
			used[pv.Name] = true
			p.static = append(p.static, staticBinding{pv, w.claim})
			p.given[w.class.Name] = p.given[w.class.Name].with(w.wants(), pv.Spec.Capacity[corev1.ResourceStorage])
			continue
		case w.class.Provisioner == byHand || !allowed(w.class.AllowedTopologies, node):
			return nil, noVolumes
		}
		enough, left := w.room(v.state.read, node)
		if !enough {
			return nil, noSpace
		}
		if left != nil {
			p.room[w.class.Name] = share{p.room[w.class.Name].of, 0}.with(w.wants(), *left) // all take of the same
		}
		p.provision = append(p.provision, w.claim)
	}
	return p, nil
}

// volumeOn returns the best volume for the claim that the node can reach.
func (w *waitingClaim) volumeOn(node *corev1.Node, used map[string]bool) *corev1.PersistentVolume {
	for _, pv := range w.volumes {
		if !used[pv.Name] && near(node, pv) {
			return pv
		}
	}
	return nil
}

// near says whether the node is one that can reach the volume.
func near(node *corev1.Node, pv *corev1.PersistentVolume) bool {
	a := pv.Spec.NodeAffinity
	if a == nil || a.Required == nil {
		return true
	}
	sel, err := nodeaffinity.NewNodeSelector(a.Required)
	return err == nil && sel.Match(node)
}

// allowed tells whether a storage class may provide volumes for the node.
func allowed(terms []corev1.TopologySelectorTerm, node *corev1.Node) bool {
	for _, t := range terms {
		if !slices.ContainsFunc(t.MatchLabelExpressions, func(r corev1.TopologySelectorLabelRequirement) bool {
			return !slices.Contains(r.Values, node.Labels[r.Key])
		}) {
			return true
		}
	}
	return len(terms) == 0
}
