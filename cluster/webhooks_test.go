package cluster_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
)

// labeller sets labels, each when the one before is there, and fields that custom resources don't know.
type labeller struct {
	mu    sync.Mutex
	calls map[string]int
}

func (l *labeller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	l.calls[review.Request.Kind.Kind+r.URL.Path]++
	l.mu.Unlock()
	kind := admissionv1.PatchTypeJSONPatch
	resp := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if obj := string(review.Request.Object.Raw); !strings.Contains(obj, `"stage":"2"`) {
		resp.PatchType, resp.Patch = &kind, []byte(`[{"op":"add","path":"/metadata/labels/stage","value":"1"}]`)
		switch {
		case strings.Contains(obj, `"stage":"1"`):
			resp.Patch = []byte(`[{"op":"add","path":"/metadata/labels/stage","value":"2"}]`)
		case review.Request.Kind.Kind == "Tab":
			resp.Patch = []byte(`[{"op":"add","path":"/metadata/labels/stage","value":"1"},{"op":"add","path":"/spec/unknown","value":1}]`)
		}
	}
	if r.URL.Path == "/deny" {
		resp = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "no " + review.Request.Kind.Kind}}
	}
	review.Request, review.Response = nil, resp
	_ = json.NewEncoder(w).Encode(review)
}

// Webhooks between all other plugins: what they change passes through the whole chain again, custom resources are pruned,
// and one that can't be asked is told of.
func TestWebhooks(t *testing.T) {
	l := &labeller{calls: map[string]int{}}
	hook := httptest.NewTLSServer(l)
	defer hook.Close()
	c := start(t, cluster.Config{NoLoops: true})
	cfg := config(t, c)
	cs := clientset(t, cfg)
	ctx := t.Context()
	none, again, scope := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.IfNeededReinvocationPolicy,
		admissionregistrationv1.NamespacedScope
	mutating := func(name, path string) admissionregistrationv1.MutatingWebhook {
		url := hook.URL + path
		return admissionregistrationv1.MutatingWebhook{Name: name, SideEffects: &none, ReinvocationPolicy: &again,
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ask": "yes"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"},
					Scope: &scope}}}}
	}
	_, err := cs.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "labels"}, Webhooks: []admissionregistrationv1.MutatingWebhook{mutating("a.example.com",
			"/a"), mutating("b.example.com", "/b")}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"ask": "yes"}
	if _, err := cs.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := cs.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Labels["stage"] != "2" || len(pod.Spec.Volumes) != 1 || len(pod.Spec.Tolerations) != 2 ||
		len(pod.Spec.Containers[0].VolumeMounts) != 1 {
		t.Errorf("%v %+v", pod.Labels, pod.Spec)
	}
	if l.calls["Pod/a"] != 2 || l.calls["Pod/b"] != 1 {
		t.Errorf("calls: %v", l.calls)
	}
	deny := mutating("deny.example.com", "/deny")
	_, err = cs.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx,
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "deny"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "deny.example.com",
				SideEffects:             &none,
				AdmissionReviewVersions: []string{"v1"}, ClientConfig: deny.ClientConfig,
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Connect},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/exec"}}}}}}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = cs.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("p").SubResource("exec").Param("command", "sh").
		Param("stdout", "true").Do(ctx).Error()
	if err == nil || !strings.Contains(err.Error(), `admission webhook "deny.example.com" denied the request: no PodExecOptions`) {
		t.Errorf("exec: %v", err)
	}
	customResource(t, cfgClient(t, c))
	blocked(t, c)
}

func cfgClient(t *testing.T, c *cluster.Cluster) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// customResource has fields set that its schema does not know.
func customResource(t *testing.T, client dynamic.Interface) {
	t.Helper()
	def := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(strings.ReplaceAll(tabsText, "%q", `""`), "%s", `""`)), &def.Object); err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(def.Object, "spec", "conversion")
	defs := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := defs.Create(t.Context(), def, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	obj := tab("v1", "t", map[string]any{})
	obj.SetLabels(map[string]string{"ask": "yes"})
	var got *unstructured.Unstructured
	eventually(t, "the kind is served", func(ctx context.Context) (bool, error) {
		var err error
		got, err = client.Resource(schema.GroupVersionResource{Group: "conv.example", Version: "v1",
			Resource: "tabs"}).Namespace("default").Create(ctx, obj, metav1.CreateOptions{})
		return err == nil, ignoreNotFound(err)
	})
	spec, _ := got.Object["spec"].(map[string]any)
	if got.GetLabels()["stage"] != "2" || len(spec) != 1 || spec["size"] != "1x1" {
		t.Errorf("%v", got.Object)
	}
}

// blocked requests name the webhook, and so does an event about its configuration.
func blocked(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	cs, ctx := clientset(t, config(t, c)), t.Context()
	url, none := "https://127.0.0.1:1/", admissionregistrationv1.SideEffectClassNone
	_, err := cs.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx,
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "lost.example.com",
				SideEffects:             &none,
				AdmissionReviewVersions: []string{"v1"}, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = cs.CoreV1().ConfigMaps("default").Create(ctx, configMap("c"), metav1.CreateOptions{})
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(),
		`failed calling webhook "lost.example.com": failed to call webhook: Post "https://127.0.0.1:1/?timeout=10s": dial tcp`) {
		t.Errorf("%v", err)
	}
	eventually(t, "an event tells of the webhook", func(ctx context.Context) (bool, error) {
		list, err := cs.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, e := range list.Items {
			if e.Reason == "WebhookUnavailable" && e.InvolvedObject.Kind == "ValidatingWebhookConfiguration" && e.InvolvedObject.Name == "lost" &&
				strings.Contains(e.Message, "lost.example.com") {
				return true, nil
			}
		}
		return false, nil
	})
	if err := cs.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "lost", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err = cs.CoreV1().ConfigMaps("default").Create(ctx, configMap("c"), metav1.CreateOptions{}); err != nil {
		t.Errorf("without the webhook: %v", err)
	}
}
