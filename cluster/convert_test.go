package cluster_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
)

const tabsText = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tabs.conv.example}
spec:
  group: conv.example
  scope: Namespaced
  names: {plural: tabs, kind: Tab}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: %q, caBundle: %s}}
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.size}]
    subresources: {scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string, default: 1x1}}}}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}}
    selectableFields: [{jsonPath: .spec.width}]
    additionalPrinterColumns: [{name: Width, type: string, jsonPath: .spec.width}]
    schema: {openAPIV3Schema: {type: object, properties: {status: {type: object, x-kubernetes-preserve-unknown-fields: true},
      spec: {type: object, properties: {width: {type: string}, height: {type: string}, depth: {type: string, default: "0"}}}}}}
`

// A converter turns spec.size (v1) into spec.width and spec.height (v2), and back.
type converter struct {
	calls   atomic.Int64
	failing atomic.Bool
	renames atomic.Bool
	broken  atomic.Bool
}

func (c *converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.calls.Add(1)
	if c.broken.Load() {
		http.NotFound(w, r)
		return
	}
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resp := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		var u unstructured.Unstructured
		_ = u.UnmarshalJSON(raw.Raw)
		spec, _, _ := unstructured.NestedMap(u.Object, "spec")
		if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v2") {
			size, _ := spec["size"].(string)
			width, height, _ := strings.Cut(size, "x")
			u.Object["spec"] = map[string]any{"width": width, "height": height, "unknown": "pruned"}
		} else {
			u.Object["spec"] = map[string]any{"size": fmt.Sprintf("%sx%s", spec["width"], spec["height"])}
		}
		u.SetAPIVersion(review.Request.DesiredAPIVersion)
		u.SetAnnotations(map[string]string{"converted": "yes"})
		u.SetFinalizers([]string{"conv.example/ignored"})
		if c.renames.Load() {
			u.SetName("other")
		}
		doc, _ := u.MarshalJSON()
		raw.Raw = doc
		resp.ConvertedObjects = append(resp.ConvertedObjects, raw)
	}
	if c.failing.Load() {
		resp.ConvertedObjects, resp.Result = nil, metav1.Status{Status: metav1.StatusFailure, Message: "out of order"}
	}
	review.Request, review.Response = nil, resp
	_ = json.NewEncoder(w).Encode(review)
}

// Objects of a definition with a conversion webhook, in both versions, through all verbs.
func TestConversion(t *testing.T) {
	conv := &converter{}
	hook := httptest.NewTLSServer(conv)
	defer hook.Close()
	c := start(t, cluster.Config{})
	client, err := dynamic.NewForConfig(config(t, c))
	if err != nil {
		t.Fatal(err)
	}
	ca, _ := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	def := unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, tabsText, hook.URL+"/convert", ca), &def.Object); err != nil {
		t.Fatal(err)
	}
	defs := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := defs.Create(t.Context(), &def, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	v := func(version string) dynamic.ResourceInterface {
		return client.Resource(schema.GroupVersionResource{Group: "conv.example", Version: version, Resource: "tabs"}).Namespace("default")
	}
	w := tabs{t: t, v1: v("v1"), v2: v("v2"), defs: defs, conv: conv}
	w.readAndWrite()
	w.lists()
	w.migrate()
	w.failures()
}

type tabs struct {
	t      *testing.T
	v1, v2 dynamic.ResourceInterface
	defs   dynamic.ResourceInterface
	conv   *converter
}

func tab(version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "conv.example/" + version, "kind": "Tab",
		"metadata": map[string]any{"name": name}, "spec": spec}}
}

// is compares the spec of an object.
func (w *tabs) is(got *unstructured.Unstructured, err error) func(want string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return func(want string) {
		w.t.Helper()
		if spec := fmt.Sprint(got.Object["spec"]); spec != want || len(got.GetFinalizers()) > 0 {
			w.t.Errorf("%s %s is %s, want %s (finalizers %v)", got.GetAPIVersion(), got.GetName(), spec, want, got.GetFinalizers())
		}
	}
}

func (w *tabs) readAndWrite() {
	t, ctx := w.t, w.t.Context()
	eventually(t, "the kind is served", func(ctx context.Context) (bool, error) {
		_, err := w.v2.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	w.is(w.v2.Create(ctx, tab("v2", "a", map[string]any{"width": "2", "height": "3"}),
		metav1.CreateOptions{}))("map[depth:0 height:3 width:2]")
	w.is(w.v1.Get(ctx, "a", metav1.GetOptions{}))("map[size:2x3]")
	w.is(w.v2.Get(ctx, "a", metav1.GetOptions{}))("map[depth:0 height:3 width:2]")
	// Of this one alone: the watch may go on for a while after it was stopped, and what it converts then would count elsewhere.
	watch, err := w.v2.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=b"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	w.is(w.v1.Create(ctx, tab("v1", "b", map[string]any{}), metav1.CreateOptions{}))("map[size:1x1]")
	for ev := range watch.ResultChan() {
		if u, ok := ev.Object.(*unstructured.Unstructured); !ok || u.GetName() == "b" {
			w.is(u, nil)("map[depth:0 height:1 width:1]")
			break
		}
	}
	w.is(w.v2.Patch(ctx, "b", types.MergePatchType, []byte(`{"spec":{"width":"7"}}`), metav1.PatchOptions{}))("map[depth:0 height:1 width:7]")
	for _, patch := range []string{`{"kind":"Other"}`, `{"kind":null}`, `{"apiVersion":"conv.example/v3"}`,
		`{"apiVersion":"other.example/v1"}`} {
		if _, err := w.v2.Patch(ctx, "b", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", patch, err)
		}
	}
	w.is(w.v2.Apply(ctx, "b", tab("v2", "b", map[string]any{"height": "8"}),
		metav1.ApplyOptions{FieldManager: "me", Force: true}))("map[depth:0 height:8 width:7]")
	w.is(w.v1.Get(ctx, "b", metav1.GetOptions{}))("map[size:7x8]")
}

func (w *tabs) lists() {
	t, ctx := w.t, w.t.Context()
	for i := range 20 {
		w.is(w.v1.Create(ctx, tab("v1", fmt.Sprintf("many-%02d", i), map[string]any{"size": fmt.Sprintf("%dx1", i)}),
			metav1.CreateOptions{}))(fmt.Sprintf("map[size:%dx1]", i))
	}
	before := w.conv.calls.Load()
	list, err := w.v2.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 22 || list.Items[5].GetAPIVersion() != "conv.example/v2" ||
		fmt.Sprint(list.Items[5].Object["spec"]) != "map[depth:0 height:1 width:3]" {
		t.Fatalf("%v: %+v", err, list)
	}
	if n := w.conv.calls.Load() - before; n > 2 {
		t.Errorf("a list took %d calls", n)
	}
	w.watchList()
	before = w.conv.calls.Load()
	list, err = w.v2.List(ctx, metav1.ListOptions{FieldSelector: "spec.width=3"})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "many-03" {
		t.Errorf("%v: %+v", err, list)
	}
	if list, err := w.v1.List(ctx, metav1.ListOptions{FieldSelector: "spec.size=3x1"}); err != nil || len(list.Items) != 1 {
		t.Errorf("%v: %+v", err, list)
	}
	if n := w.conv.calls.Load() - before; n > 0 {
		t.Errorf("what was converted before took %d calls", n)
	}
}

// watchList begins a watch with the state, as client-go's informers do.
func (w *tabs) watchList() {
	t, ctx, before := w.t, w.t.Context(), w.conv.calls.Load()
	yes := true
	watch, err := w.v2.Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	n := 0
	for ev := range watch.ResultChan() {
		if ev.Type == "BOOKMARK" {
			break
		}
		u := ev.Object.(*unstructured.Unstructured)
		if n++; u.GetAPIVersion() != "conv.example/v2" || u.GetResourceVersion() == "" {
			t.Errorf("%s %v", ev.Type, u.Object)
		}
	}
	if calls := w.conv.calls.Load() - before; n != 22 || calls > 1 {
		t.Errorf("%d events took %d calls", n, calls)
	}
}

// migrate makes v2 the version that is stored: old objects stay readable, and a write stores them anew.
func (w *tabs) migrate() {
	t, ctx := w.t, w.t.Context()
	patch := `[{"op":"replace","path":"/spec/versions/0/storage","value":false},` +
		`{"op":"replace","path":"/spec/versions/1/storage","value":true}]`
	if _, err := w.defs.Patch(ctx, "tabs.conv.example", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "v2 is stored", func(ctx context.Context) (bool, error) {
		before := w.conv.calls.Load()
		_, err := w.v2.Create(ctx, tab("v2", "probe", map[string]any{"width": "1", "height": "1"}), metav1.CreateOptions{DryRun: []string{"All"}})
		return w.conv.calls.Load() == before, err
	})
	w.is(w.v1.Get(ctx, "a", metav1.GetOptions{}))("map[size:2x3]")
	got, err := w.v2.Get(ctx, "a", metav1.GetOptions{})
	w.is(got, err)("map[depth:0 height:3 width:2]")
	same, err := w.v2.Update(ctx, got, metav1.UpdateOptions{})
	w.is(same, err)("map[depth:0 height:3 width:2]")
	if same.GetResourceVersion() == got.GetResourceVersion() {
		t.Error("an object in an old version was not stored anew")
	}
	before := w.conv.calls.Load()
	w.is(w.v2.Get(ctx, "a", metav1.GetOptions{}))("map[depth:0 height:3 width:2]")
	if w.conv.calls.Load() != before {
		t.Error("it still has to be converted")
	}
}

// failures are errors of those requests that need the webhook, and of no others.
func (w *tabs) failures() {
	t, ctx := w.t, w.t.Context()
	bad := func(what string, err error, text string) {
		t.Helper()
		if st := apierrors.ReasonForError(err); err == nil || st != metav1.StatusReasonUnknown || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.conv.failing.Store(true)
	const text = "conversion webhook for conv.example/v2, Kind=Tab failed: out of order"
	_, err := w.v1.Get(ctx, "a", metav1.GetOptions{})
	bad("get", err, text)
	_, err = w.v1.Create(ctx, tab("v1", "new", nil), metav1.CreateOptions{})
	bad("create", err, "conversion webhook for conv.example/v1, Kind=Tab failed")
	_, err = w.v1.List(ctx, metav1.ListOptions{})
	bad("list", err, "out of order")
	_, err = w.v1.Update(ctx, tab("v1", "none", nil), metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("update of what there is not: %v", err)
	}
	_, err = w.v1.List(ctx, metav1.ListOptions{LabelSelector: "no=one"})
	bad("list of none", err, "out of order")
	bad("delete", w.v1.Delete(ctx, "a", metav1.DeleteOptions{}), text)
	if _, err = w.v1.Watch(ctx, metav1.ListOptions{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("watch: %v", err)
	}
	w.is(w.v2.Get(ctx, "a", metav1.GetOptions{}))("map[depth:0 height:3 width:2]")
	w.conv.failing.Store(false)
	w.conv.broken.Store(true)
	_, err = w.v1.Get(ctx, "a", metav1.GetOptions{})
	bad("an answer of 404", err, "conversion webhook for conv.example/v2, Kind=Tab failed")
	_, err = w.v1.Get(ctx, "a", metav1.GetOptions{}, "scale")
	bad("scale", err, "conversion webhook for conv.example/v2, Kind=Tab failed")
	w.conv.broken.Store(false)
	w.conv.renames.Store(true)
	_, err = w.v1.Get(ctx, "a", metav1.GetOptions{})
	bad("another name", err, "must have the same name: a != other")
	if err := w.v2.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := w.defs.Delete(ctx, "tabs.conv.example", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	eventually(t, "the definition is gone though its webhook is of no use", func(ctx context.Context) (bool, error) {
		_, err := w.defs.Get(ctx, "tabs.conv.example", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
