package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// treeKey labels what a workload made by hand, for the comparison at the end.
const treeKey = "proof/tree"

// heldBy is a finalizer that a user takes off later.
const heldBy = "proof.dev/held"

// leafOf is an object of a tree.
func leafOf(namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{treeKey: "yes"},
		OwnerReferences: owners}}
}

func ownedBy(k resource.Kind, obj resource.Object, blocks bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: k.Info().GVK.GroupVersion().String(), Kind: k.Info().GVK.Kind, Name: obj.GetName(),
		UID: obj.GetUID(), BlockOwnerDeletion: &blocks}
}

// tree makes objects that own each other, three deep, one of them with two owners and one held, and removes the root.
func (p *workload) tree(d *rand.Rand) {
	name := p.fresh("tree")
	how := []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
		metav1.DeletePropagationBackground}[d.IntN(4)]
	blocks, held := d.IntN(4) > 0, d.IntN(2) == 0
	p.add(d, "plant "+name, func(u *user) error { return u.plant(name, blocks, held) })
	p.add(d, fmt.Sprintf("fell %s, %s", name, how), func(u *user) error { return u.drop(kinds.ConfigMaps, ns, name, how) })
	if held {
		p.add(d, "let go of "+name, func(u *user) error { return u.letGo(ns, name+"-1-1") })
	}
}

func (u *user) plant(name string, blocks, held bool) error {
	root, err := u.ensure(kinds.ConfigMaps, leafOf(ns, name))
	if err != nil {
		return err
	}
	other, err := u.ensure(kinds.ConfigMaps, leafOf(ns, name+"-other"))
	if err != nil {
		return err
	}
	for i := range 2 {
		limb := leafOf(ns, fmt.Sprintf("%s-%d", name, i), ownedBy(kinds.ConfigMaps, root, blocks))
		grown, err := u.ensure(kinds.ConfigMaps, limb)
		if err != nil {
			return err
		}
		for j := range 2 {
			leaf := leafOf(ns, fmt.Sprintf("%s-%d-%d", name, i, j), ownedBy(kinds.ConfigMaps, grown, blocks))
			if i == 0 && j == 0 {
				leaf.OwnerReferences = append(leaf.OwnerReferences, ownedBy(kinds.ConfigMaps, other, false))
			}
			if held && i == 1 && j == 1 {
				leaf.Finalizers = []string{heldBy}
			}
			if _, err := u.ensure(kinds.ConfigMaps, leaf); err != nil {
				return err
			}
		}
	}
	return nil
}

// letGo takes the user's finalizer off.
func (u *user) letGo(namespace, name string) error {
	err := edit(u, kinds.ConfigMaps, namespace, name, func(c *corev1.ConfigMap) {
		c.Finalizers = slices.DeleteFunc(slices.Clone(c.Finalizers), func(f string) bool { return f == heldBy })
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ensure makes an object, or finds the one that an earlier try made.
func (u *user) ensure(k resource.Kind, obj resource.Object) (resource.Object, error) {
	made, err := u.Create(u.ctx, k, obj)
	if apierrors.IsAlreadyExists(err) {
		return u.Get(u.ctx, k, obj.GetNamespace(), obj.GetName())
	}
	return made, err
}

const customGroup = "proof.dev"

// define makes a kind, objects of it, and something that one of them owns. Some definitions are removed again.
func (p *workload) define(d *rand.Rand) {
	plural := p.fresh("widget") + "s"
	def := decode(&apiextensionsv1.CustomResourceDefinition{}, `{metadata: {name: %s.%s}, spec: {group: %s, scope: Namespaced,
		names: {plural: %s, singular: %s, kind: %s}, conversion: {strategy: None}, versions: [%s, %s]}}`, plural, customGroup, customGroup,
		plural, plural[:len(plural)-1], kindOf(plural), versionOf("v1", true), versionOf("v2", false))
	p.add(d, "define "+plural, func(u *user) error { return u.make1(kinds.CustomResourceDefinitions, def) })
	for i := range 3 {
		p.add(d, fmt.Sprintf("make %s %d", plural, i), func(u *user) error {
			w, err := u.widget(plural, ns, fmt.Sprintf("%s-%d", plural, i))
			if err != nil || i > 0 {
				return err
			}
			k, _ := u.custom(plural)
			return u.make1(kinds.ConfigMaps, leafOf(ns, plural+"-own", ownedBy(k, w, true)))
		})
	}
	n := 1 + d.IntN(50)
	p.add(d, fmt.Sprintf("change %s: %d", plural, n), func(u *user) error {
		k, err := u.custom(plural)
		if err != nil {
			return err
		}
		cur, err := u.Get(u.ctx, k, ns, plural+"-1")
		if err != nil {
			return err
		}
		next := resource.Opened(cur).DeepCopyObject().(runtime.Unstructured)
		next.UnstructuredContent()["spec"] = map[string]any{"size": int64(n)}
		_, err = u.Update(u.ctx, k, next.(resource.Object), "")
		return err
	})
	switch d.IntN(3) {
	case 0:
		p.remains = append(p.remains, action{"remove definition " + plural, 5 * time.Second, func(u *user) error {
			return u.drop(kinds.CustomResourceDefinitions, "", def.Name, metav1.DeletePropagationBackground)
		}})
	case 1:
		p.add(d, "remove definition "+plural, func(u *user) error {
			return u.drop(kinds.CustomResourceDefinitions, "", def.Name, metav1.DeletePropagationBackground)
		})
	}
}

func kindOf(plural string) string { return "W" + plural[1:len(plural)-1] }

func versionOf(name string, stored bool) string {
	return fmt.Sprintf(
		`{name: %s, served: true, storage: %t, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {
		spec: {type: object, properties: {size: {type: integer, default: 1, maximum: 1000}}, x-kubernetes-validations: [{rule: "self.size > 0"}]},
		status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}`, name, stored)
}

// custom finds a kind that the workload defined, once it is served.
func (u *user) custom(plural string) (resource.Kind, error) {
	k, ok := u.w.set.GR(schema.GroupResource{Group: customGroup, Resource: plural})
	if !ok {
		return nil, fmt.Errorf("%s are not served yet", plural)
	}
	return k, nil
}

// widget makes an object of a kind that the workload defined.
func (u *user) widget(plural, namespace, name string) (resource.Object, error) {
	k, err := u.custom(plural)
	if err != nil {
		return nil, err
	}
	obj := k.New(k.Info().GVK)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.(runtime.Unstructured).UnstructuredContent()["spec"] = map[string]any{"size": int64(1)}
	return u.ensure(k, obj)
}
