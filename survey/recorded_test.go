package survey_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/survey"
)

// A release is how a Kubernetes looks from outside: the versions of the group whose kinds changed most, and whether it tells all that it
// serves at once (KEP-3352), as servers do that no proxy stands before.
type release struct {
	name    string
	devices []string
	whole   bool
}

var releases = []release{
	{"1.30", []string{"v1alpha2"}, true}, {"1.31", []string{"v1alpha3"}, true}, {"1.32", []string{"v1beta1", "v1alpha3"}, true},
	{"1.33", []string{"v1beta2", "v1beta1"}, true}, {"1.34", []string{"v1", "v1beta2"}, true}, {"1.35", []string{"v1"}, true},
	{"1.36", []string{"v1"}, true}, {"1.37", []string{"v1"}, true}, {"1.30 without devices", nil, true},
	{"1.30 behind a proxy", []string{"v1alpha2"}, false}, {"1.37 behind a proxy", []string{"v1"}, false},
}

// groups tells what the release serves, as it is asked.
func (rel *release) groups(path, accept string) (any, bool) {
	versions := map[string][]string{"resource.k8s.io": rel.devices, "shop.example.com": {"v1"}, "down.example.com": {"v1"}}
	plural := map[string]string{"resource.k8s.io": "resourceclaimtemplates", "shop.example.com": "carts"}
	type m = map[string]any
	names := []string{"down.example.com", "resource.k8s.io", "shop.example.com"}
	group, v, _ := strings.Cut(strings.TrimPrefix(path, "/apis/"), "/")
	if slices.Contains(versions[group], v) && plural[group] != "" && !rel.whole {
		return m{"kind": "APIResourceList", "groupVersion": group + "/" + v, "resources": []m{
			{"name": plural[group], "kind": "Cart", "namespaced": true, "verbs": []string{"list"}},
			{"name": plural[group] + "/status", "verbs": []string{"get"}}}}, true
	}
	var list []m
	for _, g := range names {
		var out []m
		for _, v := range versions[g] {
			switch {
			case !rel.whole:
				out = append(out, m{"groupVersion": g + "/" + v, "version": v})
			case plural[g] == "":
				out = append(out, m{"version": v, "freshness": "Stale"})
			default:
				out = append(out, m{"version": v, "freshness": "Current", "resources": []m{{
					"resource": plural[g], "scope": "Namespaced", "verbs": []string{"list"},
					"responseKind": m{"group": g, "version": v, "kind": "Cart"}}}})
			}
		}
		if len(out) > 0 {
			list = append(list, m{"name": g, "metadata": m{"name": g}, "versions": out})
		}
	}
	if rel.whole && strings.Contains(accept, "APIGroupDiscoveryList") {
		return m{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": list}, path == "/apis"
	}
	return m{"kind": "APIGroupList", "apiVersion": "v1", "groups": list}, path == "/apis"
}

var (
	unscheduled = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available: waiting for a resource claim"}}}
	unpulled = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: "x",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "401 Unauthorized"}}}}}
)

// front is an ingress that names a class, a certificate and a service, none of which can be read.
func front(class string) networkingv1.Ingress {
	path, to := networkingv1.PathTypePrefix, networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}
	paths := []networkingv1.HTTPIngressPath{{Path: "/", PathType: &path, Backend: networkingv1.IngressBackend{Service: &to}}}
	return networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "front", Namespace: "a"}, Spec: networkingv1.IngressSpec{
		IngressClassName: &class, TLS: []networkingv1.IngressTLS{{SecretName: "cert"}}, Rules: []networkingv1.IngressRule{
			{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: paths}}}}}}
}

// ServeHTTP answers as the release does. What it does not serve it answers in plain text, as API servers do.
func (rel *release) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	template, class := "gpu", "nginx"
	var list runtime.Object
	switch r.URL.Path {
	case "/api/v1/pods":
		list = &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Name: "trains", Namespace: "a"}, Status: unscheduled,
				Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}},
					Containers: []corev1.Container{{Name: "app"}}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "pulls", Namespace: "a"}, Status: unpulled, Spec: corev1.PodSpec{NodeName: "n",
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, Containers: []corev1.Container{{Name: "app", Image: "x"}}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "lost", Namespace: "a"}, Status: corev1.PodStatus{Phase: corev1.PodPending},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}, Volumes: []corev1.Volume{{Name: "v",
					VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}}}
	case "/api/v1/persistentvolumeclaims":
		list = &corev1.PersistentVolumeClaimList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaimList"}}
	case "/apis/networking.k8s.io/v1/ingresses":
		list = &networkingv1.IngressList{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IngressList"},
			Items: []networkingv1.Ingress{front(class)}}
	case "/api/v1/secrets", "/apis/networking.k8s.io/v1/ingressclasses", "/api/v1/services", "/api/v1/nodes":
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
		return
	case "/apis/resource.k8s.io/v1/resourceclaimtemplates":
		if slices.Contains(rel.devices, "v1") {
			list = &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}} // of nothing
		}
	case "/apis/shop.example.com/v1/carts":
		fmt.Fprint(w, `{"items":[{"apiVersion":"shop.example.com/v1","kind":"Cart","metadata":{"name":"mine","namespace":"a"},
			"status":{"conditions":[{"type":"Ready","status":"False","reason":"Empty","message":"there is nothing in it"}]}}]}`)
		return
	}
	if list != nil {
		data, err := codec.MarshalProto(list)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", codec.Protobuf)
		_, _ = w.Write(data)
		return
	}
	if out, ok := rel.groups(r.URL.Path, r.Header.Get("Accept")); ok {
		_ = json.NewEncoder(w).Encode(out)
		return
	}
	http.Error(w, "404 page not found", http.StatusNotFound)
}

// Who may not ask what the server serves hears of Kubernetes' own kinds, and that others were not looked for.
func TestNoDiscovery(t *testing.T) {
	rel := &releases[len(releases)-1]
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
			return
		}
		rel.ServeHTTP(w, r)
	}))
	defer far.Close()
	raw, err := client.Raw(&rest.Config{Host: far.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := survey.Read(t.Context(), raw, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	list, _ := gaps.List(s.World, "")
	if len(list) == 0 || !strings.Contains(strings.Join(s.Unseen, "\n"), "kinds that users defined: you may not ask what the server serves") {
		t.Errorf("%d gaps; not seen: %q", len(list), s.Unseen)
	}
}

// Every release is explained from what it serves: kinds that it does not have are none, and of kinds that it has in versions that are not
// read nothing is claimed, which is said.
func TestReleases(t *testing.T) {
	for _, rel := range releases {
		t.Run(rel.name, func(t *testing.T) {
			far := httptest.NewServer(&rel)
			defer far.Close()
			raw, err := client.Raw(&rest.Config{Host: far.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			s, err := survey.Read(t.Context(), raw, "", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			says := func(name string) string {
				if step := s.World.Explain(kinds.Pods, s.World.Read.Lookup(kinds.Pods, "a", name)); step != nil {
					return step.Gap().Verdict
				}
				return ""
			}
			list, _ := gaps.List(s.World, "")
			told := ""
			for _, g := range list {
				told += g.Verdict + "\n"
			}
			if got := says("lost"); !strings.Contains(got, "data, which does not exist") {
				t.Errorf("a missing claim: %q", got)
			}
			if !strings.Contains(told, "there is nothing in it") {
				t.Errorf("a kind that was added is not explained: %s", told)
			}
			unseen := strings.Join(s.Unseen, "\n")
			if !strings.Contains(unseen, "down.example.com: the server behind this group does not answer") {
				t.Errorf("a group that does not answer is not told: %s", unseen)
			}
			old := len(rel.devices) > 0 && !slices.Contains(rel.devices, "v1")
			want := "resourceclaimtemplates.resource.k8s.io: the server has them as " + strings.Join(rel.devices, ", ")
			if old != strings.Contains(unseen, want) {
				t.Errorf("%q is told: %v; of %s", want, !old, unseen)
			}
			for _, name := range []string{"registry", "nginx", "cert", "service/web"} { // nobody may list what they are
				if strings.Contains(told, name+", which") || strings.Contains(told, name+" does not exist") {
					t.Errorf("%s was not seen: %s", name, told)
				}
			}
			if got := says("pulls"); !strings.Contains(got, "401 Unauthorized") && !strings.Contains(got, "can't pull") {
				t.Errorf("an image that needs credentials: %q", got)
			}
			if got := says("trains"); old == strings.Contains(got, "does not exist") {
				t.Errorf("a claim for devices: %q", got)
			}
		})
	}
}
