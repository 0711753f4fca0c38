package cluster_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
)

// upstreamCodec is what upstream stores built-in kinds with.
func upstreamCodec(t *testing.T) *protobuf.Serializer {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range kinds.All() { // what has its types elsewhere
		for _, gvk := range k.Info().Served() {
			if !s.Recognizes(gvk) {
				s.AddKnownTypeWithName(gvk, k.New(gvk))
			}
		}
	}
	return protobuf.NewSerializer(s, s)
}

// A stored key is what upstream left behind.
type storedKey struct {
	kind  resource.Kind // nil: not to be seen in the API
	obj   resource.Object
	value []byte
	ttl   time.Duration
	rev   int64
}

// leaveBehind fills a store as upstream does: every kind, and what stands beside them.
func leaveBehind(t *testing.T, dir string) map[string]*storedKey {
	t.Helper()
	codec, all := upstreamCodec(t), map[string]*storedKey{}
	encode := func(obj runtime.Object, gvk schema.GroupVersionKind) []byte {
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		var b bytes.Buffer
		if err := codec.Encode(obj, &b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	add := func(k resource.Kind, obj resource.Object, gvk schema.GroupVersionKind) {
		obj.SetUID(types.UID("uid-of-" + obj.GetName()))
		obj.SetCreationTimestamp(metav1.Unix(1e9, 0))
		all[k.Info().Key(obj.GetNamespace(), obj.GetName())] = &storedKey{kind: k, obj: obj, value: encode(obj, gvk)}
	}
	for _, k := range kinds.All() {
		i := k.Info()
		if i.Virtual || i.Prefix == "" || i.Custom {
			continue
		}
		obj := k.New(i.GVK)
		obj.SetName("left-behind")
		if i.Namespaced {
			obj.SetNamespace("default")
		}
		obj.SetLabels(map[string]string{"by": "upstream"})
		switch o := obj.(type) {
		case *apiextensionsv1.CustomResourceDefinition:
			*o = *things()
		case *corev1.Secret:
			o.Type = corev1.SecretTypeOpaque
		}
		add(k, obj, i.GVK)
	}
	old := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "older", Namespace: "default"}}
	old.Spec.MaxReplicas = 3
	all["/registry/horizontalpodautoscalers/default/older"] = &storedKey{value: encode(old,
		autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))}
	here := encode(&corev1.Endpoints{}, corev1.SchemeGroupVersion.WithKind("Endpoints")) //nolint:staticcheck // upstream's form
	all["/registry/masterleases/192.0.2.77"] = &storedKey{value: here, ttl: time.Hour}
	all["/registry/ranges/serviceips"] = &storedKey{value: encode(&corev1.RangeAllocation{Range: "10.96.0.0/16", Data: []byte{1}},
		corev1.SchemeGroupVersion.WithKind("RangeAllocation"))}
	all["/registry/example.com/things/default/mine"] = &storedKey{value: []byte(
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"mine","namespace":"default","uid":"u",` +
			`"creationTimestamp":"2001-09-09T01:46:40Z"},"spec":{"x":1}}` + "\n")}
	all["/registry/nobody.knows/this"] = &storedKey{value: []byte("\x01\x02 of another server")}
	all["/elsewhere/entirely"] = &storedKey{value: []byte("not Kubernetes")}
	all["/registry/events/default/left-behind"].ttl = time.Hour
	s, err := etcd.Open(t.Context(), etcd.Config{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for key, x := range all {
		if x.rev, err = s.Write(t.Context(), store.Write{Key: key, Value: x.value, TTL: x.ttl}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func things() *apiextensionsv1.CustomResourceDefinition {
	open := true
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com",
		Labels: map[string]string{"by": "upstream"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:      apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
					XPreserveUnknownFields: &open}}}}},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"},
			AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts",
					Message: "no conflicts found", LastTransitionTime: metav1.Unix(1e9, 0)},
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted",
					Message: "the initial names have been accepted", LastTransitionTime: metav1.Unix(1e9, 0)}}}}
}

// What upstream stored is served as it is, at its revision, and given back: what was not written is untouched to the byte,
// and what was written is where and how upstream stores it.
func TestTakeOver(t *testing.T) {
	dir := t.TempDir()
	all := leaveBehind(t, dir)
	c, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), DataDir: dir, NoLoops: true, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = c.Stop()
		}
	}()
	dyn := dynamic.NewForConfigOrDie(config(t, c))
	for key, x := range all {
		if x.kind == nil {
			continue
		}
		got, err := at(dyn, x.kind.Info(), x.obj.GetNamespace()).Get(t.Context(), x.obj.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		servedAsStored(t, key, x, got)
	}
	custom := dyn.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}).Namespace("default")
	got, err := custom.Get(t.Context(), "mine", metav1.GetOptions{})
	if err != nil || got.GetUID() != "u" {
		t.Errorf("the custom resource: %v, %v", got, err)
	}
	hpa, err := clientset(t, config(t, c)).AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "older", metav1.GetOptions{})
	if err != nil || hpa.Spec.MaxReplicas != 3 {
		t.Errorf("the autoscaler in an old version: %v, %v", hpa, err)
	}
	written := changeSome(t, dyn, custom)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	stopped = true
	givenBack(t, dir, all, written)
}

func at(dyn dynamic.Interface, i *resource.Info, ns string) dynamic.ResourceInterface {
	r := dyn.Resource(i.GVK.GroupVersion().WithResource(i.Plural))
	if ns == "" {
		return r
	}
	return r.Namespace(ns)
}

// serversOwn are those whose conditions the server itself keeps, as upstream's does.
var serversOwn = map[string]bool{"/registry/apiregistration.k8s.io/apiservices/left-behind": true,
	"/registry/flowschemas/left-behind": true}

// servedAsStored compares what the API says with what was stored. Defaults may have come.
func servedAsStored(t *testing.T, key string, x *storedKey, got *unstructured.Unstructured) {
	t.Helper()
	if got.GetResourceVersion() != strconv.FormatInt(x.rev, 10) && serversOwn[key] {
		return
	}
	if got.GetResourceVersion() != strconv.FormatInt(x.rev, 10) {
		t.Errorf("%s: at revision %s, stored at %d", key, got.GetResourceVersion(), x.rev)
	}
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(x.obj)
	if err != nil {
		t.Fatal(err)
	}
	if err := within(want, got.Object, ""); err != nil && !strings.Contains(err.Error(), "resourceVersion") {
		t.Errorf("%s: %v", key, err)
	}
}

// within says what of want is missing in got. Empty values may be.
func within(want, got any, path string) error {
	w, ok := want.(map[string]any)
	if !ok {
		if equality.Semantic.DeepEqual(want, got) || want == nil || reflect.ValueOf(want).IsZero() {
			return nil
		}
		return fmt.Errorf("%s is %v, stored was %v", path, got, want)
	}
	g, _ := got.(map[string]any)
	for name, v := range w {
		if err := within(v, g[name], path+"."+name); err != nil {
			return err
		}
	}
	return nil
}

// changeSome writes to what was left behind and makes something new. It returns the keys.
func changeSome(t *testing.T, dyn dynamic.Interface, custom dynamic.ResourceInterface) map[string]bool {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":{"by":"kloop"}}}`)
	keys := map[string]bool{}
	for _, k := range []resource.Kind{kinds.ConfigMaps, kinds.Secrets, kinds.ServiceAccounts, kinds.Namespaces, kinds.Nodes,
		kinds.Leases, kinds.ClusterRoles} {
		ns := ""
		if k.Info().Namespaced {
			ns = "default"
		}
		if _, err := at(dyn, k.Info(), ns).Patch(t.Context(), "left-behind", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: %v", k.Info().GR(), err)
		}
		keys[k.Info().Key(ns, "left-behind")] = true
	}
	if _, err := custom.Patch(t.Context(), "mine", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	keys["/registry/example.com/things/default/mine"] = true
	d := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "new"}, "spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}}}
	if _, err := at(dyn, kinds.Deployments.Info(), "default").Create(t.Context(), &unstructured.Unstructured{Object: d},
		metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	return keys
}

// givenBack reads the store as upstream would.
func givenBack(t *testing.T, dir string, all map[string]*storedKey, written map[string]bool) {
	t.Helper()
	s, err := etcd.Open(t.Context(), etcd.Config{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	codec := upstreamCodec(t)
	for key, x := range all {
		kv, _, err := s.Get(t.Context(), key)
		switch {
		case err != nil || kv == nil:
			t.Errorf("%s is gone: %v", key, err)
		case serversOwn[key]:
		case written[key] != (kv.ModRev != x.rev):
			t.Errorf("%s: written %v, at %d, stored at %d", key, written[key], kv.ModRev, x.rev)
		case !written[key] && !bytes.Equal(kv.Value, x.value):
			t.Errorf("%s was changed without being written", key)
		}
	}
	page, err := s.List(t.Context(), "/registry/", "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	set := kinds.NewSet()
	for _, kv := range page.KVs {
		k, ns, name, ok := set.ByKey(kv.Key)
		if !ok {
			continue
		}
		obj, gvk, err := codec.Decode(kv.Value, nil, nil)
		if err != nil {
			t.Errorf("upstream can't decode %s: %v", kv.Key, err)
			continue
		}
		m := obj.(resource.Object)
		if *gvk != k.Info().GVK && name != "older" || m.GetName() != name || m.GetNamespace() != ns || m.GetResourceVersion() != "" ||
			m.GetUID() == "" && name != "older" {
			t.Errorf("%s is stored as %v, %s/%s, resourceVersion %q", kv.Key, gvk, m.GetNamespace(), m.GetName(), m.GetResourceVersion())
		}
		if d, ok := obj.(*appsv1.Deployment); ok && name == "new" && d.Spec.Replicas == nil {
			t.Error("stored without its defaults")
		}
	}
	kv, _, err := s.Get(t.Context(), "/registry/example.com/things/default/mine")
	if err != nil {
		t.Fatal(err)
	}
	var thing map[string]any
	if err := json.Unmarshal(kv.Value, &thing); err != nil || thing["kind"] != "Thing" {
		t.Errorf("the custom resource is stored as %q", kv.Value)
	}
}
