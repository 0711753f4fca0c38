package deployment

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// The annotations that carry a deployment's history. Their names are fixed by kubectl.
const (
	revisionKey = "deployment.kubernetes.io/revision"
	historyKey  = "deployment.kubernetes.io/revision-history"
	desiredKey  = "deployment.kubernetes.io/desired-replicas"
	maxKey      = "deployment.kubernetes.io/max-replicas"
)

// split finds the set whose template is the deployment's, the oldest if there are several, and the rest by age.
func split(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) (current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, rs := range sets {
		if current == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			current = rs
		} else {
			old = append(old, rs)
		}
	}
	return current, old
}

// sameTemplate compares templates without the label that tells sets apart.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	x, y := a.ObjectMeta, b.ObjectMeta
	x.Labels, y.Labels = nil, nil
	return within(a.Labels, b.Labels) && within(b.Labels, a.Labels) && resource.Same(&x, &y) && resource.Same(&a.Spec, &b.Spec)
}

// within says that each label is among the others, but for the one that tells sets apart.
func within(labels, others map[string]string) bool {
	for k, v := range labels {
		if w, ok := others[k]; k != appsv1.DefaultDeploymentUniqueLabelKey && (!ok || w != v) {
			return false
		}
	}
	return true
}

func bare(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	out := *t
	out.Labels = maps.Clone(t.Labels)
	delete(out.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	if len(out.Labels) == 0 {
		out.Labels = nil
	}
	return &out
}

// templateHash names a template: the same template and count always get the same name, so that a set is
// never made twice. The count sets apart templates whose hashes collide.
func templateHash(t *corev1.PodTemplateSpec, collisions *int32) (string, error) {
	data, err := bare(t).Marshal()
	if err != nil {
		return "", fmt.Errorf("hash the pod template: %w", err)
	}
	h := fnv.New32a()
	h.Write(data)
	if collisions != nil {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(*collisions)))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10)), nil
}

// prepare makes sure that the new set exists and that it and the deployment carry the right revision. again
// says that something was written and the pass must start over.
func prepare(ctx context.Context, c *loop.Ctx, w *world) (again bool, err error) {
	rev := nextRevision(w)
	switch {
	case w.new != nil:
		if again, err = annotateNew(ctx, c, w, rev); again || err != nil {
			return again, err
		}
		rev = w.new.Annotations[revisionKey]
	case paused(w.d) || (w.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && blockedByOld(w)):
		return false, nil
	default:
		return true, create(ctx, c, w, rev)
	}
	if w.d.Annotations[revisionKey] == rev {
		return false, nil
	}
	next := resource.Clone(w.d)
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, revisionKey, rev)
	return true, c.UpdateStatus(ctx, kinds.Deployments, next) // where it is no change of what is wanted, and counts no generation
}

func paused(d *appsv1.Deployment) bool { return d.Spec.Paused }

// blockedByOld says that Recreate has to wait: the old pods are not all gone.
func blockedByOld(w *world) bool {
	for _, rs := range w.old {
		if *rs.Spec.Replicas > 0 {
			return true
		}
	}
	return w.running
}

// nextRevision is one more than the highest of the old sets.
func nextRevision(w *world) string {
	top := int64(0)
	for _, rs := range w.old {
		top = max(top, revision(rs))
	}
	return strconv.FormatInt(top+1, 10)
}

func revision(rs *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[revisionKey], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// annotateNew brings the new set's annotations up to date: a set that becomes current again (a rollback)
// gets a new revision and remembers its old ones.
func annotateNew(ctx context.Context, c *loop.Ctx, w *world, rev string) (bool, error) {
	next := resource.Clone(w.new)
	changed := copyAnnotations(w.d, next)
	if have := revision(w.new); strconv.FormatInt(have, 10) != rev {
		if want, err := strconv.ParseInt(rev, 10, 64); err == nil && have < want {
			if have > 0 {
				metav1.SetMetaDataAnnotation(&next.ObjectMeta, historyKey, remember(next.Annotations[historyKey], strconv.FormatInt(have, 10)))
			}
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, revisionKey, rev)
			changed = true
		}
	}
	if next.Spec.MinReadySeconds != w.d.Spec.MinReadySeconds {
		next.Spec.MinReadySeconds = w.d.Spec.MinReadySeconds
		changed = true
	}
	if !changed {
		return false, nil
	}
	return true, c.Update(ctx, kinds.ReplicaSets, next)
}

// longestHistory is the number of bytes of a set's past revisions that are kept.
const longestHistory = 2000

// remember adds a revision to a list of them and forgets the oldest when it gets too long.
func remember(past, rev string) string {
	if past == "" {
		return rev
	}
	for len(past)+1+len(rev) > longestHistory {
		_, past, _ = strings.Cut(past, ",")
	}
	return past + "," + rev
}

// copyAnnotations hands the deployment's annotations down to the set, but for those that belong to one of the two.
func copyAnnotations(d *appsv1.Deployment, rs *appsv1.ReplicaSet) (changed bool) {
	for k, v := range d.Annotations {
		if !handedDown(k) {
			continue
		}
		if have, ok := rs.Annotations[k]; !ok || have != v {
			metav1.SetMetaDataAnnotation(&rs.ObjectMeta, k, v)
			changed = true
		}
	}
	return changed
}

// handedDown says whether sets have the annotation of their deployment.
func handedDown(key string) bool {
	switch key {
	case revisionKey, historyKey, desiredKey, maxKey, corev1.LastAppliedConfigAnnotation, appsv1.DeprecatedRollbackTo:
		return false
	}
	return true
}

// annotateSize notes the deployment's size on the set: proportional scaling needs to know the size before.
func annotateSize(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
	metav1.SetMetaDataAnnotation(&rs.ObjectMeta, desiredKey, strconv.Itoa(int(*d.Spec.Replicas)))
	metav1.SetMetaDataAnnotation(&rs.ObjectMeta, maxKey, strconv.Itoa(int(*d.Spec.Replicas+maxSurge(d))))
}

// errEnding says that nothing can be made any more: the namespace is on its way out, and the deployment with it.
var errEnding = errors.New("the namespace is being deleted")

// create makes the set of the current template with as many replicas as the strategy allows right away.
func create(ctx context.Context, c *loop.Ctx, w *world, rev string) error {
	d := w.d
	hash, err := templateHash(&d.Spec.Template, d.Status.CollisionCount)
	if err != nil {
		return err
	}
	rs := newSet(d, hash)
	copyAnnotations(d, rs)
	annotateSize(d, rs)
	metav1.SetMetaDataAnnotation(&rs.ObjectMeta, revisionKey, rev)
	replicas := newReplicas(*w, 0)
	rs.Spec.Replicas = &replicas
	_, err = c.Create(ctx, kinds.ReplicaSets, rs)
	switch {
	case err == nil:
		if replicas > 0 {
			c.Event(kinds.Deployments, d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from 0 to %d", rs.Name, replicas)
		}
		empty := *d
		empty.Status.UpdatedReplicas = 0 // its first pod is a movement, however many the last template had
		return report(ctx, c, &empty, func(l []appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
			return moved(l, "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", rs.Name), c.Now())
		})
	case apierrors.IsAlreadyExists(err):
		return collide(ctx, c, d, rs)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errEnding
	}
	why := fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err)
	c.Event(kinds.Deployments, d, corev1.EventTypeWarning, "ReplicaSetCreateError", "%s", why)
	return errors.Join(err, report(ctx, c, d, func(l []appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
		return set(l, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ReplicaSetCreateError", why, c.Now())
	}))
}

// setName is the name of the set with the hash, cut so that it is one.
func setName(deployment, hash string) string {
	return deployment[:min(len(deployment), validation.DNS1123SubdomainMaxLength-len(hash)-1)] + "-" + hash
}

func newSet(d *appsv1.Deployment, hash string) *appsv1.ReplicaSet {
	template := d.Spec.Template.DeepCopy()
	template.Labels = maps.Clone(template.Labels)
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	selector := d.Spec.Selector.DeepCopy()
	if selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: setName(d.Name, hash), Labels: maps.Clone(template.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kinds.Deployments.GVK)}},
		Spec: appsv1.ReplicaSetSpec{MinReadySeconds: d.Spec.MinReadySeconds, Selector: selector, Template: *template},
	}
}

// collide decides what to do when the name is taken: nothing if the set is ours already (the state at hand is old),
// else count the collision, which changes the name.
func collide(ctx context.Context, c *loop.Ctx, d *appsv1.Deployment, rs *appsv1.ReplicaSet) error {
	obj, err := c.Client().Get(ctx, kinds.ReplicaSets, rs.Namespace, rs.Name)
	if err != nil {
		return err
	}
	have := obj.(*appsv1.ReplicaSet)
	if ref := metav1.GetControllerOfNoCopy(have); ref != nil && ref.UID == d.UID && sameTemplate(&have.Spec.Template, &d.Spec.Template) {
		return nil
	}
	next := resource.Clone(d)
	count := int32(1)
	if d.Status.CollisionCount != nil {
		count += *d.Status.CollisionCount
	}
	next.Status.CollisionCount = &count
	return c.UpdateStatus(ctx, kinds.Deployments, next)
}
