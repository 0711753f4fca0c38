package cluster_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/sim"
)

// TestAutoscaler scales a Deployment up by the CPU that its pods use, as the metrics API tells, and stops at the
// autoscaler's bound.
func TestAutoscaler(t *testing.T) {
	c := start(t, cluster.Config{SimNodes: 2, AutoscalerPeriod: time.Second})
	cs := clientset(t, config(t, c))
	ns := namespace(t, cs)
	d := deployment("busy", 1)
	d.Spec.Template.Annotations = map[string]string{sim.CPU: "200m", sim.Memory: "32Mi"}
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": apiresource.MustParse("100m")}
	if _, err := cs.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	half := int32(50)
	_, err := cs.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "busy"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "busy"},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu",
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &half}}}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "three pods", func(ctx context.Context) (bool, error) {
		d, err := cs.AppsV1().Deployments(ns).Get(ctx, "busy", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 3, err
	})
	eventually(t, "the autoscaler's status", func(ctx context.Context) (bool, error) {
		h, err := cs.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(ctx, "busy", metav1.GetOptions{})
		if err != nil || len(h.Status.CurrentMetrics) == 0 || h.Status.CurrentReplicas != 3 {
			return false, err
		}
		r := h.Status.CurrentMetrics[0].Resource
		if r == nil { // the metrics could not be had yet
			return false, nil
		}
		m := r.Current
		return m.AverageUtilization != nil && *m.AverageUtilization == 200 && m.AverageValue.MilliValue() == 200, nil
	})
	raw, err := cs.RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/" + ns + "/pods").DoRaw(t.Context())
	var list metricsv1beta1.PodMetricsList
	if err != nil || json.Unmarshal(raw, &list) != nil || len(list.Items) != 3 ||
		list.Items[0].Containers[0].Usage.Memory().Value() != 32<<20 {
		t.Errorf("pods' metrics: %s, %v", raw, err)
	}
}

// TestMetricsOfAnother installs somebody else's metrics API: it answers from then on, also when it does not.
func TestMetricsOfAnother(t *testing.T) {
	c := start(t, cluster.Config{SimNodes: 1})
	cs := clientset(t, config(t, c))
	ask := func() error {
		return cs.RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").MaxRetries(0).Do(t.Context()).Error()
	}
	if err := ask(); err != nil {
		t.Fatalf("our own: %v", err)
	}
	err := cs.RESTClient().Post().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").Body(
		[]byte(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService",
		"metadata":{"name":"v1beta1.metrics.k8s.io"},"spec":{"group":"metrics.k8s.io","version":"v1beta1","groupPriorityMinimum":100,
		  "versionPriority":100,
		"insecureSkipTLSVerify":true,"service":{"namespace":"kube-system","name":"metrics-server"}}}`)).Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("asked of a metrics-server that is not there: %v", err)
	}
}

// TestAutoscaledCustomResource scales an object of a custom kind by its scale: somebody else's controller has its pods.
func TestAutoscaledCustomResource(t *testing.T) {
	c := start(t, cluster.Config{SimNodes: 1, AutoscalerPeriod: time.Second})
	cs := clientset(t, config(t, c))
	ns := namespace(t, cs)
	post := func(path, body string) {
		t.Helper()
		eventually(t, "made "+path, func(ctx context.Context) (bool, error) {
			err := cs.RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error()
			return err == nil || apierrors.IsAlreadyExists(err), nil
		})
	}
	post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1",
		"kind":"CustomResourceDefinition","metadata":{"name":"groups.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"groups","singular":"group","kind":"Group"},"versions":[{"name":"v1","served":true,"storage":true,
		"subresources":{"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size","labelSelectorPath":".status.pods"}},
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	things := "/apis/example.com/v1/namespaces/" + ns + "/groups"
	post(things, `{"apiVersion":"example.com/v1","kind":"Group","metadata":{"name":"g"},"spec":{"size":1},"status":{"size":1,"pods":"of=g"}}`)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"of": "g"},
		Annotations: map[string]string{sim.CPU: "300m"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := cs.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	each := apiresource.MustParse("100m")
	_, err := cs.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 5,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1", Kind: "Group", Name: "g"},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu",
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &each}}}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a size of three", func(ctx context.Context) (bool, error) {
		raw, err := cs.RESTClient().Get().AbsPath(things + "/g").DoRaw(ctx)
		var g struct{ Spec struct{ Size int } }
		return err == nil && json.Unmarshal(raw, &g) == nil && g.Spec.Size == 3, err
	})
}
