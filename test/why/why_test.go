package why_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kit/whole"
)

// A situation is one way to be stuck, made for real, and what must be said about it.
type situation struct {
	Name  string `json:"name"`  // also of its namespace
	World string `json:"world"` // the cluster that it is made in: see worlds
	Given string `json:"given"` // objects, in YAML; those without a namespace get that of the situation
	Then  []step `json:"then"`  // what happens to them
	Ask   string `json:"ask"`   // RESOURCE[.GROUP]:NAME
	Cause string `json:"cause"`
	Owner string `json:"owner"`
	State string `json:"state"`
	Next  string `json:"next"` // part of what is said that comes next
	Says  string `json:"says"` // part of the verdict
}

// A step changes an object: RESOURCE[.GROUP]:NAME, or * for the first one there is. It waits for the object if it must.
type step struct {
	Delete string `json:"delete"`
	Patch  string `json:"patch"`
	Sub    string `json:"sub"`
	With   string `json:"with"` // merge patch, in YAML
	Await  string `json:"await"`
	Is     string `json:"is"` // a text that the object's JSON must have in it

	Event   string `json:"event"` // what its node's agent says of an object
	Reason  string `json:"reason"`
	Message string `json:"message"`

	Create string `json:"create"` // an object that is made only now, in YAML
	Own    string `json:"own"`    // the object that controls it

	Watch string `json:"watch"` // a controller watches the resource from now on
	Try   string `json:"try"`   // an object that a controller tries to create or change, in YAML; it must be refused
	As    string `json:"as"`    // who watches or tries: user and program; "": the administrator
	Evict string `json:"evict"` // a pod that somebody tries to evict from now on, as a drain does
}

// world is the cluster that all situations share.
type world struct {
	t      *testing.T
	dyn    dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	all    context.Context // until the last situation is done
	cfg    *rest.Config
	config string // file of a kubeconfig
}

// worlds are the clusters of the suite. Most situations share one; what would be seen by others (a watch of a kind that is
// everybody's, a loop that does not run, nodes that are lost soon) has one of its own.
var worlds = map[string]cluster.Config{
	"":         {SimNodes: 8},
	"calm":     {SimNodes: 3},
	"no-nodes": {},
	"bare":     {NodeMonitorGrace: time.Hour},
	"lost":     {SimNodes: 1, NodeMonitorGrace: 4 * time.Second},
	"no-loop":  {SimNodes: 1, Controllers: []string{"*", "-deployment"}},
	"upstream": {SimNodes: 1, Controllers: []string{"*", "-namespace"}},
	"storage":  {SimNodes: 1, NoLocalStorage: true},
	"ingress":  {SimNodes: 1},
	"edge":     {SimNodes: 1},
	"healthy":  {SimNodes: 3},
}

// TestSituations makes every situation of situations.yaml and holds what is said of it to what is expected.
func TestSituations(t *testing.T) {
	list := read(t, "situations.yaml")
	if len(list) < 270 {
		t.Errorf("only %d situations", len(list))
	}
	in := map[string]*world{}
	var made sync.WaitGroup
	for _, s := range list {
		if in[s.World] == nil {
			in[s.World] = start(t, s.World)
		}
		w := in[s.World]
		made.Go(func() { w.make(s) })
	}
	made.Wait()
	page := readDocs(t)
	for _, s := range list {
		t.Run(s.Name, func(t *testing.T) {
			w := in[s.World].with(t)
			w.check(s)
			w.show(s, page)
		})
	}
	t.Run("docs", func(t *testing.T) { page.check(t) })
	t.Run("survey", func(t *testing.T) { surveys(t, in, list) })
	t.Run("advice", func(t *testing.T) { checkAdvice(t, in, list) })
}

// fatal gives up on a situation.
func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf(format, args...)
	w.t.FailNow()
}

func start(t *testing.T, name string) *world {
	t.Helper()
	conf, ok := worlds[name]
	if !ok {
		t.Fatalf("there is no world %q", name)
	}
	conf.NodeMonitorGrace = cmp.Or(conf.NodeMonitorGrace, 5*time.Minute) // a busy machine loses no node
	conf.Log, conf.Kubeconfig = slog.New(slog.DiscardHandler), filepath.Join(t.TempDir(), "kubeconfig")
	conf.Kit = whole.Kit()
	c, err := cluster.Start(context.Background(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	disc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, dyn, restmapper.NewDeferredDiscoveryRESTMapper(cached{disc}), t.Context(), cfg, c.KubeconfigPath()}
}

// cached lets the mapper ask anew every time: kinds come and go here.
type cached struct{ discovery.DiscoveryInterface }

func (cached) Fresh() bool { return false }
func (cached) Invalidate() {}

func read(t *testing.T, file string) (list []situation) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func (w *world) with(t *testing.T) *world {
	other := *w
	other.t = t
	return &other
}

// as is the world as a controller sees it: who names its program, and its user unless that is the administrator.
func (w *world) as(who string, asAdmin bool) *world {
	w.t.Helper()
	if who == "" {
		return w
	}
	cfg := rest.CopyConfig(w.cfg)
	if cfg.UserAgent = who + "/v1"; !asAdmin {
		cfg.Impersonate.UserName = who
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		w.fatal("%v", err)
	}
	other := *w
	other.dyn, other.cfg = dyn, cfg
	return &other
}

// in is where the object of the name lives.
func (w *world) in(s situation, id string) (dynamic.ResourceInterface, string) {
	w.t.Helper()
	gr, name, err := convergence.ParseName(id)
	if err != nil {
		w.fatal("%v", err)
	}
	gvk, err := w.mapper.KindFor(gr.WithVersion(""))
	if err != nil {
		w.fatal("%s: %v", id, err)
	}
	r := w.of(s, gvk, "")
	if name == "*" {
		return r, first(w.t.Context(), r)
	}
	return r, name
}

// first is the name of the first object there is; "*" when there is none.
func first(ctx context.Context, r dynamic.ResourceInterface) string {
	list, err := r.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return "*"
	}
	return list.Items[0].GetName()
}

func (w *world) of(s situation, gvk schema.GroupVersionKind, ns string) dynamic.ResourceInterface {
	w.t.Helper()
	m, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		w.fatal("%s: %v", gvk, err)
	}
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		return w.dyn.Resource(m.Resource)
	}
	if ns == "" {
		ns = s.Name
	}
	return w.dyn.Resource(m.Resource).Namespace(ns)
}

// make brings the situation about.
func (w *world) make(s situation) {
	w.t.Helper()
	ctx := w.t.Context()
	namespaces := w.dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": s.Name}}}
	if _, err := namespaces.Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		w.fatal("%v", err)
	}
	w.until("its service account is there", func() error {
		_, err := w.dyn.Resource(schema.GroupVersionResource{Version: "v1",
			Resource: "serviceaccounts"}).Namespace(s.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	docs := yamlutil.NewYAMLOrJSONDecoder(strings.NewReader(s.Given), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := docs.Decode(obj); err == io.EOF {
			break
		} else if err != nil {
			w.fatal("%v", err)
		}
		if len(obj.Object) > 0 {
			w.create(s, obj)
		}
	}
	for _, st := range s.Then {
		w.do(s, st)
	}
}

// create makes an object, and its status if it has one; a kind that was just defined takes its time.
func (w *world) create(s situation, obj *unstructured.Unstructured) {
	w.t.Helper()
	status, has := obj.Object["status"]
	var r dynamic.ResourceInterface
	w.until("create "+obj.GetKind()+" "+obj.GetName(), func() error {
		m, err := w.mapper.RESTMapping(obj.GroupVersionKind().GroupKind(), obj.GroupVersionKind().Version)
		if err != nil {
			return err
		}
		r = w.of(s, m.GroupVersionKind, obj.GetNamespace())
		_, err = r.Create(w.t.Context(), obj, metav1.CreateOptions{FieldManager: "test"})
		return err
	})
	if !has {
		return
	}
	w.until("say the status of "+obj.GetKind()+" "+obj.GetName(), func() error { // the loops may write it at the same time
		patch, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			return err
		}
		_, err = r.Patch(w.t.Context(), obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "widget-operator"},
			"status")
		return err
	})
}

// owned is the object that a step makes.
func (w *world) owned(s situation, st step) *unstructured.Unstructured {
	w.t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(st.Create), &obj.Object); err != nil {
		w.fatal("%v", err)
	}
	if st.Own == "" {
		return obj
	}
	r, name := w.in(s, st.Own)
	owner, err := r.Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.fatal("%v", err)
	}
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	return obj
}

// do performs a step.
func (w *world) do(s situation, st step) {
	w.t.Helper()
	if st.Create != "" {
		w.create(s, w.owned(s, st))
		return
	}
	w.until(fmt.Sprintf("%+v", st), func() error {
		ctx := w.t.Context()
		switch {
		case st.Delete != "":
			r, name := w.in(s, st.Delete)
			return r.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: propagation(st.With)})
		case st.Patch != "":
			r, name := w.in(s, st.Patch)
			data, err := yaml.YAMLToJSON([]byte(st.With))
			if err != nil {
				return err
			}
			_, err = r.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "test"}, subs(st.Sub)...)
			return err
		case st.Event != "":
			return w.event(s, st)
		case st.Watch != "":
			r, _ := w.as(st.As, true).in(s, st.Watch)
			seen, err := r.Watch(w.all, metav1.ListOptions{}) // ends with the cluster
			if err == nil {
				go w.again(r, seen)
			}
			return err
		case st.Try != "":
			return w.as(st.As, false).try(s, st.Try)
		case st.Evict != "":
			_, name := w.in(s, st.Evict)
			go w.drain(s, name)
			return nil
		}
		r, name := w.in(s, st.Await)
		obj, err := r.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		data, err := json.Marshal(obj)
		if err == nil && !bytes.Contains(data, []byte(st.Is)) {
			err = fmt.Errorf("it is %s", data)
		}
		return err
	})
}

// again goes on watching, as controllers do: a definition that changes ends the watches of its kind.
func (w *world) again(r dynamic.ResourceInterface, seen watch.Interface) {
	for w.all.Err() == nil {
		for range seen.ResultChan() {
		}
		next, err := r.Watch(w.all, metav1.ListOptions{})
		if err == nil {
			seen = next
			continue
		}
		select {
		case <-w.all.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// try asks for what must be refused.
func (w *world) try(s situation, text string) error {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		return err
	}
	r := w.of(s, obj.GroupVersionKind(), obj.GetNamespace())
	_, err := r.Create(w.t.Context(), obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = r.Update(w.t.Context(), obj, metav1.UpdateOptions{})
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("it is not refused: %w", err)
	}
	return nil
}

// drain asks for the eviction of a pod, again and again.
func (w *world) drain(s situation, pod string) {
	pods := w.dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(s.Name)
	eviction := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": map[string]any{"name": pod, "namespace": s.Name}}}
	for w.all.Err() == nil {
		_, _ = pods.Create(w.all, eviction, metav1.CreateOptions{}, "eviction")
		select {
		case <-w.all.Done():
		case <-time.After(time.Second):
		}
	}
}

// event says something of an object, as a node's agent does.
func (w *world) event(s situation, st step) error {
	r, name := w.in(s, st.Event)
	obj, err := r.Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	_, err = w.dyn.Resource(schema.GroupVersionResource{Version: "v1",
		Resource: "events"}).Namespace(s.Name).Create(w.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": name + ".1"}, "type": "Warning", "reason": st.Reason,
		"message": st.Message,
		"count":   int64(3), "firstTimestamp": now, "lastTimestamp": now, "source": map[string]any{"component": "kubelet"},
		"involvedObject": map[string]any{"apiVersion": obj.GetAPIVersion(), "kind": obj.GetKind(), "namespace": s.Name, "name": name,
			"uid": string(obj.GetUID())}}},
		metav1.CreateOptions{})
	return err
}

func propagation(s string) *metav1.DeletionPropagation {
	p := metav1.DeletionPropagation(s)
	if s == "" {
		return nil
	}
	return &p
}

func subs(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// check asks until the answer is the expected one, or the time is over.
func (w *world) check(s situation) {
	w.t.Helper()
	gvr := convergence.GroupVersion.WithResource("gaps")
	var last string
	w.until("the right explanation", func() error {
		obj, err := w.dyn.Resource(gvr).Namespace(w.spaceOf(s)).Get(w.t.Context(), s.Ask, metav1.GetOptions{})
		if err != nil {
			return err
		}
		data, _ := json.MarshalIndent(obj, "", " ")
		last = string(data)
		var g convergence.Gap
		if err := json.Unmarshal(data, &g); err != nil {
			return err
		}
		return wrong(s, &g)
	})
	if w.t.Failed() {
		w.t.Log(last)
	}
}

// spaceOf is the namespace that the gap is in.
func (w *world) spaceOf(s situation) string {
	gr, _, _ := convergence.ParseName(s.Ask)
	gvk, err := w.mapper.KindFor(gr.WithVersion(""))
	if err != nil {
		w.fatal("%v", err)
	}
	if m, err := w.mapper.RESTMapping(gvk.GroupKind()); err == nil && m.Scope.Name() == meta.RESTScopeNameRoot {
		return "default"
	}
	return s.Name
}

// wrong compares an explanation with what is expected.
func wrong(s situation, g *convergence.Gap) error {
	var bad []string
	same := func(what, got, want string) {
		if got != want && want != "" {
			bad = append(bad, fmt.Sprintf("%s is %q, not %q", what, got, want))
		}
	}
	same("cause", g.Cause, s.Cause)
	same("owner", g.Owner, s.Owner)
	same("state", g.State, s.State)
	if next := g.Next.Who + " " + g.Next.What; !strings.Contains(next, s.Next) {
		bad = append(bad, fmt.Sprintf("next is %q, not %q", next, s.Next))
	}
	if !strings.Contains(g.Verdict, s.Says) {
		bad = append(bad, fmt.Sprintf("the verdict %q lacks %q", g.Verdict, s.Says))
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(bad, "; "))
}

// patience is much more than a situation needs on a machine at rest.
var patience = flag.Duration("patience", 5*time.Minute, "how long a situation may take to come about")

// until tries every 50 ms.
func (w *world) until(what string, f func() error) {
	w.t.Helper()
	var err error
	for end := time.Now().Add(*patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil || apierrors.IsAlreadyExists(err) {
			return
		}
	}
	w.fatal("%s: %v", what, err)
}
