package why_test

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kit/whole"
)

// A front is a front door alone: objects lie in it as they were put there.
func front(t *testing.T) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(), NoLoops: true, Kubeconfig: path,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached{discovery.NewDiscoveryClientForConfigOrDie(cfg)})
	return &world{t, dynamic.NewForConfigOrDie(cfg), mapper, t.Context(), cfg, path}
}

// advisedFor lists what is advised for the object that a row asks about.
func advisedFor(t *testing.T, r *states.Row) (all []advised) {
	t.Helper()
	set, read, err := states.World(r.Given)
	if err != nil {
		t.Fatal(err)
	}
	w := converge.World{Read: read, Kinds: set, Now: states.Noon, Rules: rules.All()}
	if r.Server != nil {
		w.Loops = &converge.Processes{Own: func() *convergence.Server { return r.Server }}
	}
	k, obj, err := r.Asked(set, read)
	if err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	if s := w.Explain(k, obj); s != nil {
		return advisedIn(t, nil, s.Gap())
	}
	if rest := w.Rest(k, obj); rest != nil {
		return advisedIn(t, nil, rest)
	}
	return nil
}

// A told is a row of converge/testdata and what it advises in forms that were not pasted before.
type told struct {
	given string
	fresh []advised
}

// checkTold pastes the advice on the states of converge/testdata in forms that were not pasted before, in a cluster where their objects
// lie. The kinds of all are defined before: kubectl asks anew what is served whenever it meets a kind that it doesn't know. One row goes
// after the other, always in the same order, as they are in each other's way.
func checkTold(t *testing.T, p *pasting) {
	rows, err := states.Rows("../../converge/testdata")
	if err != nil {
		t.Fatal(err)
	}
	var list []told
	var given []string
	for _, r := range rows {
		var fresh []advised
		for _, a := range advisedFor(t, &r) {
			if p.take(&a) {
				fresh = append(fresh, a)
			}
		}
		if len(fresh) > 0 {
			list, given = append(list, told{r.Given, fresh}), append(given, r.Given)
		}
	}
	w := front(t)
	w.defineAll(given)
	space := w.space(states.Namespace)
	for _, one := range list {
		remove := w.lay(space, one.given)
		for _, a := range one.fresh {
			a.world = w
			p.paste(t, &a)
		}
		remove()
	}
}

// defineAll defines the kinds of all objects that are no kinds of Kubernetes.
func (w *world) defineAll(given []string) {
	w.t.Helper()
	known, seen := kinds.NewSet(), map[schema.GroupVersionKind]bool{}
	for _, text := range given {
		list, err := states.Objects(text)
		if err != nil {
			w.fatal("%v", err)
		}
		for _, u := range list {
			gvk := u.GroupVersionKind()
			if _, builtIn := known.Kind(gvk); !builtIn && !seen[gvk] {
				seen[gvk] = true
				w.define(gvk)
			}
		}
	}
}

// space makes a namespace, and the account of its pods.
func (w *world) space(name string) situation {
	s := situation{Name: name}
	w.lay(s, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}")
	w.lay(s, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}")
	return s
}

// lay puts objects into the store, as they are, and returns what takes them away again. What is there stays.
func (w *world) lay(s situation, text string) (remove func()) {
	w.t.Helper()
	list, err := states.Objects(text)
	if err != nil {
		w.fatal("%v", err)
	}
	var undo []func()
	uids := map[types.UID]types.UID{} // of owners, which the server gives anew
	for _, u := range list {
		harmless(u)
		if ns := u.GetNamespace(); ns != "" && ns != s.Name {
			w.space(ns)
		}
		owners := u.GetOwnerReferences()
		for i, o := range owners {
			owners[i].UID = cmp.Or(uids[o.UID], o.UID)
		}
		u.SetOwnerReferences(owners)
		was := cmp.Or(u.GetUID(), types.UID(u.GetKind()+"/"+u.GetName()))
		r := w.of(s, u.GroupVersionKind(), u.GetNamespace())
		u.SetDeletionTimestamp(nil)
		u.SetUID("")
		made, err := r.Create(w.t.Context(), u, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			continue
		} else if err != nil {
			w.t.Logf("%s/%s can't be laid: %v", u.GetKind(), u.GetName(), err)
			continue
		}
		uids[was] = made.GetUID()
		undo = append(undo, func() {
			_, _ = r.Patch(w.all, u.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			now := int64(0)
			_ = r.Delete(w.all, u.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
		})
	}
	return func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
}

// harmless lets an object be taken and stand in nobody's way: requests do not wait for webhooks and servers that are not there.
func harmless(u *unstructured.Unstructured) {
	switch u.GetKind() {
	case "CronJob": // old ones may have a zone that is refused by now
		unstructured.RemoveNestedField(u.Object, "spec", "timeZone")
	case "APIService":
		unstructured.RemoveNestedField(u.Object, "spec", "service")
		unstructured.RemoveNestedField(u.Object, "spec", "insecureSkipTLSVerify")
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
		for _, h := range hooks {
			if hook, ok := h.(map[string]any); ok {
				hook["sideEffects"], hook["admissionReviewVersions"] = "None", []any{"v1"}
				hook["rules"] = []any{map[string]any{"apiGroups": []any{"nowhere.example.com"}, "apiVersions": []any{"*"},
					"resources": []any{"*"}, "operations": []any{"CREATE"}}}
			}
		}
		_ = unstructured.SetNestedSlice(u.Object, hooks, "webhooks")
	}
}

// define makes a kind in which anything may stand, or has a kind that is there be served in one version more: rows differ in those.
func (w *world) define(gvk schema.GroupVersionKind) {
	w.t.Helper()
	plural, scope := strings.ToLower(gvk.Kind)+"s", "Namespaced"
	if states.Wide(gvk, nil) {
		scope = "Cluster"
	}
	version := func(stored bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, gvk.Version, stored)
	}
	text := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"%[1]s.%[2]s","annotations":{"api-approved.kubernetes.io":"unapproved, for a test"}},
"spec":{"group":%[2]q,"scope":%[6]q,"names":{"kind":%[3]q,"plural":%[1]q,"singular":%[4]q},"versions":[%[5]s]}}`,
		plural, gvk.Group, gvk.Kind, strings.ToLower(gvk.Kind), version(true), scope)
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		w.fatal("%v", err)
	}
	definitions := w.dyn.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	served := w.dyn.Resource(gvk.GroupVersion().WithResource(plural))
	_, err := definitions.Create(w.t.Context(), u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // laid as it is, and perhaps not served yet, or defined in another version
		u, err = definitions.Get(w.t.Context(), u.GetName(), metav1.GetOptions{})
		if err == nil && !defines(u, gvk.Version) {
			_, err = definitions.Patch(w.t.Context(), u.GetName(), types.JSONPatchType,
				[]byte(`[{"op":"add","path":"/spec/versions/-","value":`+version(false)+`}]`), metav1.PatchOptions{})
		}
	}
	if err != nil {
		w.fatal("%v", err)
	}
	w.until("the kind is served", func() error {
		_, err := served.List(w.t.Context(), metav1.ListOptions{})
		return err
	})
}

// defines says whether a definition has a version.
func defines(definition *unstructured.Unstructured, version string) bool {
	list, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	return slices.ContainsFunc(list, func(v any) bool { m, ok := v.(map[string]any); return ok && m["name"] == version })
}

// written are the commands that stand in the source of the rules, up to the first word that is put in. Each is all of a piece of advice,
// or its end.
func written(t *testing.T) (list []string) {
	t.Helper()
	files, err := filepath.Glob("../../converge/*/*.go")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files of rules: %v", len(files), err)
	}
	own, err := filepath.Glob("../../converge/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, own...)
	amid := regexp.MustCompile(`[a-z,] (kubectl|kloop) (get|describe|logs|delete|patch|edit|scale|rollout|create|why|node|up|image)\b`)
	begin := regexp.MustCompile(`(?:^|: )((?:kubectl|kloop) [a-z][^%{]*)`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					m := begin.FindStringSubmatch(text)
					if m != nil {
						list = append(list, m[1])
					} else if amid.MatchString(text) {
						t.Errorf("%s: a command that can't be pasted: %s", name, text)
					}
				}
			}
			return true
		})
	}
	slices.Sort(list)
	return slices.Compact(list)
}
