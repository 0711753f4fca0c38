package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// patchWhole patches the whole document, which is what PatchFields has to do.
func patchWhole(pt k8stypes.PatchType, patch []byte, old resource.Object) (resource.Object, error) {
	doc, err := codec.MarshalJSON(old)
	if err != nil {
		return nil, err
	}
	out := reflect.New(reflect.TypeOf(old).Elem()).Interface().(resource.Object)
	switch pt {
	case k8stypes.JSONPatchType:
		doc, err = JSONPatch(doc, patch)
	case k8stypes.MergePatchType:
		doc, err = MergePatch(doc, patch, true)
	default:
		doc, err = Strategic(doc, patch, out)
	}
	if err != nil {
		return nil, err
	}
	strict, err := codec.UnmarshalJSON(doc, out)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	return out, err
}

// patchesTo are patches that make one object of another.
func patchesTo(t *testing.T, old, obj resource.Object) map[k8stypes.PatchType][]byte {
	was, err1 := codec.MarshalJSON(old)
	is, err2 := codec.MarshalJSON(obj)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	all := map[k8stypes.PatchType][]byte{k8stypes.JSONPatchType: operations(was, is)}
	if patch, err := jsonpatch.CreateMergePatch(was, is); err == nil {
		all[k8stypes.MergePatchType] = patch
	}
	if patch, err := strategicpatch.CreateTwoWayMergePatch(was, is, obj); err == nil { // some random lists have an item without a key
		all[k8stypes.StrategicMergePatchType] = patch
	}
	return all
}

// operations are those that make one document of another, two levels deep.
func operations(was, is []byte) []byte {
	ops := []jsonPatchOp{}
	var diff func(path string, from, to map[string]any, depth int)
	diff = func(path string, from, to map[string]any, depth int) {
		for _, name := range slices.Sorted(maps.Keys(to)) {
			at := path + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
			f, ok1 := from[name].(map[string]any)
			i, ok2 := to[name].(map[string]any)
			if ok1 && ok2 && depth > 0 {
				diff(at, f, i, depth-1)
			} else if !reflect.DeepEqual(from[name], to[name]) {
				ops = append(ops, jsonPatchOp{Op: "add", Path: at, Value: to[name]})
			}
			delete(from, name)
		}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			ops = append(ops, jsonPatchOp{Op: "remove", Path: path + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")})
		}
	}
	var from, to map[string]any
	_ = json.Unmarshal(was, &from)
	_ = json.Unmarshal(is, &to)
	diff("", from, to, 2)
	raw, _ := json.Marshal(ops)
	return raw
}

// TestPatchFieldsIsRight patches random objects of every kind in all ways, and compares with what a patch of the whole document makes.
func TestPatchFieldsIsRight(t *testing.T) {
	quick, total := 0, 0
	for i, k := range allKinds(t) {
		f, r := filler(int64(i)), rand.New(rand.NewSource(int64(i)))
		var old resource.Object = k.New(k.info.GVK)
		f.Fill(old)
		old = decoded(t, k, old)
		old.GetObjectKind().SetGroupVersionKind(k.info.GVK)
		for range 3 {
			obj := resource.Clone(old)
			mutate(obj, f, r)
			obj = decoded(t, k, obj)
			obj.GetObjectKind().SetGroupVersionKind(k.info.GVK)
			for pt, patch := range patchesTo(t, old, obj) {
				before := resource.Clone(old)
				got := PatchFields(pt, patch, old)
				if !reflect.DeepEqual(before, old) {
					t.Fatalf("%s: %s %s changes the old object", k.info.GVK, pt, patch)
				}
				total++
				if got == nil {
					continue
				}
				quick++
				want, err := patchWhole(pt, patch, old)
				if err != nil {
					t.Fatalf("%s: %s %s fails: %v", k.info.GVK, pt, patch, err)
				}
				if x, y := dump(got), dump(want); x != y || !resource.Same(got, want) {
					t.Fatalf("%s: %s %s\ngot:\n%s\nwant:\n%s\nold:\n%s", k.info.GVK, pt, patch, x, y, dump(old))
				}
			}
			old = obj
		}
	}
	t.Logf("%d of %d patches looked at what they name", quick, total)
	if quick*10 < total*6 {
		t.Errorf("only %d of %d patches looked at what they name", quick, total)
	}
}

// What a patch names is found, and left to the patch of the whole document where names are not all.
func TestPatchFields(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Labels: map[string]string{"a": "b"},
		Finalizers: []string{"x/y", "x/z"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: "Pending", Conditions: []corev1.PodCondition{
			{Type: "PodScheduled", Status: "True"}, {Type: "Ready", Status: "False"}}}}
	for _, c := range []struct {
		name, patch string
		kind        k8stypes.PatchType
		want        string // paths of fields; "": the whole document
	}{
		{"a kubelet's status", `{"metadata":{"uid":"u"},"status":{"$setElementOrder/conditions":[{"type":"Ready"},{"type":"PodScheduled"}],` +
			`"conditions":[{"type":"Ready","status":"True"}],"phase":"Running"}}`, k8stypes.StrategicMergePatchType,
			"ObjectMeta.UID Status.Conditions Status.Phase"},
		{"a primitive of a list", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/y"]}}`, k8stypes.StrategicMergePatchType,
			"ObjectMeta.Finalizers"},
		{"a word about all", `{"status":{"$patch":"replace","phase":"Running"}}`, k8stypes.StrategicMergePatchType, ""},
		{"a word about what stays", `{"$retainKeys":["metadata","spec"],"spec":{}}`, k8stypes.StrategicMergePatchType, ""},
		{"an unknown field", `{"status":{"fase":"Running"}}`, k8stypes.StrategicMergePatchType, ""},
		{"an unknown field below", `{"spec":{"containers":[{"name":"c","imago":"j"}]}}`, k8stypes.StrategicMergePatchType, ""},
		{"a name twice", `{"status":{"phase":"Running","phase":"Failed"}}`, k8stypes.MergePatchType, ""},
		{"a word for a struct", `{"status":"Running"}`, k8stypes.MergePatchType, ""},
		{"nothing of a struct", `{"status":null}`, k8stypes.MergePatchType, "Status"},
		{"an empty struct", `{"status":{}}`, k8stypes.MergePatchType, "Status"},
		{"nothing", `{}`, k8stypes.MergePatchType, "nothing"},
		{"a kind", `{"kind":"Pod","metadata":{"labels":{"a":"c"}}}`, k8stypes.MergePatchType, ""},
		{"a list", `[]`, k8stypes.MergePatchType, ""},
		{"operations", `[{"op":"test","path":"/spec/nodeName","value":"n"},{"op":"copy","from":"/metadata/labels/a","path":"/status/reason"},` +
			`{"op":"add","path":"/metadata/labels/x~1y","value":"z"}]`, k8stypes.JSONPatchType, "ObjectMeta.Labels Spec.NodeName Status.Reason"},
		{"an operation on a whole and a part", `[{"op":"add","path":"/status","value":{}},{"op":"add","path":"/status/phase","value":"x"}]`,
			k8stypes.JSONPatchType, "Status"},
		{"an operation on a part and the whole", `[{"op":"add","path":"/status/phase","value":"x"},{"op":"add","path":"/status","value":{}}]`,
			k8stypes.JSONPatchType, "Status"},
		{"an operation on the document", `[{"op":"test","path":"","value":{}}]`, k8stypes.JSONPatchType, ""},
		{"an operation that fails", `[{"op":"test","path":"/spec/nodeName","value":"m"}]`, k8stypes.JSONPatchType, ""},
		{"no operations", `{}`, k8stypes.JSONPatchType, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := PatchFields(c.kind, []byte(c.patch), pod)
			if got == nil {
				if c.want != "" {
					t.Errorf("the whole document is patched, not %s", c.want)
				}
				return
			}
			if list := fieldNames(c.kind, c.patch); list != c.want && c.want != "nothing" {
				t.Errorf("names %q, want %q", list, c.want)
			}
			if want, err := patchWhole(c.kind, []byte(c.patch), pod); err != nil || !resource.Same(got, want) {
				t.Errorf("got %s, want %s, %v", dump(got), dump(want), err)
			}
		})
	}
}

// Raw JSON has the names of its objects in order once a document was patched, also where the patch does not name it: ControllerRevisions
// tell such a change of their data from none.
func TestPatchFieldsLeavesRawJSON(t *testing.T) {
	for name, obj := range map[string]resource.Object{
		"a revision":   &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"b":1,"a":2}`)}},
		"a definition": &apiextensionsv1.CustomResourceDefinition{},
		"a claim":      &resourcev1.ResourceClaim{},
	} {
		t.Run(name, func(t *testing.T) {
			if PatchFields(k8stypes.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), obj) != nil {
				t.Error("only its labels are patched")
			}
		})
	}
}

// fieldNames are the fields of a pod that a patch names.
func fieldNames(kind k8stypes.PatchType, patch string) string {
	typ := reflect.TypeFor[corev1.Pod]()
	fields, _ := namedFields(typ, patchTree(kind, []byte(patch)), nil, nil)
	names := map[string]bool{}
	for _, at := range fields {
		var parts []string
		for i := range at {
			parts = append(parts, typ.FieldByIndex(at[:i+1]).Name)
		}
		names[strings.Join(parts, ".")] = true
	}
	return fmt.Sprint(strings.Join(slices.Sorted(maps.Keys(names)), " "))
}
