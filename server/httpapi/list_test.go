package httpapi_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/resource/codec"
)

// decoded reads a body with upstream's own decoder.
func decoded(t testing.TB, body []byte) runtime.Object {
	t.Helper()
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Fatalf("decode %.200q: %v", body, err)
	}
	return obj
}

func TestListInEveryFormat(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.configMap(name, "of "+name)
	}
	const path = "/api/v1/namespaces/ns/configmaps"
	for _, accept := range []string{"", codec.JSON, codec.YAML, codec.Protobuf, "application/vnd.kubernetes.protobuf,application/json;q=0.9"} {
		got := w.must("GET", path, "", 200, "Accept", accept)
		list, ok := decoded(t, got.body).(*corev1.ConfigMapList)
		if !ok || len(list.Items) != 3 || list.ResourceVersion == "" {
			t.Fatalf("%q: %v", accept, list)
		}
		for i, name := range []string{"a", "b", "c"} {
			if list.Items[i].Name != name || list.Items[i].Data["k"] != "of "+name || list.Items[i].ResourceVersion == "" {
				t.Errorf("%q: item %d is %v", accept, i, list.Items[i])
			}
		}
	}
	tree := w.must("GET", path, "", 200).tree(t)
	if tree["kind"] != "ConfigMapList" || at(tree, "items", 0, "kind") != nil || at(tree, "items", 0, "apiVersion") != nil {
		t.Errorf("items of built-in kinds must not name their type: %v", tree)
	}
}

func TestEmptyLists(t *testing.T) {
	w := newWorld(t)
	const path = "/api/v1/namespaces/ns/configmaps"
	if got := w.must("GET", path, "", 200); !strings.Contains(string(got.body), `"items":[]`) {
		t.Errorf("empty list: %s", got.body)
	}
	if list := decoded(t, w.must("GET", path, "", 200, "Accept", codec.Protobuf).body).(*corev1.ConfigMapList); len(list.Items) != 0 ||
		list.ResourceVersion == "" {
		t.Errorf("empty protobuf list: %v", list)
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.configMap(name, "")
	}
	const path = "/api/v1/namespaces/ns/configmaps?limit=2"
	for _, accept := range []string{codec.JSON, codec.Protobuf} {
		first := decoded(t, w.must("GET", path, "", 200, "Accept", accept).body).(*corev1.ConfigMapList)
		if len(first.Items) != 2 || first.Continue == "" || first.RemainingItemCount == nil || *first.RemainingItemCount != 1 {
			t.Fatalf("first page %v", first.ListMeta)
		}
		last := decoded(t, w.must("GET", path+"&continue="+first.Continue, "", 200, "Accept", accept).body).(*corev1.ConfigMapList)
		if len(last.Items) != 1 || last.Continue != "" || last.ResourceVersion != first.ResourceVersion {
			t.Errorf("last page %v", last.ListMeta)
		}
	}
}

// The protobuf list is assembled by hand on the assumption that this test checks.
func TestListMessagesAreAlike(t *testing.T) {
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if !strings.HasSuffix(gvk.Kind, "List") || !meta.IsListType(reflect.New(typ).Interface().(runtime.Object)) {
			continue
		}
		for name, tag := range map[string]string{"ListMeta": "bytes,1,", "Items": "bytes,2,rep,"} {
			f, ok := typ.FieldByName(name)
			if !ok || !strings.HasPrefix(f.Tag.Get("protobuf"), tag) {
				t.Errorf("%v: field %s has the tag %q", gvk, name, f.Tag.Get("protobuf"))
			}
		}
	}
}

func TestTables(t *testing.T) {
	w := newWorld(t)
	const path = "/api/v1/namespaces/ns/configmaps"
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	if got := w.must("GET", path, "", 200, "Accept", table).tree(t); got["rows"] == nil || len(got["rows"].([]any)) != 0 {
		t.Errorf("empty table %v", got)
	}
	w.configMap("a", "v")
	got := w.must("GET", path, "", 200, "Accept", table+",application/json").tree(t)
	if got["kind"] != "Table" || got["apiVersion"] != "meta.k8s.io/v1" || at(got, "metadata", "resourceVersion") == nil {
		t.Fatalf("table %v", got)
	}
	if at(got, "columnDefinitions", 0, "name") != "Name" || at(got, "rows", 0, "cells", 0) != "a" || at(got, "rows", 0, "cells", 1) != 1.0 {
		t.Errorf("table %v", got)
	}
	if o := at(got, "rows", 0, "object"); at(o, "kind") != "PartialObjectMetadata" || at(o, "metadata", "name") != "a" ||
		at(o, "data") != nil {
		t.Errorf("object of a row %v", o)
	}
	got = w.must("GET", path+"/a?includeObject=Object", "", 200, "Accept", table).tree(t)
	if at(got, "rows", 0, "object", "data", "k") != "v" || at(got, "rows", 0, "object", "kind") != "ConfigMap" {
		t.Errorf("whole object of a row %v", got)
	}
	got = w.must("GET", path+"/a?includeObject=None", "", 200, "Accept", table).tree(t)
	if len(got["rows"].([]any)) != 1 || at(got, "rows", 0, "object") != nil {
		t.Errorf("row without object %v", got)
	}
	w.must("GET", path+"?includeObject=Foo", "", 400, "Accept", table)
	w.must("GET", path, "", 406, "Accept", "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io")
	if got := w.must("GET", path, "", 200, "Accept", strings.Replace(table, "v=v1", "v=v1beta1",
		1)).tree(t); got["apiVersion"] != "meta.k8s.io/v1beta1" {
		t.Errorf("version of the table %v", got["apiVersion"])
	}
}

func TestPartialMetadata(t *testing.T) {
	w := newWorld(t)
	w.configMap("a", "v")
	const path = "/api/v1/namespaces/ns/configmaps"
	for _, f := range []string{codec.JSON, codec.Protobuf} {
		got := w.must("GET", path+"/a", "", 200, "Accept", f+";as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
		one := partialDecode(t, f, got.body, &metav1.PartialObjectMetadata{}).(*metav1.PartialObjectMetadata)
		if one.Name != "a" || one.Kind != "PartialObjectMetadata" {
			t.Errorf("%s: %v", f, one)
		}
		got = w.must("GET", path, "", 200, "Accept", f+";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
		list := partialDecode(t, f, got.body, &metav1.PartialObjectMetadataList{}).(*metav1.PartialObjectMetadataList)
		if len(list.Items) != 1 || list.Items[0].Name != "a" || list.ResourceVersion == "" {
			t.Errorf("%s: %v", f, list)
		}
	}
	w.must("GET", path, "", 406, "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	st := w.must("GET", path+"?watch=1", "", 406, "Accept", codec.YAML).body
	if !strings.Contains(string(st), "application/json;stream=watch") {
		t.Errorf("%s", st)
	}
	w.must("GET", path+"/a", "", 406, "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
}

func partialDecode(t testing.TB, f string, body []byte, into runtime.Object) runtime.Object {
	t.Helper()
	var err error
	if f == codec.Protobuf {
		err = codec.UnmarshalProto(body, into)
	} else {
		_, err = codec.UnmarshalJSON(body, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return into
}

func TestPretty(t *testing.T) {
	w := newWorld(t)
	for query, want := range map[string]bool{"": false, "?pretty=true": true, "?pretty=0": false} {
		t.Run(query, func(t *testing.T) {
			got := w.must("GET", "/api/v1/namespaces/ns"+query, "", 200)
			if is := strings.Contains(string(got.body), "\n  \"kind\""); is != want {
				t.Errorf("%q: pretty %v, want %v", query, is, want)
			}
		})
	}
	if got := w.must("GET", "/api/v1/namespaces/ns", "", 200, "User-Agent", "curl/8.0"); !strings.Contains(string(got.body), "\n  ") {
		t.Error("curl gets no pretty answer")
	}
}

func TestWatchMetadata(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/api/v1/namespaces/ns/configmaps", `{"metadata":{"name":"a","annotations":{"x":"\"}{\\"}},"data":{"k":"v"}}`, 201)
	url := w.serve().URL + "/api/v1/namespaces/ns/configmaps?watch=1"
	got := events(t, url, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 1)
	if len(got) != 1 || at(got[0], "object", "kind") != "PartialObjectMetadata" || at(got[0], "object", "metadata", "annotations",
		"x") != `"}{\` || at(got[0], "object", "data") != nil {
		t.Errorf("events %v", got)
	}
	cfg := &rest.Config{Host: strings.TrimSuffix(url, "/api/v1/namespaces/ns/configmaps?watch=1")}
	c, err := metadata.NewForConfig(cfg) // asks for protobuf first
	if err != nil {
		t.Fatal(err)
	}
	maps := c.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("ns")
	list, err := maps.List(limited(t), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Annotations["x"] != `"}{\` {
		t.Fatalf("list %v, error %v", list, err)
	}
	stream, err := maps.Watch(limited(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	if o, ok := (<-stream.ResultChan()).Object.(*metav1.PartialObjectMetadata); !ok || o.Name != "a" || o.UID == "" {
		t.Errorf("event %v", o)
	}
}
