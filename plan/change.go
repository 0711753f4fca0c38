package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

// A Change is one thing that people do to a cluster.
type Change struct {
	Text string // as people say it: drain node/n1

	key  string // all that it says: changes with the same key are the same
	make func(ctx context.Context, a *author) error
}

// An author makes a change, in the world's first goroutine.
type author struct {
	w       *world
	end     time.Time
	refused []Refusal
	told    []string
	evicted []Eviction
	lost    map[string]bool // nodes
}

// refuse notes what the front door did not take. What is no refusal ends the plan.
func (a *author) refuse(o Object, err error) error {
	var st apierrors.APIStatus
	if err == nil {
		return nil
	}
	if !errors.As(err, &st) {
		return err
	}
	a.refused = append(a.refused, Refusal{o, err.Error()})
	return nil
}

func (a *author) tell(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(a.told, text) {
		a.told = append(a.told, text)
	}
}

// A Target is an object that a change is about, in the words of the question: deploy/web.
type Target struct{ Kind, Namespace, Name string }

// ParseTarget reads KIND/NAME.
func ParseTarget(text, ns string) (Target, error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return Target{}, fmt.Errorf("%q: say KIND/NAME", text)
	}
	return Target{kind, ns, name}, nil
}

// String is KIND/NAME, as kubectl takes it.
func (t Target) String() string { return t.Kind + "/" + t.Name }

// find looks a target up.
func (a *author) find(t Target) (resource.Kind, resource.Object, error) {
	k, err := kindOf(a.w.set, t.Kind)
	if err != nil {
		return nil, nil, err
	}
	ns := t.Namespace
	if !k.Info().Namespaced {
		ns = ""
	} else if ns == "" {
		ns = "default"
	}
	obj := a.w.view.Snapshot().Lookup(k, ns, t.Name)
	if obj == nil && ns != "" {
		return nil, nil, fmt.Errorf("there is no %s %q in namespace %s", k.Info().Singular, t.Name, ns)
	}
	if obj == nil {
		return nil, nil, fmt.Errorf("there is no %s %q", k.Info().Singular, t.Name)
	}
	return k, obj, nil
}

// kindOf is the kind that a person means by a word: deploy, pods, crontabs.example.com, deployment.apps.
func kindOf(set *resource.Set, word string) (best resource.Kind, err error) {
	low := strings.ToLower(word)
	for _, k := range set.All() {
		i := k.Info()
		word, group, full := strings.Cut(low, ".")
		if full && group != i.GVK.Group {
			continue
		}
		if word != i.Plural && word != i.Singular && word != strings.ToLower(i.GVK.Kind) && !slices.Contains(i.Short, word) {
			continue
		}
		if best == nil || !i.Custom && best.Info().Custom {
			best = k
		}
	}
	if best == nil {
		return nil, fmt.Errorf("the cluster has no kind %q, or you may not read its objects", word)
	}
	return best, nil
}

func (a *author) patch(ctx context.Context, k resource.Kind, obj resource.Object, pt types.PatchType, sub string, change any) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = a.w.admin().Patch(ctx, k, obj.GetNamespace(), obj.GetName(), client.Patch{Type: pt, Data: data, Sub: sub})
	return a.refuse(objectOf(k, obj), err)
}

// fieldTree is a JSON object.
type fieldTree = map[string]any

// Scale gives a workload another number of replicas.
func Scale(t Target, n int32) Change {
	text := fmt.Sprintf("scale %s to %d", t, n)
	return Change{text, text + " -n " + t.Namespace, func(ctx context.Context, a *author) error {
		k, obj, err := a.find(t)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(k.Info().Subs, func(s resource.SubInfo) bool { return s.Name == "scale" }) {
			return fmt.Errorf("a %s can't be scaled", k.Info().Singular)
		}
		return a.patch(ctx, k, obj, types.MergePatchType, "scale", fieldTree{"spec": fieldTree{"replicas": n}})
	}}
}

// SetImages gives containers of a workload other images, by name; * stands for all containers that have no image of their own there.
func SetImages(t Target, images map[string]string) Change {
	names := sortedKeys(images)
	words := make([]string, 0, len(names))
	for _, c := range names {
		words = append(words, c+"="+images[c])
	}
	text := fmt.Sprintf("set image %s %s", t, strings.Join(words, " "))
	return Change{text, text + " -n " + t.Namespace, func(ctx context.Context, a *author) error {
		k, obj, err := a.find(t)
		if err != nil {
			return err
		}
		spec, wrap := podSpecOf(obj)
		if spec == nil {
			return fmt.Errorf("a %s has no containers", k.Info().Singular)
		}
		change, known := fieldTree{}, map[string]bool{"*": true}
		for list, containers := range map[string][]corev1.Container{"containers": spec.Containers, "initContainers": spec.InitContainers} {
			var with []any
			for _, c := range containers {
				known[c.Name] = true
				if image := cmp.Or(images[c.Name], images["*"]); image != "" {
					with = append(with, fieldTree{"name": c.Name, "image": image})
				}
			}
			if with != nil {
				change[list] = with
			}
		}
		for _, c := range names {
			if !known[c] {
				return fmt.Errorf("%s has no container %q", t, c)
			}
		}
		return a.patch(ctx, k, obj, types.StrategicMergePatchType, "", wrap(change))
	}}
}

// Delete removes an object, and what it owns with it.
func Delete(t Target) Change {
	text := "delete " + t.String()
	return Change{text, text + " -n " + t.Namespace, func(ctx context.Context, a *author) error {
		k, obj, err := a.find(t)
		if err != nil {
			return err
		}
		background := metav1.DeletePropagationBackground
		return a.refuse(objectOf(k, obj), a.w.admin().Delete(ctx, k, obj.GetNamespace(), obj.GetName(),
			&metav1.DeleteOptions{PropagationPolicy: &background}))
	}}
}

// LoseNode has a node fall silent, as one whose power fails.
func LoseNode(name string) Change {
	text := "lose node/" + name
	return Change{text, text, func(ctx context.Context, a *author) error {
		k, n, err := a.find(Target{Kind: "node", Name: name})
		if err != nil {
			return err
		}
		return a.lose(ctx, k, n)
	}}
}

// LoseZone has all nodes of a zone fall silent.
func LoseZone(zone string) Change {
	text := "lose zone " + zone
	return Change{text, text, func(ctx context.Context, a *author) error {
		lost := 0
		for _, n := range resource.List(a.w.view.Snapshot(), kinds.Nodes, "") {
			if n.Labels[corev1.LabelTopologyZone] != zone && n.Labels[corev1.LabelFailureDomainBetaZone] != zone {
				continue
			}
			lost++
			if err := a.lose(ctx, kinds.Nodes, n); err != nil {
				return err
			}
		}
		if lost == 0 {
			return fmt.Errorf("no node is in a zone %q (label %s)", zone, corev1.LabelTopologyZone)
		}
		return nil
	}}
}

func (a *author) lose(ctx context.Context, k resource.Kind, n resource.Object) error {
	if a.lost == nil {
		a.lost = map[string]bool{}
	}
	a.lost[n.GetName()] = true
	return a.patch(ctx, k, n, types.MergePatchType, "", fieldTree{"metadata": fieldTree{"annotations": fieldTree{sim.Lost: "yes"}}})
}
