package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// A situation is a way to be stuck, of test/why: between them they hold every kind that a loop writes, in all its states.
type situation struct {
	Name  string
	Given string
	Then  []step
}

// A step is what happens to them. What only looks, or asks for what is refused, is left out here.
type step struct {
	Delete, Patch, Sub, With, Await, Is, Create, Own string
}

func situations(t *testing.T, file string) (list []situation) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// make brings a situation about.
func (w *world) make(s situation) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	if _, err := w.Create(w.ctx, kinds.Namespaces, ns); err != nil {
		w.t.Fatal(err)
	}
	docs := yamlutil.NewYAMLOrJSONDecoder(strings.NewReader(s.Given), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := docs.Decode(obj); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			w.t.Fatal(err)
		}
		if len(obj.Object) > 0 {
			w.create(s, obj)
		}
	}
	for _, st := range s.Then {
		w.do(s, st)
	}
}

// soon asks until f has no error: definitions take their time, and loops write at the same time.
func (w *world) soon(s situation, what string, f func() error) {
	var err error
	for range 1200 {
		if err = f(); err == nil || w.ctx.Err() != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Errorf("%s: %s: %v", s.Name, what, err)
}

// of is where objects of a kind are, for a situation.
func (w *world) of(s situation, gvk schema.GroupVersionKind, ns string) (dynamic.ResourceInterface, error) {
	k, ok := w.Set.Kind(gvk)
	if !ok {
		if k, ok = w.Set.GroupKind(gvk.GroupKind()); !ok {
			return nil, fmt.Errorf("%s is not served", gvk)
		}
	}
	r := w.dyn.Resource(gvk.GroupVersion().WithResource(k.Info().Plural))
	if !k.Info().Namespaced {
		return r, nil
	}
	if ns == "" {
		ns = s.Name
	}
	return r.Namespace(ns), nil
}

// named is an object by its name: RESOURCE[.GROUP]:NAME, or * for the first one there is.
func (w *world) named(s situation, id string) (dynamic.ResourceInterface, string, error) {
	gr, name, err := convergence.ParseName(id)
	if err != nil {
		return nil, "", err
	}
	k, ok := w.Set.GR(gr)
	if !ok {
		return nil, "", fmt.Errorf("%s is not served", gr)
	}
	r, err := w.of(s, k.Info().GVK, "")
	if err != nil || name != "*" {
		return r, name, err
	}
	list, err := r.List(w.ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return nil, "", fmt.Errorf("there are no %s: %v", gr, err)
	}
	return r, list.Items[0].GetName(), nil
}

func (w *world) create(s situation, obj *unstructured.Unstructured) {
	status, has := obj.Object["status"]
	w.soon(s, "create "+obj.GetKind()+" "+obj.GetName(), func() error {
		r, err := w.of(s, obj.GroupVersionKind(), obj.GetNamespace())
		if err == nil {
			_, err = r.Create(w.ctx, obj, metav1.CreateOptions{})
		}
		if err == nil && has {
			var patch []byte
			if patch, err = json.Marshal(map[string]any{"status": status}); err == nil {
				err = w.replace(r, obj.GetName(), patch, "status")
			}
		}
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// replace patches an object, its conditions as a whole if it has any in the patch.
func (w *world) replace(r dynamic.ResourceInterface, name string, with []byte, subs ...string) error {
	out, err := r.Patch(w.ctx, name, types.MergePatchType, with, metav1.PatchOptions{}, subs...)
	if err == nil && strings.Contains(string(with), `"conditions"`) {
		if k, ok := w.Set.GroupKind(out.GroupVersionKind().GroupKind()); ok {
			w.keeper.owe(k, out)
		}
	}
	return err
}

func (w *world) do(s situation, st step) {
	w.soon(s, fmt.Sprintf("%+v", st), func() error {
		if st.Create != "" {
			return w.own(s, st)
		}
		id := st.Delete + st.Patch + st.Await
		if id == "" {
			return nil
		}
		r, name, err := w.named(s, id)
		if err != nil {
			return err
		}
		switch {
		case st.Delete != "":
			var opts metav1.DeleteOptions
			if p := metav1.DeletionPropagation(st.With); p != "" {
				opts.PropagationPolicy = &p
			}
			return r.Delete(w.ctx, name, opts)
		case st.Patch != "":
			data, err := yaml.YAMLToJSON([]byte(st.With))
			if err != nil {
				return err
			}
			var subs []string
			if st.Sub != "" {
				subs = []string{st.Sub}
			}
			err = w.replace(r, name, data, subs...)
			if gone := apierrors.IsNotFound(err); gone && slices.ContainsFunc(s.Then, func(t step) bool { return t.Delete == id }) {
				return nil // all loops run here: what was deleted may have gone by now
			}
			return err
		}
		obj, err := r.Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if data, err := json.Marshal(obj); err != nil || !strings.Contains(string(data), st.Is) {
			return fmt.Errorf("%s: %s, %w", id, data, err)
		}
		return nil
	})
}

// own makes an object that another one controls.
func (w *world) own(s situation, st step) error {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(st.Create), &obj.Object); err != nil {
		return err
	}
	if st.Own != "" {
		r, name, err := w.named(s, st.Own)
		if err != nil {
			return err
		}
		owner, err := r.Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	w.create(s, obj)
	return nil
}
