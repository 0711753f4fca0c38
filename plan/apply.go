package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// A Document is one object of a manifest.
type Document struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Items           []json.RawMessage `json:"items"`

	data []byte
}

// ReadManifest reads the objects of a manifest: YAML documents or JSON, lists taken apart.
func ReadManifest(from io.Reader) (docs []Document, err error) {
	dec := yaml.NewYAMLOrJSONDecoder(from, 4096)
	for n := 1; ; n++ {
		var raw json.RawMessage
		switch err := dec.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, fmt.Errorf("object %d: %w", n, err)
		}
		if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
			continue
		}
		more, err := open(raw)
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", n, err)
		}
		docs = append(docs, more...)
	}
}

func open(raw json.RawMessage) (docs []Document, err error) {
	d := Document{data: raw}
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	if kind, is := strings.CutSuffix(d.Kind, "List"); is && d.Items != nil { // List, ConfigMapList
		for _, item := range d.Items {
			item, err := typed(item, d.APIVersion, kind)
			if err != nil {
				return nil, err
			}
			more, err := open(item)
			if err != nil {
				return nil, err
			}
			docs = append(docs, more...)
		}
		return docs, nil
	}
	if d.Kind == "" || d.APIVersion == "" || d.Metadata.Name == "" {
		return nil, errors.New("kind, apiVersion and metadata.name are needed")
	}
	return []Document{d}, nil
}

// typed is an item of a list of one kind, whose items need not say what they are.
func typed(item json.RawMessage, version, kind string) (json.RawMessage, error) {
	var t map[string]json.RawMessage
	if err := json.Unmarshal(item, &t); err != nil || kind == "" || t == nil || t["kind"] != nil {
		return item, err
	}
	t["apiVersion"], _ = json.Marshal(version) // texts never fail
	t["kind"], _ = json.Marshal(kind)
	return json.Marshal(t)
}

// Apply applies the objects of a manifest, in their order, as kubectl apply does. Those without a namespace get ns.
func Apply(docs []Document, ns string) Change {
	text := fmt.Sprintf("apply %d objects", len(docs))
	if len(docs) == 1 {
		text = "apply " + Object{Kind: docs[0].Kind, Name: docs[0].Metadata.Name}.String()
	}
	sum := fnv.New128a()
	for _, d := range docs {
		_, _ = sum.Write(d.data) // never fails
	}
	return Change{text, fmt.Sprintf("%s -n %s %x", text, ns, sum.Sum(nil)), func(ctx context.Context, a *author) error {
		for _, d := range docs {
			if err := a.apply(ctx, d, ns); err != nil {
				return err
			}
		}
		return nil
	}}
}

// UpgradeDefinitions is Apply for definitions of kinds alone.
func UpgradeDefinitions(docs []Document) (Change, error) {
	for _, d := range docs {
		if d.GroupVersionKind() != kinds.CustomResourceDefinitions.GVK {
			return Change{}, fmt.Errorf("%s/%s is no CustomResourceDefinition", d.Kind, d.Metadata.Name)
		}
	}
	c := Apply(docs, "")
	c.Text = "upgrade " + c.Text[len("apply "):]
	return c, nil
}

// servedSoon bounds the time from a definition until its kind is served, and from a quota until it is counted.
const servedSoon = 30 * time.Second

func (a *author) apply(ctx context.Context, d Document, ns string) error {
	o := Object{d.Kind, d.Metadata.Namespace, d.Metadata.Name}
	gvk := d.GroupVersionKind()
	k, ok := a.w.set.Kind(gvk)
	if !ok {
		if err := a.w.pass(time.Now().Add(servedSoon), func() bool { k, ok = a.w.set.Kind(gvk); return ok }); err != nil {
			return err
		}
	}
	if !ok {
		a.refused = append(a.refused, Refusal{o, fmt.Sprintf("no matches for kind %q in version %q", d.Kind, d.APIVersion)})
		return nil
	}
	switch {
	case !k.Info().Namespaced:
		o.Namespace = "" // a manifest may name one all the same
	case o.Namespace == "":
		o.Namespace = ns
	}
	r := &server.Request{User: a.w.admin().User, Kind: k, GVK: gvk, Namespace: o.Namespace, Name: o.Name, Strict: server.FieldsStrict,
		Manager: "kubectl", Warn: func(text string) { a.tell("%s: %s", o, text) }}
	if err := a.takeOver(ctx, k, r); err != nil {
		return err
	}
	_, _, err := a.w.srv.Patch(ctx, r, types.ApplyPatchType, d.data, true)
	if err := a.refuse(o, err); err != nil {
		return err
	}
	switch {
	case err != nil:
	case k == resource.Kind(kinds.CustomResourceDefinitions):
		return a.recheck(ctx, o)
	case k == resource.Kind(kinds.ResourceQuotas):
		return a.counted(o)
	}
	return nil
}

// counted waits for a quota to hold, which takes less time in a cluster than the next object takes to make pods.
func (a *author) counted(o Object) error {
	return a.w.pass(time.Now().Add(servedSoon), func() bool {
		q := resource.Get(a.w.view.Snapshot(), kinds.ResourceQuotas, o.Namespace, o.Name)
		return q == nil || equality.Semantic.DeepEqual(q.Status.Hard, q.Spec.Hard)
	})
}

// clientSide is the manager of what kubectl apply wrote before the server did the work.
const clientSide = "kubectl-client-side-apply"

// takeOver has the request go on as the manager that applied the object before: then what is no longer in the manifest goes.
func (a *author) takeOver(ctx context.Context, k resource.Kind, r *server.Request) error {
	cur := a.w.view.Snapshot().Lookup(k, r.Namespace, r.Name)
	if cur == nil {
		if k == resource.Kind(kinds.ResourceQuotas) {
			a.tell("%s holds once it is counted: in the cluster what is made before that, in a moment, may pass it", r.Name)
		}
		return nil
	}
	fields := cur.GetManagedFields()
	for i, m := range fields {
		switch {
		case m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "":
			r.Manager = m.Manager
			return nil
		case m.Manager == clientSide && m.Operation == metav1.ManagedFieldsOperationUpdate && m.Subresource == "":
			next := resource.Clone(resource.Opened(cur))
			list := append([]metav1.ManagedFieldsEntry(nil), fields...)
			list[i].Operation, list[i].Manager = metav1.ManagedFieldsOperationApply, r.Manager
			next.SetManagedFields(list)
			_, err := a.w.admin().Update(ctx, k, next, "")
			return a.refuse(objectOf(k, cur), err)
		}
	}
	a.tell("%s was not made by kubectl apply: fields that the manifest leaves out stay", objectOf(k, cur))
	return nil
}

// maxRecheck bounds the objects of a kind that are held to a new definition.
const maxRecheck = 5000

// recheck holds the objects of a definition to what it says now: each is offered as a new one, which is only tried.
func (a *author) recheck(ctx context.Context, def Object) error {
	var k resource.Kind
	served := func() bool {
		d := resource.Get(a.w.view.Snapshot(), kinds.CustomResourceDefinitions, "", def.Name)
		if d == nil {
			return false
		}
		d = resource.As[*apiextensionsv1.CustomResourceDefinition](resource.Object(d))
		var ok bool
		k, ok = a.w.set.GR(schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural})
		return ok
	}
	if err := a.w.pass(time.Now().Add(servedSoon), served); err != nil || k == nil {
		return err
	}
	n := 0
	for obj := range a.w.view.Snapshot().Each(k, "") {
		if n++; n > maxRecheck {
			a.tell("only %d objects of %s were held to its new definition", maxRecheck, def.Name)
			return nil
		}
		try := resource.Clone(resource.Opened(obj))
		try.SetName("kloop-plan-try")
		try.SetUID("")
		try.SetResourceVersion("")
		try.SetManagedFields(nil)
		try.SetOwnerReferences(nil)
		try.SetGenerateName("")
		_, err := a.w.srv.Create(ctx, &server.Request{User: a.w.admin().User, Kind: k, GVK: k.Info().GVK, Namespace: obj.GetNamespace(),
			Name:   try.GetName(),
			DryRun: true, Warn: func(string) {}}, try)
		if apierrors.IsInvalid(err) {
			a.refused = append(a.refused, Refusal{objectOf(k, obj), "does not fit the new definition: " + err.Error()})
		}
	}
	return nil
}
