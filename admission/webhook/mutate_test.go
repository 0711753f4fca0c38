package webhook_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func says(doc string) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return patch(doc) }
}

// A patch is applied, defaulted, checked and owned by nobody.
func TestPatch(t *testing.T) {
	w := start(t)
	w.mutating("m", func(h *admissionregistrationv1.MutatingWebhook) {
		h.Rules = []admissionregistrationv1.RuleWithOperations{rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Create,
			admissionregistrationv1.Update}, "*", "*", "configmaps", "services", "deployments/scale")}
	}, "/m")
	w.answer("/m", says(`[{"op":"add","path":"/data/added","value":"x"}]`))
	obj, err := w.create(configMap("a", "k", "v"))
	w.must(nil, err)
	if c := obj.(*corev1.ConfigMap); c.Data["added"] != "x" || c.Data["k"] != "v" {
		t.Errorf("%v", c.Data)
	}
	for _, f := range obj.GetManagedFields() {
		if strings.Contains(string(f.FieldsV1.Raw), "added") {
			t.Errorf("%s owns what the webhook set", f.Manager)
		}
	}
	w.answer("/m", says(`[{"op":"add","path":"/spec/ports/0/port","value":80},{"op":"add","path":"/spec/type","value":"NodePort"}]`))
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"},
		Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Name: "p"}}}}
	if _, err := w.create(svc); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid outcome: %v", err)
	}
	for doc, text := range map[string]string{
		`[{"op":"replace","path":"/metadata/namespace","value":"other"}]`: "does not match the namespace",
		`[{"op":"test","path":"/data/k","value":"no"}]`:                   "",
		`{}`: "",
		`[{"op":"add","path":"/data","value":[1]}]`: "",
	} {
		t.Run(doc, func(t *testing.T) {
			w.answer("/m", says(doc))
			if _, err := w.create(configMap("b", "k", "v")); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", doc, err)
			}
		})
	}
	w.answer("/m", says(`[{"op":"replace","path":"/metadata/name","value":"renamed"}]`))
	if _, _, err := w.Update(t.Context(), w.request(configMap("a")), configMap("a", "new", "v")); err == nil {
		t.Error("an update renamed its object")
	}
}

// A scale may be changed, a deletion has nothing to change.
func TestPatchOfOthers(t *testing.T) {
	w := start(t)
	w.must(w.create(deployment()))
	w.must(w.create(configMap("a")))
	w.mutating("m", nil, "/m")
	w.answer("/m", says(`[{"op":"replace","path":"/spec/replicas","value":7}]`))
	r := w.request(deployment())
	r.Sub = "scale"
	e, _, err := w.Update(t.Context(), r, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"},
		Spec: autoscalingv1.ScaleSpec{Replicas: 2}})
	w.must(nil, err)
	if n := e.Object.(*autoscalingv1.Scale).Spec.Replicas; n != 7 {
		t.Errorf("scaled to %d", n)
	}
	_, _, err = w.Delete(t.Context(), w.request(configMap("a")), nil)
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "attempted to modify the object") {
		t.Errorf("delete: %v", err)
	}
	w.answer("/m", says(`[{"op":"replace","path":"/command/0","value":"bash"}]`))
	r = w.request(pod())
	r.Sub = "exec"
	opts := &corev1.PodExecOptions{Command: []string{"sh"}}
	w.must(nil, w.Connect(t.Context(), r, opts))
	if opts.Command[0] != "bash" {
		t.Errorf("runs %v", opts.Command)
	}
}

// Webhooks that wish so see what others made of their object; the rest are asked once.
func TestReinvocation(t *testing.T) {
	w := start(t)
	again := admissionregistrationv1.IfNeededReinvocationPolicy
	w.mutating("a", func(h *admissionregistrationv1.MutatingWebhook) { h.ReinvocationPolicy = &again }, "/first")
	w.mutating("b", nil, "/second")
	w.mutating("c", func(h *admissionregistrationv1.MutatingWebhook) { h.ReinvocationPolicy = &again }, "/third")
	add := func(q *admissionv1.AdmissionRequest, key string) *admissionv1.AdmissionResponse {
		if strings.Contains(string(q.Object.Raw), `"`+key+`"`) {
			return &admissionv1.AdmissionResponse{Allowed: true}
		}
		return patch(`[{"op":"add","path":"/data/` + key + `","value":"x"}]`)
	}
	w.answer("/second", func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return add(q, "second") })
	w.must(w.create(configMap("a", "k", "v")))
	if _, paths := w.asked(); !slices.Equal(paths, []string{"/first", "/second", "/third", "/first"}) {
		t.Errorf("asked %v", paths)
	}
	w.answer("/second", nil)
	w.must(w.create(configMap("b", "k", "v")))
	if _, paths := w.asked(); !slices.Equal(paths, []string{"/first", "/second", "/third"}) {
		t.Errorf("nothing changed: asked %v", paths)
	}
	w.answer("/third", func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return add(q, "third") })
	w.must(w.create(configMap("c", "k", "v")))
	if _, paths := w.asked(); !slices.Equal(paths, []string{"/first", "/second", "/third", "/first"}) {
		t.Errorf("the last one changed: asked %v", paths)
	}
}

// Answers that break the rules of mutating webhooks.
func TestBadPatches(t *testing.T) {
	w := start(t)
	w.mutating("m", nil, "/m")
	kind, odd := admissionv1.PatchTypeJSONPatch, admissionv1.PatchType("Odd")
	for text, a := range map[string]*admissionv1.AdmissionResponse{
		"response.patch but not response.patchType": {Allowed: true, Patch: []byte("[]")},
		"response.patchType but not response.patch": {Allowed: true, PatchType: &kind},
		`unsupported patch type "Odd"`:              {Allowed: true, PatchType: &odd, Patch: []byte(`[{"op":"remove","path":"/data"}]`)},
	} {
		t.Run(text, func(t *testing.T) {
			w.answer("/m", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return a.DeepCopy() })
			if _, err := w.create(configMap("a", "k", "v")); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("want %s: %v", text, err)
			}
		})
	}
}

// A webhook may give an object back in another version, but not as something else.
func TestPatchedType(t *testing.T) {
	w := start(t)
	hook := func(h *admissionregistrationv1.MutatingWebhook) {
		h.Rules = []admissionregistrationv1.RuleWithOperations{rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			"*", "*", "configmaps", "horizontalpodautoscalers")}
	}
	w.mutating("m", hook, "/m")
	for doc, text := range map[string]string{
		`[{"op":"replace","path":"/kind","value":"Secret"}]`:             `no kind "Secret" is registered for version "v1"`,
		`[{"op":"replace","path":"/apiVersion","value":"v7"}]`:           `no kind "ConfigMap" is registered for version "v7"`,
		`[{"op":"replace","path":"/apiVersion","value":"a.example/v1"}]`: `no kind "ConfigMap" is registered for version "a.example/v1"`,
		`[{"op":"replace","path":"/kind","value":5}]`:                    "cannot unmarshal",
	} {
		t.Run(doc, func(t *testing.T) {
			w.answer("/m", says(doc))
			if _, err := w.create(configMap("a")); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", doc, err)
			}
		})
	}
	w.answer("/m", says(`[{"op":"remove","path":"/kind"},{"op":"remove","path":"/apiVersion"},{"op":"add","path":"/data","value":{"k":"v"}}]`))
	obj, err := w.create(configMap("a"))
	w.must(nil, err)
	if c := obj.(*corev1.ConfigMap); c.Data["k"] != "v" || c.Kind != "ConfigMap" {
		t.Errorf("without its type: %v", c)
	}
	w.answer("/m", says(
		`[{"op":"replace","path":"/apiVersion","value":"autoscaling/v1"},{"op":"add","path":"/spec/targetCPUUtilizationPercentage","value":50}]`))
	obj, err = w.create(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"}}})
	w.must(nil, err)
	if h := obj.(*autoscalingv2.HorizontalPodAutoscaler); len(h.Spec.Metrics) != 1 ||
		*h.Spec.Metrics[0].Resource.Target.AverageUtilization != 50 {
		t.Errorf("in another version: %v", h.Spec)
	}
}

// The old version of the review has fewer rules.
func TestV1beta1(t *testing.T) {
	w := start(t)
	w.mutating("m", func(h *admissionregistrationv1.MutatingWebhook) {
		h.AdmissionReviewVersions = []string{"v0", "v1beta1", "v1"}
	}, "/m")
	w.play("/m", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json") // W3sib3A...: the patch, in base64
		_, _ = rw.Write([]byte(`{"response":{"allowed":true,"patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL2RhdGEvYSIsInZhbHVlIjoiYiJ9XQ=="}}`))
	})
	obj, err := w.create(configMap("a", "k", "v"))
	w.must(nil, err)
	if obj.(*corev1.ConfigMap).Data["a"] != "b" {
		t.Errorf("%v", obj)
	}
}

// A webhook that changes the kind of update leaves status to its own path.
func TestStatusStays(t *testing.T) {
	w := start(t)
	w.mutating("m", nil, "/m")
	w.answer("/m", says(`[{"op":"add","path":"/status","value":{"replicas":9}},{"op":"replace","path":"/spec/replicas","value":4}]`))
	obj, err := w.create(deployment())
	w.must(nil, err)
	if d := obj.(*appsv1.Deployment); d.Status.Replicas != 0 || *d.Spec.Replicas != 4 {
		t.Errorf("%+v", d)
	}
}

// Webhooks may not make a mess of who owns what.
func TestOwners(t *testing.T) {
	w := start(t)
	w.mutating("m", nil, "/m")
	w.answer("/m", says(`[{"op":"replace","path":"/metadata/managedFields/0/fieldsType","value":"Odd"}]`))
	obj, err := w.create(configMap("a", "k", "v"))
	w.must(nil, err)
	if f := obj.GetManagedFields(); len(f) != 1 || f[0].FieldsType != "FieldsV1" || len(w.warns) == 0 ||
		!strings.Contains(w.warns[0], "invalid state after admission") {
		t.Errorf("%+v, warnings %v", f, w.warns)
	}
}
