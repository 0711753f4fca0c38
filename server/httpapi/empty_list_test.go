package httpapi_test

import (
	"strings"
	"testing"
)

// Who writes an empty list where none is stored owns it, though the object stays as it is.
func TestEmptyListIsOwned(t *testing.T) {
	w := newWorld(t)
	const path, merge = "/api/v1/namespaces/ns/limitranges", "application/merge-patch+json"
	w.must("POST", path+"?fieldManager=one", `{"metadata":{"name":"r"},"spec":{"limits":[]}}`, 201)
	first := w.must("GET", path+"/r", "", 200).body
	got := w.must("PATCH", path+"/r?fieldManager=two", `{"spec":{"limits":[]}}`, 200, "Content-Type", merge).body
	if !strings.Contains(string(got), `"manager":"two"`) || strings.Contains(string(got), `"manager":"one"`) || string(got) == string(first) {
		t.Errorf("first %s\nthen  %s", first, got)
	}
	again := w.must("PATCH", path+"/r?fieldManager=two", `{"spec":{"limits":[]}}`, 200, "Content-Type", merge).body
	if string(again) != string(got) {
		t.Errorf("%s\nthen %s", got, again)
	}
}
