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

// What is written next is compared with what the store gives, which has no empty lists and maps: an update that leaves one out takes
// nothing from who wrote it, and changes nothing.
func TestEmptyMapIsNotThere(t *testing.T) {
	w := newWorld(t)
	const path = "/api/v1/namespaces/ns/limitranges"
	const named = `{"metadata":{"name":"r"},"spec":{"limits":[{"type":"Pod","max":{},"min":{"cpu":"1"}}]}}`
	w.must("POST", path+"?fieldManager=one", named, 201)
	first := w.must("GET", path+"/r", "", 200).body
	got := w.must("PUT", path+"/r?fieldManager=two", strings.Replace(named, `"max":{},`, "", 1), 200).body
	if string(got) != string(first) {
		t.Errorf("first %s\nthen  %s", first, got)
	}
	got = w.must("PUT", path+"/r?fieldManager=two", named, 200).body
	if !strings.Contains(string(got), `"manager":"two"`) || strings.Contains(string(got), `"manager":"one"`) {
		t.Errorf("an empty map that is named: %s", got)
	}
}

func TestBytesAreNotNull(t *testing.T) {
	w := newWorld(t)
	const path = "/api/v1/namespaces/ns/secrets/s?fieldManager=one"
	const secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":null}}`
	got := w.must("PATCH", path, secret, 201, "Content-Type", "application/apply-patch+yaml").body
	if !strings.Contains(string(got), `"data":{"a":""}`) {
		t.Errorf("%s", got)
	}
}
