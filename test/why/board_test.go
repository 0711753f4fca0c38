package why_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: example.com/app:1}]}
`

// A gap comes, changes and goes while somebody watches; a healthy cluster has none; nobody can write one.
func TestWatch(t *testing.T) {
	w := start(t, "")
	s := situation{Name: "watched", Given: deployment}
	w.make(s)
	gaps := w.dyn.Resource(convergence.GroupVersion.WithResource("gaps"))
	w.until("no gap is left", func() error {
		list, err := gaps.List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d: %v", len(list.Items), list.Items[0].Object["verdict"])
		}
		return err
	})
	stream, err := gaps.Namespace(s.Name).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	there := map[string]bool{}
	expect := func(what string, ok func(e watch.Event, name, text string) bool) {
		t.Helper()
		for {
			select {
			case e := <-stream.ResultChan():
				text, _ := json.Marshal(e.Object)
				name := e.Object.(*unstructured.Unstructured).GetName()
				if there[name] != (e.Type != watch.Added) {
					t.Fatalf("%s of %s, which was there: %v", e.Type, name, there[name])
				}
				there[name] = e.Type != watch.Deleted
				if ok(e, name, string(text)) {
					return
				}
			case <-time.After(*patience):
				t.Fatalf("in vain: %s", what)
			}
		}
	}
	w.do(s, step{Patch: "deployments.apps:web", With: "{spec: {template: {spec: {nodeSelector: {disk: ssd}}}}}"})
	expect("a gap that says why", func(e watch.Event, _, text string) bool { // a slow machine may say something else first
		return e.Type != watch.Deleted && strings.Contains(text, "AffinityMismatch")
	})
	w.do(s, step{Patch: "deployments.apps:web", With: "{spec: {template: {spec: {nodeSelector: null}}}}"})
	expect("the end of the gap", func(e watch.Event, name, _ string) bool {
		return e.Type == watch.Deleted && name == "deployments.apps:web"
	})
	if err := gaps.Namespace(s.Name).Delete(t.Context(), "deployments.apps:web",
		metav1.DeleteOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("delete of a gap: %v", err)
	}
}

// Two managers that set a field back and forth are told, and so is one that fights itself.
func TestFights(t *testing.T) {
	w := start(t, "")
	s := situation{Name: "ring", Given: deployment +
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: dizzy}\ndata: {turn: left}\n---\napiVersion: v1\nkind: ConfigMap\n" +
		"metadata: {name: updated}\ndata: {turn: up}\n---" +
		strings.ReplaceAll(deployment, "name: web", "name: applied")}
	w.make(s)
	forced := true
	applied := func(manager string, n int) {
		t.Helper()
		r, _ := w.in(s, "deployments.apps:applied")
		patch := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"applied"},"spec":{"replicas":%d}}`, n)
		if _, err := r.Patch(t.Context(), "applied", types.ApplyPatchType, []byte(patch),
			metav1.PatchOptions{FieldManager: manager, Force: &forced}); err != nil {
			t.Fatal(err)
		}
	}
	updated := func(manager, value string) {
		t.Helper()
		w.until("update", func() error {
			r, name := w.in(s, "configmaps:updated")
			obj, err := r.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			obj.Object["data"] = map[string]any{"turn": value}
			_, err = r.Update(t.Context(), obj, metav1.UpdateOptions{FieldManager: manager})
			return err
		})
	}
	set := func(manager, id, field string, value any) {
		t.Helper()
		r, name := w.in(s, id)
		patch, _ := json.Marshal(map[string]any{strings.Split(field, ".")[0]: map[string]any{strings.Split(field, ".")[1]: value}})
		if _, err := r.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		set("red", "deployments.apps:web", "spec.replicas", 4)
		set("blue", "deployments.apps:web", "spec.replicas", 2)
		set("dancer", "configmaps:dizzy", "data.turn", "right")
		set("dancer", "configmaps:dizzy", "data.turn", "left")
		applied("git", 4)
		applied("person", 2)
		updated("one-operator", "left")
		updated("other-operator", "right")
	}
	w.until("the fights are told", func() error {
		list, err := w.dyn.Resource(convergence.GroupVersion.WithResource("fights")).Namespace(s.Name).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, item := range list.Items {
			data, _ := json.Marshal(item.Object)
			var f convergence.Fight
			if err := json.Unmarshal(data, &f); err != nil {
				return err
			}
			slices.Sort(f.Values)
			got = append(got, fmt.Sprint(f.Object.Short(), " ", f.Field, " ", f.Managers, " ", f.Values))
		}
		want := []string{"configmap/dizzy data.turn [dancer] [left right]",
			"configmap/updated data.turn [one-operator other-operator] [left right]",
			"deployment/applied spec.replicas [git person] [2 4]", "deployment/web spec.replicas [blue red] [2 4]"}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}
