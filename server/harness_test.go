package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	allocation "github.com/kloop-dev/kloop/server/services"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// The kinds of the tests: as small as shows what the server does with any kind.
var (
	configMaps = &resource.Def[*corev1.ConfigMap]{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Plural: "configmaps", Namespaced: true,
		Validate: func(c, _ *corev1.ConfigMap) (errs field.ErrorList) {
			if c.Data["bad"] != "" {
				errs = append(errs, field.Invalid(field.NewPath("data").Key("bad"), c.Data["bad"], "is bad"))
			}
			return errs
		},
		Warn: func(c, _ *corev1.ConfigMap) []string {
			if c.Data["old"] != "" {
				return []string{"old is deprecated"}
			}
			return nil
		}}
	pods = &resource.Def[*corev1.Pod]{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Plural: "pods", Namespaced: true, Status: true,
		Generation: true,
		Grace: func(p *corev1.Pod, asked *int64) int64 {
			if p.Spec.NodeName == "" {
				return 0
			}
			if asked != nil {
				return *asked
			}
			return 30
		},
		Connect: []resource.SubInfo{{Name: "binding", Verbs: []string{"create"}}},
		Select: []resource.Field[*corev1.Pod]{
			{Label: "spec.nodeName", Value: func(p *corev1.Pod) string { return p.Spec.NodeName }, Index: true},
			{Label: "status.phase", Value: func(p *corev1.Pod) string { return string(p.Status.Phase) }}}}
	namespaces = &resource.Def[*corev1.Namespace]{GVK: corev1.SchemeGroupVersion.WithKind("Namespace"), Plural: "namespaces", Status: true,
		Prepare: func(n, old *corev1.Namespace) {
			if old == nil {
				n.Spec.Finalizers, n.Status.Phase = []corev1.FinalizerName{"kubernetes"}, corev1.NamespaceActive
				return
			}
			n.Spec.Finalizers = old.Spec.Finalizers
		},
		Parts: []resource.Part[*corev1.Namespace]{{Name: "finalize", Take: func(n, old *corev1.Namespace) { n.Status = old.Status }}}}
	deployments = &resource.Def[*appsv1.Deployment]{GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), Plural: "deployments",
		Namespaced: true,
		Quirks:     resource.Quirks{StatusResets: []string{"metadata.labels"}},
		Status:     true, Generation: true,
		Default: func(d *appsv1.Deployment) {
			if d.Spec.Replicas == nil {
				d.Spec.Replicas = new(int32)
				*d.Spec.Replicas = 1
			}
		},
		Scale: &resource.Scaled[*appsv1.Deployment]{
			Get: func(d *appsv1.Deployment) resource.Scale {
				return resource.Scale{Replicas: *d.Spec.Replicas, Current: d.Status.Replicas, Selector: "a=b"}
			},
			Set: func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n }}}
	jobs = &resource.Def[*corev1.ReplicationController]{GVK: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
		Plural: "replicationcontrollers", Storage: "controllers", Namespaced: true, OrphanByDefault: true,
		Quirks: resource.Quirks{SkipGenerateNameCheck: true}}
	leases = &resource.Def[*coordinationv1.Lease]{GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Plural: "leases", Namespaced: true,
		CreateOnUpdate: true, Quirks: resource.Quirks{NeedsRevision: true}}
	services = &resource.Def[*corev1.Service]{GVK: corev1.SchemeGroupVersion.WithKind("Service"), Plural: "services",
		Storage:    "services/specs",
		Namespaced: true, Status: true}
	ipAddresses = &resource.Def[*networkingv1.IPAddress]{GVK: networkingv1.SchemeGroupVersion.WithKind("IPAddress"), Plural: "ipaddresses",
		Quirks: resource.Quirks{GenerateNameLiteral: true}}
	budgets = &resource.Def[*policyv1.PodDisruptionBudget]{GVK: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		Plural: "poddisruptionbudgets", Namespaced: true, Status: true, Generation: true, Quirks: resource.Quirks{MetaErrorsLast: true}}
	policies = &resource.Def[*networkingv1.NetworkPolicy]{GVK: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		Plural: "networkpolicies", Namespaced: true, Generation: true, Quirks: resource.Quirks{EmptyCounts: true}}
)

// A world is a server on a store in memory.
type world struct {
	*server.Server
	alloc *allocation.Allocator
	t     testing.TB
	store store.Store
	view  *view.View
	warns []string
}

func start(t testing.TB, edit ...func(*testcluster.Config)) *world {
	t.Helper()
	set := resource.NewSet(configMaps, pods, namespaces, deployments, jobs, leases, services, ipAddresses, budgets, policies)
	own := func(c *testcluster.Config) { c.Kinds = set }
	c := testcluster.Start(t, append([]func(*testcluster.Config){own}, edit...)...)
	return &world{Server: c.Server, alloc: c.Allocator, t: t, store: c.Server.Store, view: c.View}
}

// ask makes a request for an object of the kind in namespace ns.
func (w *world) ask(k resource.Kind, name string) *server.Request {
	r := &server.Request{Kind: k, GVK: k.Info().GVK, Name: name, Agent: "tester/1",
		Warn: func(text string) { w.warns = append(w.warns, text) }}
	if k.Info().Namespaced {
		r.Namespace = "ns"
	}
	return r
}

func sub(r *server.Request, name string) *server.Request { r.Sub = name; return r }

func create[T resource.Object](w *world, k resource.Kind, obj T) T {
	w.t.Helper()
	e, err := w.Create(w.t.Context(), w.ask(k, ""), obj)
	if err != nil {
		w.t.Fatalf("create %s: %v", obj.GetName(), err)
	}
	return e.Object.(T)
}

func update[T resource.Object](w *world, k resource.Kind, obj T) T {
	w.t.Helper()
	e, _, err := w.Update(w.t.Context(), w.ask(k, obj.GetName()), obj)
	if err != nil {
		w.t.Fatalf("update %s: %v", obj.GetName(), err)
	}
	return e.Object.(T)
}

func (w *world) merge(k resource.Kind, name, patch string) (resource.Object, error) {
	e, _, err := w.Patch(w.t.Context(), w.ask(k, name), types.MergePatchType, []byte(patch), false)
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

func (w *world) get(k resource.Kind, name string) resource.Object {
	w.t.Helper()
	e, err := w.Get(w.t.Context(), w.ask(k, name), nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return e.Object
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := 0; i+1 < len(data); i += 2 {
		if c.Data == nil {
			c.Data = map[string]string{}
		}
		c.Data[data[i]] = data[i+1]
	}
	return c
}

// reason sums an error up: its reason and, of an invalid one, the fields.
func reason(err error) string {
	if err == nil {
		return ""
	}
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return "no status: " + err.Error()
	}
	text := string(s.Status().Reason)
	if text == "" {
		text = fmt.Sprint(s.Status().Code)
	}
	if d := s.Status().Details; d != nil {
		for _, c := range d.Causes {
			text += " " + string(c.Type) + " " + c.Field
		}
	}
	return text
}

// plugin is an admission chain of one plugin.
func plugin(mutate, validate func(*admission.Request) error) admission.Chain {
	wrap := func(f func(*admission.Request) error) func(context.Context, *admission.Request) error {
		if f == nil {
			return nil
		}
		return func(_ context.Context, r *admission.Request) error { return f(r) }
	}
	return admission.Chain{{Name: "test", Mutate: wrap(mutate), Validate: wrap(validate)}}
}
