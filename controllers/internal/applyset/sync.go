package applyset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// ConfirmNote on the parent, with the value "true", lets more than half of the members be pruned at once. It is taken off afterwards.
const ConfirmNote = "applyset.kloop.dev/confirm-prune"

// A Source describes the members.
type Source struct {
	Want []Wish
	// Lost says whether the source is sure not to describe anything at an origin of before any more.
	Lost func(origin string) bool
	// Whole has nothing done unless the server would take all of it.
	Whole bool
}

// A Syncer keeps one set. What it remembers only saves applying again what is as it was; it starts empty. Not safe for concurrent use.
type Syncer struct {
	Set  Set
	seen map[ID]settled
}

// A Report lists what a pass did and what remains. Problems are for people.
type Report struct {
	Applied, Pruned int
	Kept            []ID // lost by the source, but not pruned
	Problems        []error
}

// Sync makes one pass: it applies what is new or changed on either side, and prunes what the source has lost. An error is one
// after which nothing more was done.
func (s *Syncer) Sync(ctx context.Context, c *loop.Ctx, src Source) (r Report, err error) {
	want, unknown := s.resolve(c, src.Want)
	r.Problems = slices.Clone(unknown)
	parent, _ := c.Lookup(kinds.ConfigMaps, s.Set.Namespace, s.Set.Name).(*corev1.ConfigMap)
	gks := kindsOf(parent)
	for _, w := range want {
		gks = append(gks, w.id.GroupKind)
	}
	have := s.observe(c, want, gks)
	surely := parent != nil && parent.Annotations[ConfirmNote] == "true"
	d, stopped := plan(s.Set.ID(), want, have, src.Lost, s.seen, surely)
	if src.Whole {
		if r.Problems = s.refused(ctx, c, d.apply, src.Want, unknown); len(r.Problems) > 0 {
			return r, nil
		}
		r.Problems = unknown // but for kinds that the source defines, which come with the next pass
	}
	if len(d.apply)+len(d.prune) > 0 || len(want) > 0 && parent == nil { // first: where members will have to be looked for
		if parent, err = s.keepParent(ctx, c, parent, gks, false); err != nil {
			return r, err
		}
	}
	if stopped > 0 {
		r.Problems = append(r.Problems, fmt.Errorf("%d members, more than half of all, are not described any more: none is pruned; "+
			"if that is meant: kubectl annotate configmap -n %s %s %s=true", stopped, s.Set.Namespace, s.Set.Name, ConfirmNote))
	}
	for _, t := range d.taken {
		r.Problems = append(r.Problems, fmt.Errorf("%s, described by %s, belongs to another ApplySet: %s", t.id, t.origin, t.by))
	}
	for _, t := range d.doubles {
		r.Problems = append(r.Problems, fmt.Errorf("%s is described by %s and by %s: the first counts", t.id, t.by, t.origin))
	}
	r.Kept = d.kept
	s.apply(ctx, c, d.apply, have, &r)
	s.prune(ctx, c, d.prune, &r)
	if ctx.Err() == nil && len(d.prune) == 0 && parent != nil && (surely || len(r.Problems) == 0) {
		_, err = s.keepParent(ctx, c, parent, s.inhabited(want, have), true)
	}
	return r, err
}

// resolve finds the kinds of what is described. What the cluster does not serve now may be served later.
func (s *Syncer) resolve(c *loop.Ctx, list []Wish) (want []named, problems []error) {
	for _, w := range list {
		gvk := w.Object.GroupVersionKind()
		k, ok := c.Client().Kinds().GroupKind(gvk.GroupKind())
		if !ok || !slices.Contains(c.Client().Kinds().Served(k), gvk) {
			problems = append(problems, unserved{w.Origin, gvk})
			continue
		}
		id := ID{gvk.GroupKind(), w.Object.GetNamespace(), w.Object.GetName()}
		switch {
		case !k.Info().Namespaced:
			id.Namespace = ""
		case id.Namespace == "":
			id.Namespace = metav1.NamespaceDefault
		}
		want = append(want, named{w, id})
	}
	return want, problems
}

// observe finds the members, and what has the name of a wish without being one.
func (s *Syncer) observe(c *loop.Ctx, want []named, gks []schema.GroupKind) map[ID]member {
	have, set := map[ID]member{}, c.Client().Kinds()
	see := func(k resource.Kind, gk schema.GroupKind, obj resource.Object) {
		if obj != nil {
			id := ID{gk, obj.GetNamespace(), obj.GetName()}
			have[id] = member{id: id, origin: obj.GetAnnotations()[OriginNote], mark: mark(set, k, obj), set: obj.GetLabels()[PartOf],
				keep: kept(gk, obj), going: obj.GetDeletionTimestamp() != nil, uid: obj.GetUID()}
		}
	}
	for _, w := range want {
		if k, ok := set.GroupKind(w.id.GroupKind); ok {
			see(k, w.id.GroupKind, c.Lookup(k, w.id.Namespace, w.id.Name))
		}
	}
	searched := map[resource.Kind]bool{}
	for _, gk := range gks {
		if k, ok := set.GroupKind(gk); ok && !searched[k] {
			searched[k] = true
			for obj := range c.ByLabel(k, "", PartOf, s.Set.ID()) {
				see(k, gk, obj)
			}
		}
	}
	return have
}

// mark changes with what a manifest can say of an object. Status is not part of it, for kinds that count their generations.
func mark(set *resource.Set, k resource.Kind, obj resource.Object) string {
	if resource.CountsGeneration(set.Features(), k) && obj.GetGeneration() > 0 {
		return fmt.Sprint(obj.GetUID(), obj.GetGeneration(), obj.GetLabels(), obj.GetAnnotations())
	}
	return obj.GetResourceVersion()
}

// kept says that an object is not pruned: more than itself would go with it.
func kept(gk schema.GroupKind, obj resource.Object) bool {
	switch gk.Kind {
	case "Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume":
		return obj.GetAnnotations()[KeepNote] != "false"
	}
	return obj.GetAnnotations()[KeepNote] == "true"
}

// send applies one object as the source describes it, marked as a member.
func (s *Syncer) send(ctx context.Context, c *loop.Ctx, w Wish, dry bool) (resource.Kind, *unstructured.Unstructured, error) {
	obj := w.Object.DeepCopy()
	gvk := obj.GroupVersionKind()
	k, _ := c.Client().Kinds().GroupKind(gvk.GroupKind())
	if k.Info().Namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	obj.SetLabels(with(obj.GetLabels(), PartOf, s.Set.ID()))
	obj.SetAnnotations(with(obj.GetAnnotations(), OriginNote, w.Origin))
	data, err := codec.MarshalJSON(obj)
	if err != nil {
		return k, obj, err
	}
	p := client.Patch{Type: types.ApplyPatchType, Data: data, Force: true, As: gvk, DryRun: dry}
	if dry { // no write, so not one of the loop's
		_, err = c.Client().Patch(ctx, k, obj.GetNamespace(), obj.GetName(), p)
		return k, obj, err
	}
	return k, obj, c.Patch(ctx, k, obj, p)
}

func (s *Syncer) apply(ctx context.Context, c *loop.Ctx, list []Wish, have map[ID]member, r *Report) {
	if s.seen == nil {
		s.seen = map[ID]settled{}
	}
	for _, w := range list {
		_, obj, err := s.send(ctx, c, w, false)
		id := ID{obj.GroupVersionKind().GroupKind(), obj.GetNamespace(), obj.GetName()}
		if err != nil {
			delete(s.seen, id)
			r.Problems = append(r.Problems, fmt.Errorf("%s: apply %s: %w", w.Origin, id, err))
			continue
		}
		r.Applied++
		s.seen[id] = settled{w.Hash, have[id].mark} // holds from the next pass on, if this one changed nothing
	}
}

func (s *Syncer) prune(ctx context.Context, c *loop.Ctx, list []member, r *Report) {
	background := metav1.DeletePropagationBackground
	for _, m := range list {
		k, ok := c.Client().Kinds().GroupKind(m.id.GroupKind)
		if !ok {
			continue
		}
		obj := c.Lookup(k, m.id.Namespace, m.id.Name)
		if obj == nil || obj.GetUID() != m.uid {
			continue
		}
		err := c.DeleteWith(ctx, k, obj, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.uid}, PropagationPolicy: &background})
		if err != nil {
			r.Problems = append(r.Problems, fmt.Errorf("prune %s: %w", m.id, err))
			continue
		}
		delete(s.seen, m.id)
		r.Pruned++
	}
}

// inhabited are the kinds that have members, or will.
func (s *Syncer) inhabited(want []named, have map[ID]member) (list []schema.GroupKind) {
	for _, w := range want {
		list = append(list, w.id.GroupKind)
	}
	for id, m := range have {
		if m.set == s.Set.ID() {
			list = append(list, id.GroupKind)
		}
	}
	return list
}

// keepParent writes the parent if it is not as it should be, and returns it.
func (s *Syncer) keepParent(ctx context.Context, c *loop.Ctx, have *corev1.ConfigMap, in []schema.GroupKind,
	done bool) (*corev1.ConfigMap, error) {
	p := s.Set.parent(have, in)
	if done {
		delete(p.Annotations, ConfirmNote)
	}
	switch {
	case have == nil:
		_, err := c.Create(ctx, kinds.ConfigMaps, p)
		if err != nil {
			return nil, fmt.Errorf("make the set's parent: %w", err)
		}
	case !maps.Equal(have.Labels, p.Labels) || !maps.Equal(have.Annotations, p.Annotations):
		if err := c.Update(ctx, kinds.ConfigMaps, p); err != nil {
			return nil, fmt.Errorf("keep the set's parent: %w", err)
		}
	default:
		return have, nil
	}
	now, err := c.Client().Get(ctx, kinds.ConfigMaps, p.Namespace, p.Name)
	if err != nil {
		return nil, fmt.Errorf("read the set's parent: %w", err)
	}
	return resource.As[*corev1.ConfigMap](now), nil
}

// Err is all problems in one, or nil.
func (r Report) Err() error { return errors.Join(r.Problems...) }

// Passing says that nothing is wrong that another look would not mend, as a conflict.
func (r Report) Passing() bool {
	return !slices.ContainsFunc(r.Problems, func(err error) bool { return !apierrors.IsConflict(err) })
}

func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}
