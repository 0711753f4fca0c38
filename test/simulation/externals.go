package simulation

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/controllers/horizontalpodautoscaler"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/webhook"
)

// Those outside a cluster that it leans on: a metrics server, webhooks, a provisioner of volumes. They fail as
// all else does.

// anybody may do anything.
type anybody struct{}

func (anybody) Authorize(context.Context, *auth.Attributes) (auth.Decision, string, error) {
	return auth.Allow, "", nil
}

// gauge answers the autoscaler's questions about pods: those that are ready share the load that the annotation of
// their autoscaler says, so that there is one size at which it is content.
type gauge struct{ w *world }

func (w *world) metrics() horizontalpodautoscaler.Source {
	base := &url.URL{Scheme: "http", Host: "metrics"}
	c, err := rest.NewRESTClient(base, "", rest.ClientContentConfig{ContentType: "application/json",
		GroupVersion: schema.GroupVersion{Version: "v1"}}, flowcontrol.NewFakeAlwaysRateLimiter(), &http.Client{Transport: gauge{w}})
	if err != nil {
		panic(err)
	}
	return horizontalpodautoscaler.REST(c)
}

// RoundTrip implements http.RoundTripper.
func (g gauge) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query().Get("labelSelector")
	f, err := g.w.steps.ask(req.Context(), g.w.powered, "horizontal-pod-autoscaler", "measure "+query, nil)
	switch {
	case err != nil:
		return nil, err
	case f == refuse:
		return nil, errors.New("the metrics server does not answer")
	}
	selector, err := labels.Parse(query)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(map[string]any{"items": g.measure(strings.Split(req.URL.Path, "/")[5], selector)})
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(data)), Request: req}, err
}

func (g gauge) measure(namespace string, selector labels.Selector) (items []any) {
	read := g.w.view.Snapshot()
	var list []*corev1.Pod
	for _, p := range resource.List(read, kinds.Pods, namespace) {
		if selector.Matches(labels.Set(p.Labels)) && active(p) && isReady(p) {
			list = append(list, p)
		}
	}
	for _, p := range list {
		h := resource.Get(read, kinds.HorizontalPodAutoscalers, namespace, p.Labels["app"])
		if h == nil {
			continue
		}
		of := loadOf(h) * workOfOne * 1000 / int64(len(list))
		items = append(items, map[string]any{"metadata": map[string]any{"name": p.Name},
			"timestamp": g.w.now().UTC().Format(time.RFC3339), "window": "15s",
			"containers": []any{map[string]any{"name": "c", "usage": map[string]string{"cpu": fmt.Sprintf("%du", of)}}}})
	}
	return items
}

func loadOf(h *autoscalingv2.HorizontalPodAutoscaler) int64 {
	n, _ := strconv.ParseInt(h.Annotations[loadKey], 10, 64)
	return n
}

// hookCert is the webhooks' certificate, and hookBundle whom to trust, as a configuration has it. TestMain makes them.
var (
	hookCert   tls.Certificate
	hookBundle string
)

func makeCert() {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	hookCert = s.TLS.Certificates[0]
	hookBundle = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// hooks is the server of the webhooks, on connections that stay in the process.
type hooks struct {
	w     *world
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (w *world) serveHooks() *hooks {
	h := &hooks{w: w, conns: make(chan net.Conn), done: make(chan struct{})}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	w.all.Go(func() {
		if err := s.Serve(tls.NewListener(h, &tls.Config{Certificates: []tls.Certificate{hookCert}})); !errors.Is(err, net.ErrClosed) &&
			!errors.Is(err, http.ErrServerClosed) {
			w.fail("the webhooks' server: %v", err)
		}
	})
	w.closers = append(w.closers, func() { _ = s.Close() }) // all that is open ends with it
	return h
}

// caller reaches the webhooks.
func (h *hooks) caller() *webhook.Caller {
	return &webhook.Caller{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case h.conns <- far:
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-h.done:
			return nil, net.ErrClosed
		}
	}}
}

// Accept implements net.Listener.
func (h *hooks) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *hooks) Close() error { h.once.Do(func() { close(h.done) }); return nil }

// Addr implements net.Listener.
func (h *hooks) Addr() net.Addr { return &net.UnixAddr{Name: "hooks"} }

// ServeHTTP answers a review when its step is let through.
func (h *hooks) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	q := review.Request
	if who := q.UserInfo.Username; who != "admin" {
		f, err := h.w.steps.ask(r.Context(), h.w.powered, who, "review "+r.URL.Path+" "+q.Name+" "+label("", kinds.ConfigMaps,
			nameless(q), ""), nil)
		if err != nil || f == refuse {
			http.Error(out, "the webhook does not feel well", http.StatusInternalServerError)
			return
		}
	}
	answer := &admissionv1.AdmissionResponse{UID: q.UID, Allowed: true}
	switch r.URL.Path {
	case "/mark":
		patch := `[{"op":"add","path":"/metadata/annotations/proof~1hooked","value":"yes"}]`
		if !bytes.Contains(q.Object.Raw, []byte(`"annotations":{`)) {
			patch = `[{"op":"add","path":"/metadata/annotations","value":{"proof/hooked":"yes"}}]`
		}
		answer.PatchType, answer.Patch = new(admissionv1.PatchTypeJSONPatch), []byte(patch)
	case "/check":
		var obj metav1.PartialObjectMetadata
		if err := json.Unmarshal(q.Object.Raw, &obj); err == nil && obj.Labels[forbiddenKey] != "" {
			answer.Allowed, answer.Result = false, &metav1.Status{Message: "forbidden"}
		}
	}
	h.w.mutation.review(answer)
	review.Request, review.Response = nil, answer
	_ = json.NewEncoder(out).Encode(review) // who hung up does not want it
}

// nameless stands for what is reviewed in the order of those that wait.
func nameless(q *admissionv1.AdmissionRequest) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, GenerateName: "x"},
		BinaryData: map[string][]byte{"x": q.Object.Raw}}
}

// disks is the CSI driver that provides volumes.
const disks = "disks.proof.dev"

// provisioner makes the volumes that claims wait for, and removes those that nobody has any more.
func provisioner() []loop.Loop {
	return []loop.Loop{
		&loop.Controller[*corev1.PersistentVolumeClaim]{Name: "provisioner", For: kinds.PersistentVolumeClaims,
			Writes: []resource.Kind{kinds.PersistentVolumes},
			Reconcile: func(ctx context.Context, c *loop.Ctx, pvc *corev1.PersistentVolumeClaim) (time.Duration, error) {
				if pvc.Annotations["volume.kubernetes.io/storage-provisioner"] != disks || pvc.Spec.VolumeName != "" || pvc.DeletionTimestamp != nil ||
					resource.Get(c, kinds.PersistentVolumes, "", "pvc-"+string(pvc.UID)) != nil {
					return 0, nil
				}
				_, err := c.Create(ctx, kinds.PersistentVolumes, provided(pvc))
				return 0, err
			}},
		&loop.Controller[*corev1.PersistentVolume]{Name: "disposer", For: kinds.PersistentVolumes,
			Writes: []resource.Kind{kinds.PersistentVolumes},
			Reconcile: func(ctx context.Context, c *loop.Ctx, pv *corev1.PersistentVolume) (time.Duration, error) {
				if pv.Status.Phase != corev1.VolumeReleased || pv.DeletionTimestamp != nil || pv.Spec.CSI == nil {
					return 0, nil
				}
				return 0, c.Delete(ctx, kinds.PersistentVolumes, pv)
			}},
		&loop.Controller[*storagev1.VolumeAttachment]{Name: "attacher", For: kinds.VolumeAttachments,
			Writes: []resource.Kind{kinds.VolumeAttachments},
			Reconcile: func(ctx context.Context, c *loop.Ctx, va *storagev1.VolumeAttachment) (time.Duration, error) {
				if va.Status.Attached || va.DeletionTimestamp != nil {
					return 0, nil
				}
				next := resource.Clone(va)
				next.Status.Attached = true
				return 0, c.UpdateStatus(ctx, kinds.VolumeAttachments, next)
			}},
	}
}

func provided(pvc *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(pvc.UID),
		Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": disks}}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: *pvc.Spec.StorageClassName, AccessModes: pvc.Spec.AccessModes, Capacity: pvc.Spec.Resources.Requests,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: pvc.Namespace,
			Name: pvc.Name, UID: pvc.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: disks,
			VolumeHandle: string(pvc.UID)}}}}
}
