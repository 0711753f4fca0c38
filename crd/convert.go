package crd

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// New implements resource.Kind.
func (k *Kind) New(gvk schema.GroupVersionKind) resource.Object {
	v := k.find(gvk)
	if v == nil {
		v = k.hub
	}
	o := &Object{read: v}
	o.Object = map[string]any{}
	o.SetGroupVersionKind(v.gvk)
	return o
}

// object returns obj as this package's type; foreign trees are taken as they are.
func (f *family) object(obj resource.Object) (*Object, error) {
	switch o := obj.(type) {
	case *Object:
		return o, nil
	case *Stored:
		return o.open(), nil
	case runtime.Unstructured:
		out := &Object{read: f.find(obj.GetObjectKind().GroupVersionKind())}
		out.Object = o.UnstructuredContent()
		return out, nil
	}
	return nil, fmt.Errorf("%T is no custom resource", obj)
}

// ConvertTo implements resource.Kind. The result shares memory with obj.
func (k *Kind) ConvertTo(ctx context.Context, obj resource.Object, gvk schema.GroupVersionKind) (resource.Object, error) {
	from := obj.GetObjectKind().GroupVersionKind()
	if from == gvk {
		return obj, nil
	}
	to := k.find(gvk)
	o, err := k.object(obj)
	switch {
	case err != nil:
		return nil, err
	case to == nil || from.Group != gvk.Group:
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", gvk.GroupVersion())
	}
	if !k.hooked() {
		if o = k.original(obj, o); o.GroupVersionKind() == gvk {
			return o, nil
		}
		return k.renamed(o, to)
	}
	if len(o.Object) == 2 { // a kind and a version: nothing for a webhook to convert
		out := &Object{*o.DeepCopy(), to, nil}
		out.SetGroupVersionKind(gvk)
		return out, nil
	}
	if v := k.find(from); v != nil {
		o = &Object{*o.DeepCopy(), v, nil}
		v.fill(o.Object)
	}
	list, err := k.translate(ctx, []*Object{o}, to)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// ConvertAll is ConvertTo of many stored objects: those that need a webhook share its calls, and are remembered.
func (k *Kind) ConvertAll(ctx context.Context, objs []resource.Object, gvk schema.GroupVersionKind) ([]resource.Object, error) {
	to := k.find(gvk)
	if to == nil || !k.hooked() {
		return nil, errNoBatch
	}
	out := make([]resource.Object, len(objs))
	todo, at := map[schema.GroupVersionKind][]*Object{}, map[schema.GroupVersionKind][]int{}
	for i, obj := range objs {
		from := obj.GetObjectKind().GroupVersionKind()
		if from == gvk {
			out[i] = obj
			continue
		}
		if known := k.remembered(obj, to); known != nil {
			out[i] = known
			continue
		}
		o, err := k.object(obj)
		if err != nil {
			return nil, err
		}
		todo[from], at[from] = append(todo[from], o), append(at[from], i)
	}
	for from, list := range todo { // there are two: one call may hold objects of one version only
		done, err := k.translate(ctx, list, to)
		if err != nil {
			return nil, err
		}
		for n, o := range done {
			k.remember(list[n], o, to)
			out[at[from][n]] = o
		}
	}
	return out, nil
}

var errNoBatch = errors.New("no webhook converts objects of this kind")

// Batched says that ConvertAll is worth calling: a webhook converts between the versions.
func (k *Kind) Batched() bool { return k.hooked() && len(k.all) > 1 }

// seen is a stored object in the version by which this kind is seen, for columns and selectors. Where that needs a
// webhook that does not answer, the object is returned as stored.
func (k *Kind) seen(obj resource.Object) (*Object, error) {
	if !k.hooked() || obj.GetObjectKind().GroupVersionKind() == k.at.gvk {
		return k.object(obj)
	}
	if known := k.remembered(obj, k.at); known != nil {
		return known, nil
	}
	o, err := k.object(obj)
	if err != nil || k.resting() {
		return o, err
	}
	list, err := k.translate(context.Background(), []*Object{o}, k.at)
	if err != nil {
		k.rest()
		return o, nil
	}
	k.remember(o, list[0], k.at)
	return list[0], nil
}

// renamed gives a copy of an object another version, which may know fewer fields. Objects on their way into the
// store have the defaults of their own version first.
func (f *family) renamed(o *Object, to *version) (*Object, error) {
	out := &Object{*o.DeepCopy(), to, nil}
	if o.read != nil && to == f.hub {
		o.read.fill(out.Object)
	}
	out.SetGroupVersionKind(to.gvk)
	if _, err := to.coerce(out.Object, false, false); err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", o.GroupVersionKind(), to.gvk, err)
	}
	return out, nil
}

// Decode implements codec.Decoder: it reads what is stored, of whatever version, as the hub version. It keeps what it was made of, as
// another declaration may read that in another way: a field that this one prunes, and the next knows again, is still in the store.
func (k *Kind) Decode(data []byte) (resource.Object, error) {
	o, err := k.stored(data)
	if err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", k.info.GR(), err)
	}
	if o, err = k.settled(o); err != nil {
		return nil, err
	}
	o.source = new(string(data))
	return o, nil
}

// ReadsAs implements view.Recaster.
func (k *Kind) ReadsAs(old resource.Kind) bool {
	was, ok := old.(*Kind)
	return ok && was.reads == k.reads
}

// Recast implements view.Recaster: it reads an object by this declaration that was read by an older one.
func (k *Kind) Recast(obj resource.Object) resource.Object {
	var source *string
	var read *version
	switch o := obj.(type) {
	case *Stored:
		source, read = o.source, o.read
	case *Object:
		source, read = o.source, o.read
	}
	if source == nil && read == k.hub {
		return obj
	}
	var data []byte
	var err error
	if source != nil {
		data = []byte(*source)
	} else if data, err = codec.Stored(k, obj); err != nil {
		return obj // as good as it was
	}
	out, err := k.Decode(data)
	if err != nil {
		return obj
	}
	if rev := resource.Revision(obj); rev > 0 {
		if packed := k.Pack(out, nil, rev); packed != out {
			return packed
		}
	}
	out.SetResourceVersion(obj.GetResourceVersion())
	return out
}

// original is an object in the version in which it lies in the store: of what was stored as v1, and is seen as v2, v1 may know more than
// v2. It is read, which is the object as it is seen, where that says as much.
func (f *family) original(obj resource.Object, read *Object) *Object {
	s, ok := obj.(*Stored)
	if !ok || s.source == nil {
		return read
	}
	o, err := f.stored([]byte(*s.source))
	if err != nil || o.read == f.hub {
		return read
	}
	o.SetResourceVersion(s.GetResourceVersion())
	return o
}

// stored is a stored object, pruned and defaulted by its own version.
func (f *family) stored(data []byte) (*Object, error) {
	o := &Object{}
	if _, err := o.UnmarshalStrict(data); err != nil {
		return nil, err
	}
	if o.read = f.find(o.GroupVersionKind()); o.read == nil { // a version that is gone
		o.read = f.hub
	}
	if _, err := o.read.coerce(o.Object, false, true); err != nil {
		return nil, err
	}
	o.read.fill(o.Object)
	return o, nil
}

// settled makes an object that stored returned one of the hub version.
func (k *Kind) settled(o *Object) (*Object, error) {
	v := o.read
	if v == k.hub {
		o.SetGroupVersionKind(v.gvk)
		return o, nil
	}
	if k.hooked() {
		// Unlike Kubernetes, it is converted when somebody asks for another version: a deletion needs no webhook.
		return o, nil
	}
	return k.renamed(o, k.hub)
}
