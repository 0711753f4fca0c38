package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/server"
)

// What a validating webhook is told, and its refusal.
func TestValidating(t *testing.T) {
	w := start(t)
	w.validating("v", nil, "/v")
	w.must(w.create(configMap("a", "k", "v")))
	calls, _ := w.asked()
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	q := calls[0]
	if q.Operation != "CREATE" || q.Kind.Kind != "ConfigMap" || q.Resource.Resource != "configmaps" || q.RequestKind == nil ||
		*q.RequestKind != q.Kind ||
		q.Namespace != "ns" || q.Name != "a" || q.UserInfo.Username != "jane" || q.DryRun == nil || *q.DryRun || q.UID == "" ||
		!strings.Contains(string(q.Object.Raw), `"kind":"ConfigMap","apiVersion":"v1"`) || q.OldObject.Raw != nil ||
		!strings.Contains(string(q.Options.Raw), `"kind":"CreateOptions"`) {
		t.Errorf("asked %+v\n%s %s", q, q.Object.Raw, q.Options.Raw)
	}
	w.answer("/v", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Warnings: []string{"mind"}, Result: &metav1.Status{Code: 418, Reason: "Teapot", Message: "no"}}
	})
	_, err := w.create(configMap("b"))
	st := apierrors.APIStatus(nil)
	if s, ok := err.(apierrors.APIStatus); ok {
		st = s
	}
	if st == nil || st.Status().Message != `admission webhook "v.example.com" denied the request: no` || st.Status().Code != 418 ||
		st.Status().Reason != "Teapot" || !slices.Contains(w.warns, "mind") {
		t.Errorf("%#v, warnings %v", err, w.warns)
	}
	r := w.request(configMap("a"))
	if _, _, err := w.Delete(t.Context(), r, nil); err == nil || !strings.Contains(err.Error(), "denied") {
		t.Errorf("delete: %v", err)
	}
	calls, _ = w.asked()
	if q := calls[len(calls)-1]; q.Operation != "DELETE" || q.Object.Raw != nil ||
		!strings.Contains(string(q.OldObject.Raw), `"k":"v"`) || q.Name != "a" {
		t.Errorf("asked %+v", q)
	}
	if _, err := w.DeleteCollection(t.Context(), &server.Request{Kind: kinds.ConfigMaps, GVK: kinds.ConfigMaps.GVK, Namespace: "ns",
		User: r.User}, nil, nil); err == nil {
		t.Error("deletecollection passed")
	}
}

// Denials, whatever they say, are refusals with a reason to read.
func TestDenials(t *testing.T) {
	w := start(t)
	w.validating("v", nil, "/v")
	for _, tt := range []struct {
		name string
		said *metav1.Status
		code int32
		text string
	}{
		{"no status", nil, 400, "denied the request without explanation"},
		{"a status of success", &metav1.Status{Status: "Success", Code: 200}, 400, "without explanation"},
		{"a reason alone", &metav1.Status{Reason: "Why"}, 400, "denied the request: Why"},
		{"a message and a code", &metav1.Status{Message: "m", Code: 403}, 403, "denied the request: m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.answer("/v", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				return &admissionv1.AdmissionResponse{Result: tt.said}
			})
			_, err := w.create(configMap("a"))
			st, ok := err.(apierrors.APIStatus)
			if !ok || st.Status().Code != tt.code || st.Status().Status != "Failure" || !strings.HasSuffix(st.Status().Message, tt.text) {
				t.Errorf("%+v: %v", tt.said, err)
			}
		})
	}
}

// Which requests a rule is about.
func TestRules(t *testing.T) {
	scope := func(s admissionregistrationv1.ScopeType,
		r admissionregistrationv1.RuleWithOperations) admissionregistrationv1.RuleWithOperations {
		r.Scope = &s
		return r
	}
	all := []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}
	for _, tt := range []struct {
		name string
		rule admissionregistrationv1.RuleWithOperations
		// of: create cm, update cm, delete cm, create deployment, its scale, its status, create node, create namespace, eviction, exec
		want string
	}{
		{"everything", rule(all, "*", "*", "*/*"), "CUDdstnNex"},
		{"everything but subresources", rule(all, "*", "*", "*"), "CUDdnN"},
		{"one resource", rule(all, "", "v1", "configmaps"), "CUD"},
		{"one operation", rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Create}, "", "v1", "configmaps"), "C"},
		{"two operations",
			rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Update, admissionregistrationv1.Delete}, "*", "*",
				"configmaps"), "UD"},
		{"all subresources of one resource", rule(all, "apps", "*", "deployments/*"), "dst"},
		{"one subresource", rule(all, "apps", "v1", "deployments/scale"), "s"},
		{"a version that is not asked for", rule(all, "apps", "v1beta1", "deployments"), ""},
		{"one subresource of all resources", rule(all, "*", "*", "*/status"), "t"},
		{"evictions", rule(all, "", "*", "pods/eviction"), "e"},
		{"connections", rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Connect}, "*", "*", "*/*"), "x"},
		{"cluster scope", scope(admissionregistrationv1.ClusterScope, rule(all, "*", "*", "*")), "nN"},
		{"namespaced scope", scope(admissionregistrationv1.NamespacedScope, rule(all, "*", "*", "*")), "CUDd"},
		{"both scopes", scope(admissionregistrationv1.AllScopes, rule(all, "*", "*", "nodes")), "n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := start(t)
			w.validating("v", func(h *admissionregistrationv1.ValidatingWebhook) {
				h.Rules = []admissionregistrationv1.RuleWithOperations{tt.rule}
			}, "/v")
			if got := w.tour(); got != tt.want {
				t.Errorf("%v %v: asked about %q, want %q", tt.rule.Operations, tt.rule.Rule, got, tt.want)
			}
		})
	}
}

// tour makes one request of each sort and tells which the webhooks were asked about.
func (w *world) tour() (seen string) {
	w.t.Helper()
	ctx := w.t.Context()
	note := func(letter string) {
		if calls, _ := w.asked(); len(calls) > 0 {
			seen += letter
		}
	}
	w.must(w.create(configMap("a")))
	note("C")
	_, _, err := w.Update(ctx, w.request(configMap("a")), configMap("a", "x", "y"))
	w.must(nil, err)
	note("U")
	_, _, err = w.Delete(ctx, w.request(configMap("a")), nil)
	w.must(nil, err)
	note("D")
	d := deployment()
	w.must(w.create(d.DeepCopy()))
	note("d")
	r := w.request(d)
	r.Sub = "scale"
	_, _, err = w.Update(ctx, r, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"},
		Spec: autoscalingv1.ScaleSpec{Replicas: 3}})
	w.must(nil, err)
	note("s")
	r = w.request(d)
	r.Sub = "status"
	d.Status.Replicas = 2
	_, _, err = w.Update(ctx, r, d)
	w.must(nil, err)
	note("t")
	w.must(w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	note("n")
	w.must(w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}))
	note("N")
	p := pod()
	w.must(w.create(p))
	w.asked()
	r = w.request(pod())
	r.Sub = "eviction"
	ev := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	ev.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
	_, err = w.Call(ctx, r, "create", ev)
	w.must(nil, err)
	note("e")
	r = w.request(pod())
	r.Sub = "exec"
	w.must(nil, w.Connect(ctx, r, &corev1.PodExecOptions{Command: []string{"sh"}}))
	note("x")
	return seen
}

func deployment() *appsv1.Deployment {
	labels := map[string]string{"a": "b"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod().Spec}}}
}

func pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

// What subresources and connections look like to a webhook.
func TestForms(t *testing.T) {
	w := start(t)
	w.validating("v", nil, "/v")
	w.tour()
	w.must(w.create(pod()))
	w.asked()
	r := w.request(pod())
	r.Sub = "exec"
	w.must(nil, w.Connect(t.Context(), r, &corev1.PodExecOptions{Command: []string{"sh"}}))
	r = w.request(deployment())
	r.Sub = "scale"
	_, _, err := w.Patch(t.Context(), r, types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), false)
	w.must(nil, err)
	r = w.request(pod())
	r.Sub = "eviction"
	ev := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	ev.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
	_, err = w.Call(t.Context(), r, "create", ev)
	w.must(nil, err)
	calls, _ := w.asked()
	want := []string{
		`CONNECT v1 PodExecOptions pods/exec p "command":["sh"]`,
		`UPDATE autoscaling/v1 Scale deployments/scale d "replicas":5`,
		`CREATE policy/v1 Eviction pods/eviction p "kind":"Eviction"`,
	}
	for i, q := range calls {
		is := strings.TrimPrefix(q.Kind.Group+"/"+q.Kind.Version, "/")
		got := fmt.Sprintf("%s %s %s %s/%s %s ", q.Operation, is, q.Kind.Kind, q.Resource.Resource, q.SubResource, q.Name)
		at, text := want[i][:len(got)], want[i][len(got):]
		if got != at || !strings.Contains(string(q.Object.Raw), text) {
			t.Errorf("call %d is %s%s, want %s", i, got, q.Object.Raw, want[i])
		}
	}
	if len(calls) != len(want) {
		t.Errorf("%d calls", len(calls))
	}
}

// Selectors look at the namespace, also a namespace's own labels, and at the object before and after.
func TestSelectors(t *testing.T) {
	sel := func(k, v string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{k: v}}
	}
	w := start(t)
	w.validating("a", func(h *admissionregistrationv1.ValidatingWebhook) { h.NamespaceSelector = sel("team", "a") }, "/team")
	w.validating("b", func(h *admissionregistrationv1.ValidatingWebhook) { h.NamespaceSelector = sel("team", "b") }, "/other")
	w.validating("c", func(h *admissionregistrationv1.ValidatingWebhook) { h.ObjectSelector = sel("app", "x") }, "/object")
	step := func(what string, err error, want ...string) {
		t.Helper()
		w.must(nil, err)
		_, paths := w.asked()
		slices.Sort(paths)
		if !slices.Equal(paths, want) {
			t.Errorf("%s: asked %v, want %v", what, paths, want)
		}
	}
	_, err := w.create(configMap("plain"))
	step("in the namespace", err, "/team")
	labelled := configMap("labelled")
	labelled.Labels = map[string]string{"app": "x"}
	_, err = w.create(labelled)
	step("with labels", err, "/object", "/team")
	_, _, err = w.Update(t.Context(), w.request(configMap("labelled")), configMap("labelled", "a", "b"))
	step("labels taken away", err, "/object", "/team")
	_, err = w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"team": "b"}}})
	step("a namespace itself", err, "/other")
	_, err = w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	step("nothing to do with namespaces", err, "/other", "/team")
}

// Configurations of admission are never subject to it.
func TestExempt(t *testing.T) {
	w := start(t)
	w.validating("v", nil, "/v")
	w.mutating("m", nil, "/m")
	w.validating("v2", nil, "/v")
	_, _, err := w.Delete(t.Context(), &server.Request{Kind: kinds.ValidatingWebhookConfigurations,
		GVK: kinds.ValidatingWebhookConfigurations.GVK, Name: "v"}, nil)
	w.must(nil, err)
	if calls, _ := w.asked(); len(calls) > 0 {
		t.Errorf("asked about %s of %s", calls[0].Operation, calls[0].Resource)
	}
}

// A rule for another version of the resource matches, if the policy says so, and is told in its version.
func TestEquivalent(t *testing.T) {
	w := start(t)
	w.validating("v", func(h *admissionregistrationv1.ValidatingWebhook) {
		h.Rules = []admissionregistrationv1.RuleWithOperations{rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			"events.k8s.io", "v1", "events")}
	}, "/v")
	exact := admissionregistrationv1.Exact
	w.validating("x", func(h *admissionregistrationv1.ValidatingWebhook) {
		h.MatchPolicy = &exact
		h.Rules = []admissionregistrationv1.RuleWithOperations{rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			"events.k8s.io", "v1", "events")}
	}, "/exact")
	w.must(w.create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"}, Reason: "r", Type: "Normal",
		InvolvedObject: corev1.ObjectReference{Namespace: "ns"}}))
	calls, paths := w.asked()
	if len(calls) != 1 || paths[0] != "/v" {
		t.Fatalf("asked %v", paths)
	}
	q := calls[0]
	if q.Resource.Group != "events.k8s.io" || q.RequestResource.Group != "" ||
		!strings.Contains(string(q.Object.Raw), `"apiVersion":"events.k8s.io/v1"`) {
		t.Errorf("asked for %v (%v): %s", q.Resource, q.RequestResource, q.Object.Raw)
	}
}

// A webhook that can't be asked blocks or not, as its policy says.
func TestFailures(t *testing.T) {
	w := start(t)
	ignore, seconds := admissionregistrationv1.Ignore, int32(1)
	for _, tt := range []struct {
		name, text string
		edit       func(h *admissionregistrationv1.ValidatingWebhook)
		serve      http.HandlerFunc
	}{
		{"refused", `failed to call webhook: Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1:`,
			func(h *admissionregistrationv1.ValidatingWebhook) {
				u := "https://127.0.0.1:1/x"
				h.ClientConfig.URL = &u
			}, nil},
		{"untrusted", "certificate", func(h *admissionregistrationv1.ValidatingWebhook) { h.ClientConfig.CABundle = nil }, nil},
		{"error", "an error on the server (\"boom\") has prevented the request from succeeding", nil,
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", 500) }},
		{"missing", "the server could not find the requested resource", nil, http.NotFound},
		{"garbage", "received invalid webhook response", nil, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{") }},
		{"empty", "webhook response was absent", nil,
			func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`)
			}},
		{"wrong uid", `expected response.uid=`, nil,
			func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","allowed":true}}`)
			}},
		{"slow", "context deadline exceeded", func(h *admissionregistrationv1.ValidatingWebhook) { h.TimeoutSeconds = &seconds },
			func(_ http.ResponseWriter, r *http.Request) { // a server sees its client leave only once it has read all
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}},
		{"service", `service "none" not found`, func(h *admissionregistrationv1.ValidatingWebhook) {
			h.ClientConfig.URL, h.ClientConfig.Service = nil, &admissionregistrationv1.ServiceReference{Namespace: "ns", Name: "none"}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := "/" + strings.ReplaceAll(tt.name, " ", "")
			w.play(path, tt.serve)
			w.blocked = nil
			edit := func(h *admissionregistrationv1.ValidatingWebhook) {
				if tt.edit != nil {
					tt.edit(h)
				}
			}
			w.validating("f", edit, path)
			_, err := w.create(configMap("a"))
			if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed calling webhook "`+path[1:]+`.example.com": `) ||
				!strings.Contains(err.Error(), tt.text) {
				t.Errorf("Fail: %v", err)
			}
			if len(w.blocked) != 1 || !strings.HasPrefix(w.blocked[0], "f "+path[1:]+".example.com failed calling") {
				t.Errorf("told of %q", w.blocked)
			}
			w.drop("f")
			w.validating("f", func(h *admissionregistrationv1.ValidatingWebhook) { edit(h); h.FailurePolicy = &ignore }, path)
			if _, err := w.create(configMap("a")); err != nil {
				t.Errorf("Ignore: %v", err)
			}
			w.drop("f")
			_, _, err = w.Delete(t.Context(), w.request(configMap("a")), nil)
			w.must(nil, err)
		})
	}
}

func (w *world) drop(name string) {
	w.t.Helper()
	_, _, err := w.Delete(w.t.Context(), &server.Request{Kind: kinds.ValidatingWebhookConfigurations,
		GVK: kinds.ValidatingWebhookConfigurations.GVK, Name: name}, nil)
	w.must(nil, err)
}

// Match conditions decide before the call.
func TestMatchConditions(t *testing.T) {
	w := start(t)
	w.validating("v", func(h *admissionregistrationv1.ValidatingWebhook) {
		h.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a",
			Expression: "request.operation != 'DELETE' && object.metadata.name != 'skip'"}}
	}, "/v")
	for name, want := range map[string]int{"skip": 0, "go": 1} {
		t.Run(name, func(t *testing.T) {
			w.must(w.create(configMap(name)))
			if calls, _ := w.asked(); len(calls) != want {
				t.Errorf("%s: %d calls", name, len(calls))
			}
		})
	}
	w.drop("v")
	w.validating("v", func(h *admissionregistrationv1.ValidatingWebhook) {
		h.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "object.data.missing == 'x'"}}
	}, "/v")
	if _, err := w.create(configMap("b")); !apierrors.IsForbidden(err) {
		t.Errorf("a condition that fails: %v", err)
	}
}
