package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// client is upstream's client for the world.
func (w *world) client(contentType string) *kubernetes.Clientset {
	w.t.Helper()
	cfg := &rest.Config{Host: w.serve().URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: contentType}}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// limited is for what ends at once, or on a machine with much else to do some time later.
func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// The streams are read by upstream's client, in both encodings.
func TestWatchEvents(t *testing.T) {
	for _, f := range []string{codec.JSON, codec.Protobuf} {
		t.Run(f, func(t *testing.T) {
			w := newWorld(t)
			ctx, maps := limited(t), w.client(f).CoreV1().ConfigMaps("ns")
			from, err := maps.List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stream, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: from.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Stop()
			w.configMap("a", "1")
			w.must("PUT", "/api/v1/namespaces/ns/configmaps/a", `{"metadata":{"name":"a"},"data":{"k":"2"}}`, 200)
			w.must("DELETE", "/api/v1/namespaces/ns/configmaps/a", "", 200)
			last := ""
			for _, want := range []struct {
				typ  watch.EventType
				data string
			}{{watch.Added, "1"}, {watch.Modified, "2"}, {watch.Deleted, "2"}} {
				e := <-stream.ResultChan()
				cm, ok := e.Object.(*corev1.ConfigMap)
				if !ok || e.Type != want.typ || cm.Data["k"] != want.data || cm.ResourceVersion == last {
					t.Fatalf("event %s %v, want %s of %s", e.Type, e.Object, want.typ, want.data)
				}
				last = cm.ResourceVersion
			}
		})
	}
}

func TestWatchStartsAtOnce(t *testing.T) {
	w := newWorld(t)
	srv := w.serve()
	ctx, cancel := context.WithCancel(limited(t))
	rv := decoded(t, w.must("GET", "/api/v1/nodes", "", 200).body).(*corev1.NodeList).ResourceVersion
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/api/v1/nodes?watch=1&resourceVersion="+rv, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req) // hangs unless the headers come without an event
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != codec.JSON {
		t.Errorf("answer %v", resp)
	}
	cancel()
	resp.Body.Close()
}

func TestWatchErrors(t *testing.T) {
	w := newWorld(t)
	srv := w.serve()
	for _, tt := range []struct {
		query, accept string
		code          int
		in            string
	}{
		{"fieldSelector=a.b=c", "", 400, "Status"},
		{"resourceVersion=abc", "", 500, "Status"},
		{"timeoutSeconds=1", "application/xml", 406, "NotAcceptable"},
		{"sendInitialEvents=true", "", 422, "resourceVersionMatch"},
	} {
		t.Run(tt.query, func(t *testing.T) {
			req, err := http.NewRequestWithContext(limited(t), "GET", srv.URL+"/api/v1/configmaps?watch=true&"+tt.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", tt.accept)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != tt.code || !strings.Contains(string(said), tt.in) {
				t.Errorf("%s: %d %s", tt.query, resp.StatusCode, said)
			}
		})
	}
}

// A revision that is too old is told in the stream, as clients of upstream know it.
func TestWatchTooOld(t *testing.T) {
	w := newWorldOf(t, view.Config{Changes: 5})
	srv := w.serve()
	w.configMap("a", "v")
	for i := range 20 {
		w.configMap(fmt.Sprint("b", i), "v")
	}
	got := events(t, srv.URL+"/api/v1/configmaps?watch=true&resourceVersion=1", "", 2)
	if len(got) != 1 || got[0]["type"] != "ERROR" || got[0]["object"].(map[string]any)["reason"] != "Expired" {
		t.Errorf("%v", got)
	}
}

// events reads a stream of JSON events until it ends or has n.
func events(t testing.TB, url, accept string, n int) (list []map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(limited(t), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(resp.Body)
	for len(list) < n {
		var e map[string]any
		if err := dec.Decode(&e); err != nil {
			break
		}
		list = append(list, e)
	}
	return list
}

func TestWatchAsTable(t *testing.T) {
	w := newWorld(t)
	w.configMap("a", "1")
	w.configMap("b", "1")
	got := events(t, w.serve().URL+"/api/v1/namespaces/ns/configmaps?watch=1", "application/json;as=Table;v=v1;g=meta.k8s.io", 2)
	if len(got) != 2 || at(got[0], "object", "kind") != "Table" || at(got[0], "object", "columnDefinitions") == nil ||
		at(got[0], "object", "rows", 0, "cells", 0) != "a" {
		t.Fatalf("events %v", got)
	}
	if at(got[1], "object", "columnDefinitions") != nil || at(got[1], "object", "rows", 0, "cells", 0) != "b" {
		t.Errorf("second event %v", got[1])
	}
}

func TestWatchList(t *testing.T) {
	w := newWorld(t)
	w.configMap("a", "1")
	url := w.serve().URL +
		"/api/v1/namespaces/ns/configmaps?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
	for _, accept := range []string{codec.JSON, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
		got := events(t, url, accept, 2)
		if len(got) != 2 || got[0]["type"] != "ADDED" || got[1]["type"] != "BOOKMARK" {
			t.Fatalf("events %v", got)
		}
		if at(got[1], "object", "metadata", "annotations", "k8s.io/initial-events-end") != "true" ||
			at(got[1], "object", "metadata", "resourceVersion") == nil {
			t.Errorf("bookmark %v", got[1])
		}
	}
}

func TestOldWatchPath(t *testing.T) {
	w := newWorld(t)
	w.configMap("a", "1")
	w.configMap("b", "1")
	base := w.serve().URL
	for path, want := range map[string]int{"/api/v1/watch/namespaces/ns/configmaps/b?timeoutSeconds=1": 1,
		"/api/v1/watch/configmaps?timeoutSeconds=1": 2} {
		t.Run(path, func(t *testing.T) {
			if got := events(t, base+path, "", 3); len(got) != want {
				t.Errorf("%s: %v", path, got)
			}
		})
	}
}

func TestWatchSocket(t *testing.T) {
	w := newWorld(t)
	w.configMap("a", "1")
	url := strings.Replace(w.serve().URL, "http", "ws", 1) + "/api/v1/namespaces/ns/configmaps?watch=1"
	dialer := &websocket.Dialer{Subprotocols: []string{"mine"}}
	if _, resp, err := dialer.DialContext(limited(t), url+"&resourceVersion=abc", nil); err == nil || resp == nil || resp.StatusCode != 500 {
		t.Errorf("a watch that can't begin: %v, %v", resp, err)
	}
	conn, _, err := dialer.DialContext(limited(t), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.Subprotocol() != "mine" {
		t.Errorf("protocol %q", conn.Subprotocol())
	}
	var e map[string]any
	if err := conn.ReadJSON(&e); err != nil || e["type"] != "ADDED" || at(e, "object", "metadata", "name") != "a" {
		t.Errorf("message %v, error %v", e, err)
	}
}

// An informer of upstream follows the world, with its defaults (WatchList) and both encodings.
func TestInformers(t *testing.T) {
	for _, f := range []string{codec.JSON, codec.Protobuf} {
		t.Run(f, func(t *testing.T) {
			w := newWorld(t)
			w.configMap("before", "1")
			factory := informers.NewSharedInformerFactoryWithOptions(w.client(f), 0, informers.WithNamespace("ns"))
			informer := factory.Core().V1().ConfigMaps().Informer()
			seen := make(chan string, 10)
			_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { seen <- "add " + o.(*corev1.ConfigMap).Name },
				DeleteFunc: func(o any) { seen <- "delete " + o.(*corev1.ConfigMap).Name }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(limited(t))
			defer func() { cancel(); factory.Shutdown() }()
			factory.Start(ctx.Done())
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Fatal("the informer has not synced")
			}
			w.configMap("after", "1")
			w.must("DELETE", "/api/v1/namespaces/ns/configmaps/before", "", 200)
			for _, want := range []string{"add before", "add after", "delete before"} {
				select {
				case got := <-seen:
					if got != want {
						t.Errorf("saw %q, want %q", got, want)
					}
				case <-ctx.Done():
					t.Fatalf("have not seen %q", want)
				}
			}
		})
	}
}

func TestCloseEndsWatches(t *testing.T) {
	w := newWorld(t)
	srv := w.serve()
	resp, err := http.Get(srv.URL + "/api/v1/nodes?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	w.handler.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := resp.Body.Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the watch went on")
		}
	case <-time.After(10 * time.Minute):
		t.Error("the watch did not end")
	}
	w.must("GET", "/api/v1/nodes", "", 503)
	w.must("GET", "/readyz", "", 500)
	w.must("GET", "/livez", "", 200)
}
