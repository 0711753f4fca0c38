package webhook_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	admissionhooks "github.com/kloop-dev/kloop/admission/webhook"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
	"github.com/kloop-dev/kloop/webhook"
)

// A world is a server that asks webhooks, and one TLS server that plays all of them by their paths.
type world struct {
	*server.Server
	t     testing.TB
	set   *resource.Set
	view  *view.View
	tls   *httptest.Server
	ca    []byte
	warns []string
	chain admission.Chain

	mu      sync.Mutex
	answers map[string]func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
	raw     map[string]http.HandlerFunc
	calls   []*admissionv1.AdmissionRequest
	paths   []string
	blocked []string
}

func start(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, set: kinds.NewSet(), answers: map[string]func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse{},
		raw: map[string]http.HandlerFunc{}}
	w.tls = httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	w.tls.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	w.tls.StartTLS()
	t.Cleanup(w.tls.Close)
	w.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.tls.Certificate().Raw})
	caller := &webhook.Caller{Resolve: w.resolve}
	both := admissionhooks.New(admissionhooks.Config{Mutating: caller, Validating: caller,
		Blocked: func(_ resource.Kind, cfg resource.Object, name string, err error) {
			w.blocked = append(w.blocked, cfg.GetName()+" "+name+" "+err.Error())
		}})
	w.chain = admission.Chain{both.Mutating(), both.Validating()}
	c := testcluster.Start(t, func(c *testcluster.Config) { c.Kinds, c.Admission = w.set, w.chain })
	w.Server, w.view = c.Server, c.View
	w.must(w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "a"}}}))
	return w
}

func (w *world) resolve(ns, name string, port int32) ([]string, error) {
	return webhook.Endpoints(w.view.Snapshot(), ns, name, port)
}

// serve plays the webhooks.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	raw, answer := w.raw[r.URL.Path], w.answers[r.URL.Path]
	w.mu.Unlock()
	if raw != nil {
		raw(rw, r)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(rw, "not a review", http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	w.calls, w.paths = append(w.calls, review.Request), append(w.paths, r.URL.Path)
	w.mu.Unlock()
	resp := &admissionv1.AdmissionResponse{Allowed: true}
	if answer != nil {
		resp = answer(review.Request)
	}
	if resp.UID == "" {
		resp.UID = review.Request.UID
	}
	review.Request, review.Response = nil, resp
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(review)
}

// asked takes away what the webhooks were asked so far.
func (w *world) asked() (calls []*admissionv1.AdmissionRequest, paths []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls, paths, w.calls, w.paths = w.calls, w.paths, nil, nil
	return calls, paths
}

func (w *world) answer(path string, f func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[path] = f
}

// play makes the webhook at a path answer in any way; nil takes that back.
func (w *world) play(path string, f http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.raw[path] = f
}

func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) request(obj resource.Object) *server.Request {
	k, ok := w.set.Kind(obj.GetObjectKind().GroupVersionKind())
	if !ok {
		for _, k = range w.set.All() {
			if gvk := k.Info().GVK; sameType(k.New(gvk), obj) {
				obj.GetObjectKind().SetGroupVersionKind(gvk)
				break
			}
		}
	}
	return &server.Request{User: &auth.User{Name: "jane", Groups: []string{"devs"}}, Kind: k, GVK: obj.GetObjectKind().GroupVersionKind(),
		Namespace: obj.GetNamespace(), Name: obj.GetName(), Warn: func(text string) { w.warns = append(w.warns, text) }}
}

func sameType(a, b resource.Object) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

func (w *world) create(obj resource.Object) (resource.Object, error) {
	r := w.request(obj)
	r.Name = ""
	e, err := w.Create(w.t.Context(), r, obj)
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

func (w *world) client(path string) admissionregistrationv1.WebhookClientConfig {
	url := w.tls.URL + path
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: w.ca}
}

// rule matches operations on resources of a group version.
func rule(ops []admissionregistrationv1.OperationType, group, version string,
	resources ...string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{Operations: ops, Rule: admissionregistrationv1.Rule{APIGroups: []string{group},
		APIVersions: []string{version}, Resources: resources}}
}

func (w *world) mutating(name string, edit func(h *admissionregistrationv1.MutatingWebhook), paths ...string) {
	w.t.Helper()
	cfg := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, p := range paths {
		none := admissionregistrationv1.SideEffectClassNone
		h := admissionregistrationv1.MutatingWebhook{Name: p[1:] + ".example.com", ClientConfig: w.client(p), SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule([]admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}, "*", "*", "*/*")}}
		if edit != nil {
			edit(&h)
		}
		cfg.Webhooks = append(cfg.Webhooks, h)
	}
	w.must(w.create(cfg))
}

func (w *world) validating(name string, edit func(h *admissionregistrationv1.ValidatingWebhook), paths ...string) {
	w.t.Helper()
	cfg := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, p := range paths {
		none := admissionregistrationv1.SideEffectClassNone
		h := admissionregistrationv1.ValidatingWebhook{Name: p[1:] + ".example.com", ClientConfig: w.client(p), SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule([]admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}, "*", "*", "*/*")}}
		if edit != nil {
			edit(&h)
		}
		cfg.Webhooks = append(cfg.Webhooks, h)
	}
	w.must(w.create(cfg))
}

func patch(doc string) *admissionv1.AdmissionResponse {
	kind := admissionv1.PatchTypeJSONPatch
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(doc), PatchType: &kind}
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{}}
	for i := 0; i+1 < len(data); i += 2 {
		c.Data[data[i]] = data[i+1]
	}
	return c
}
