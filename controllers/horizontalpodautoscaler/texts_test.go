package horizontalpodautoscaler

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Where nobody serves metrics, conditions and events say so in the words of a kube-controller-manager 1.36.3.
func TestTextsWithoutMetrics(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
	if err != nil {
		t.Fatal(err)
	}
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}}
	q := question{a: &autoscaler{source: REST(client)}, h: h, sel: labels.Everything()}
	one := apiresource.MustParse("1")
	m := autoscalingv2.MetricIdentifier{Name: "m"}
	some := autoscalingv2.MetricIdentifier{Name: "m", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
	const fetch, none = "unable to fetch metrics from ", " metrics API: the server could not find the requested resource "
	const external = ": " + fetch + "external" + none + "(get m.external.metrics.k8s.io)"
	const selected = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
	half := autoscalingv2.MetricTarget{AverageUtilization: new(int32(50))}
	whole, mean := autoscalingv2.MetricTarget{Value: &one}, autoscalingv2.MetricTarget{AverageValue: &one}
	for _, test := range []struct {
		name                string
		spec                autoscalingv2.MetricSpec
		reason, text, asked string
	}{
		{"resource",
			autoscalingv2.MetricSpec{Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: half}}, "FailedGetResourceMetric",
			"failed to get cpu utilization: unable to get metrics for resource cpu: " + fetch + "resource" + none + "(get pods.metrics.k8s.io)",
			"cpu resource metric value"},
		{"external",
			autoscalingv2.MetricSpec{External: &autoscalingv2.ExternalMetricSource{Metric: m, Target: whole}}, "FailedGetExternalMetric",
			"unable to get external metric ns/m/nil" + external, "m external metric value: failed to get external metric m"},
		{"external with a selector",
			autoscalingv2.MetricSpec{External: &autoscalingv2.ExternalMetricSource{Metric: some, Target: mean}}, "FailedGetExternalMetric",
			"unable to get external metric ns/m/" + selected + external, "m external metric value: failed to get m external metric"},
		{"pods", autoscalingv2.MetricSpec{Pods: &autoscalingv2.PodsMetricSource{Metric: m, Target: mean}}, "FailedGetPodsMetric",
			"unable to get metric m: " + fetch + "custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
			"pods metric value"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, reason, err := q.ask(t.Context(), test.spec)
			if err == nil || err.Error() != test.text || reason != test.reason || asked(test.spec) != test.asked {
				t.Errorf("%s: %v\n asked for %s", reason, err, asked(test.spec))
			}
		})
	}
	if got := externally(some); got != "external metric m("+selected+")" {
		t.Errorf("named %q", got)
	}
}

// TestAdapters: what an adapter of metrics says of a metric that it does not have, and that it can't be reached, is worded as by a
// kube-controller-manager; one that serves an older version alone is asked in that.
func TestAdapters(t *testing.T) {
	const unknown = "the server could not find the metric m for pods"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/*/m":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"`+unknown+`"}`)
		case "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ns/pods/*/old":
			_, _ = io.WriteString(w, `{"items":[{"describedObject":{"name":"p"},"metricName":"old","value":"3","window":90}]}`)
		case "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/services/web/none":
			_, _ = io.WriteString(w, `{"items":[]}`)
		case "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods":
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
	if err != nil {
		t.Fatal(err)
	}
	source := REST(client)
	if _, err := source.Pods(t.Context(), autoscalingv2.MetricIdentifier{Name: "m"}, "ns", labels.Everything()); err == nil ||
		err.Error() != "unable to fetch metrics from custom metrics API: "+unknown {
		t.Error("a metric that is not known:", err)
	}
	got, err := source.Pods(t.Context(), autoscalingv2.MetricIdentifier{Name: "old"}, "ns", labels.Everything())
	if err != nil || got["p"].value != 3000 || got["p"].window != 90*time.Second {
		t.Errorf("an older adapter: %v, %v", got, err)
	}
	if _, err := source.Object(t.Context(), autoscalingv2.MetricIdentifier{Name: "none"}, "ns", "services", "web"); err == nil ||
		err.Error() != "unable to fetch metrics from custom metrics API: the custom metrics API server returned 0 results when we asked "+
			"for exactly one" {
		t.Error("an object without the metric:", err)
	}
	if _, err := source.Resource(t.Context(), "cpu", "ns", labels.Everything(), ""); err == nil || err.Error() !=
		"unable to fetch metrics from resource metrics API: the server is currently unable to handle the request (get pods.metrics.k8s.io)" {
		t.Error("a metrics server that is down:", err)
	}
}
