package view_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

var pods = &resource.Def[*corev1.Pod]{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Plural: "pods", Namespaced: true,
	Select: []resource.Field[*corev1.Pod]{{Label: "spec.nodeName", Index: true,
		Value: func(p *corev1.Pod) string { return p.Spec.NodeName }}}}

var maps = &resource.Def[*corev1.ConfigMap]{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Plural: "configmaps", Namespaced: true}

var nodes = &resource.Def[*corev1.Node]{GVK: corev1.SchemeGroupVersion.WithKind("Node"), Plural: "nodes", Storage: "minions"}

// rig is a view that follows a store.
type rig struct {
	t  testing.TB
	st store.Store
	v  *view.View
}

func start(t testing.TB, c view.Config, kinds ...resource.Kind) *rig {
	t.Helper()
	if kinds == nil {
		kinds = []resource.Kind{pods, maps, nodes}
	}
	r := &rig{t: t, st: memory.New(), v: view.NewWith(resource.NewSet(kinds...), c)}
	r.follow()
	return r
}

// follow starts the view's feed and waits until it is up.
func (r *rig) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- r.v.Follow(ctx, r.st, func() { close(ready) }) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("Follow: %v", err)
		}
	})
	<-ready
}

// put writes obj over what stands under its name now and returns the revision.
func (r *rig) put(k resource.Kind, obj resource.Object) int64 {
	r.t.Helper()
	value, err := codec.Stored(k, obj)
	if err != nil {
		r.t.Error(err)
		return 0
	}
	return r.write(k.Info().Key(obj.GetNamespace(), obj.GetName()), value)
}

func (r *rig) del(k resource.Kind, ns, name string) int64 {
	r.t.Helper()
	return r.write(k.Info().Key(ns, name), nil)
}

func (r *rig) write(key string, value []byte) int64 {
	r.t.Helper()
	kv, _, err := r.st.Get(r.t.Context(), key)
	if err != nil {
		r.t.Error(err)
		return 0
	}
	w := store.Write{Key: key, Value: value}
	if kv != nil {
		w.Expect = kv.ModRev
	}
	rev, err := r.st.Write(r.t.Context(), w)
	if err != nil {
		r.t.Error(err)
	}
	return rev
}

func (r *rig) wait(rev int64) *view.Snapshot {
	r.t.Helper()
	s, err := r.v.Wait(r.t.Context(), rev)
	if err != nil || s.Rev() < rev {
		r.t.Errorf("waited for revision %d, got %v, %v", rev, s, err)
	}
	return s
}

func pod(ns, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(ns + "-" + name)}}
	for _, f := range change {
		f(p)
	}
	return p
}

func cm(ns, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"v": value}}
}

func TestReads(t *testing.T) {
	r := start(t, view.Config{})
	owner := func(uid string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(uid), Name: "o"}} }
	}
	label := func(k, v string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, k, v) }
	}
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	r.put(pods, pod("b", "two", owner("u1"), label("app", "web"), on("n1")))
	r.put(pods, pod("a", "two", owner("u2"), label("app", "web")))
	r.put(pods, pod("a", "one", owner("u1"), label("app", "db"), on("n2")))
	r.put(pods, pod("a-b", "one", label("app", "web"), on("n1")))
	before := r.wait(r.put(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))

	names := func(s *view.Snapshot, which string) string {
		out := ""
		add := func(o resource.Object) { out += o.GetNamespace() + "/" + o.GetName() + " " }
		switch which {
		case "all":
			for o := range s.Each(pods, "") {
				add(o)
			}
		case "a":
			for o := range s.Each(pods, "a") {
				add(o)
			}
		case "u1":
			for o := range s.ByOwner(pods, "u1") {
				add(o)
			}
		case "n1":
			for o := range s.ByField(pods, "spec.nodeName", "n1") {
				add(o)
			}
		case "web":
			for o := range s.ByLabel(pods, "", "app", "web") {
				add(o)
			}
		case "web in a":
			for o := range s.ByLabel(pods, "a", "app", "web") {
				add(o)
			}
		case "nodes":
			for o := range s.Each(nodes, "") {
				add(o)
			}
		}
		return out
	}
	want := map[string]string{"all": "a-b/one a/one a/two b/two ", "a": "a/one a/two ", "u1": "a/one b/two ",
		"n1": "a-b/one b/two ", "web": "a-b/one a/two b/two ", "web in a": "a/two ", "nodes": "/n1 "}
	for which, list := range want {
		t.Run(which, func(t *testing.T) {
			if got := names(before, which); got != list {
				t.Errorf("%s: %q, want %q", which, got, list)
			}
		})
	}
	r.del(pods, "b", "two")
	after := r.wait(r.put(pods, pod("a", "one", label("app", "web"), on("n1"))))
	if got := names(after, "web"); got != "a-b/one a/one a/two " {
		t.Errorf("web after: %q", got)
	}
	if got := names(after, "n1") + names(after, "u1"); got != "a-b/one a/one " {
		t.Errorf("n1, u1 after: %q", got)
	}
	for which, list := range want {
		t.Run(which, func(t *testing.T) {
			if got := names(before, which); got != list {
				t.Errorf("the old snapshot changed: %s: %q, want %q", which, got, list)
			}
		})
	}
	o := after.Lookup(pods, "a", "one").(*corev1.Pod)
	if o.Kind != "Pod" || o.APIVersion != "v1" || o.ResourceVersion != strconv.FormatInt(after.Rev(), 10) {
		t.Errorf("got %s %s at %s", o.APIVersion, o.Kind, o.ResourceVersion)
	}
}

func TestCursorTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, view.Config{})
		c := r.v.Cursor(r.v.Revision(), pods)
		got := make(chan string)
		go func() {
			defer close(got)
			for {
				b, err := c.Next(t.Context())
				if err != nil {
					return
				}
				for _, x := range b.Changes {
					got <- fmt.Sprint(x.Old != nil, x.New != nil, x.Rev-b.Snapshot.Rev())
				}
			}
		}()
		synctest.Wait()
		for i, do := range []func(){
			func() { r.put(pods, pod("a", "x")) },
			func() { r.put(maps, cm("a", "x", "1")); r.put(pods, pod("a", "x")) },
			func() { r.del(pods, "a", "x") },
		} {
			do()
			want := []string{"false true 0", "true true 0", "true false 0"}[i]
			if x := <-got; x != want {
				t.Errorf("change %d: %s, want %s", i, x, want)
			}
			synctest.Wait()
		}
		if rev := r.wait(r.put(maps, cm("a", "x", "2"))).Rev(); c.Revision() != rev {
			t.Errorf("cursor at %d, want %d", c.Revision(), rev)
		}
	})
}

// The state for one kind has that kind's newest objects, whatever was written since to it or to others.
func TestSnapshotOf(t *testing.T) {
	r := start(t, view.Config{})
	reach := func(rev int64) {
		if err := r.v.Reach(t.Context(), rev); err != nil {
			t.Fatal(err)
		}
	}
	count := func(k resource.Kind) int { return view.SnapshotOf(r.v, k).Count(k, "") }
	if n := count(pods) + count(maps); n != 0 {
		t.Errorf("%d objects at first", n)
	}
	reach(r.put(maps, cm("a", "m", "1")))
	for i := range 3 {
		rev := r.put(pods, pod("a", fmt.Sprint("p", i)))
		reach(rev)
		if s := view.SnapshotOf(r.v, maps); s.Lookup(maps, "a", "m") == nil || s.Revision(maps) < rev {
			t.Errorf("at %d, after a pod at %d: %v", s.Revision(maps), rev, s.Lookup(maps, "a", "m"))
		}
		if n := count(pods); n != i+1 {
			t.Errorf("%d pods, want %d", n, i+1)
		}
	}
	reach(r.del(maps, "a", "m"))
	if o := view.SnapshotOf(r.v, maps).Lookup(maps, "a", "m"); o != nil {
		t.Errorf("what was deleted is there: %v", o)
	}
}
