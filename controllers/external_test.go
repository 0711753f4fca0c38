package controllers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// metrics is a client of the metrics APIs that need no connection.
func (c *cluster) metrics() rest.Interface {
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: "http://metrics", Transport: c,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// RoundTrip implements http.RoundTripper: the metric "queue" of the namespace, in two parts.
func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if serve := c.adapter.Load(); serve != nil {
		(*serve)(w, r)
		return w.Result(), nil
	}
	n := c.queue.Load()
	if n < 0 || r.URL.Path != "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue" {
		http.NotFound(w, r)
		return w.Result(), nil
	}
	part := `{"metricName":"queue","metricLabels":{"shard":"%d"},"timestamp":"2026-01-01T00:00:00Z","value":"%d"}`
	fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[`+part+","+part+`]}`,
		0, n/2, 1, n-n/2)
	return w.Result(), nil
}

// An autoscaler goes by a metric of nothing in the cluster: up to its bound, and down again.
func TestAutoscalerByExternalMetric(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		c.queue.Store(100)
		make1(c, kinds.Deployments, deployed(1, nil))
		target := apiresource.MustParse("50")
		make1(c, kinds.HorizontalPodAutoscalers, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta("h"),
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(1)), MaxReplicas: 3,
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"},
				Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
					ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32)}},
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
					External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &target}}}}}})
		for _, step := range []struct {
			queue int64
			pods  int
		}{{100, 3}, {0, 1}, {150, 3}} {
			c.queue.Store(step.queue)
			c.until(fmt.Sprintf("%d pods for a queue of %d", step.pods, step.queue), func(r resource.Reader) bool {
				h := resource.Get(r, kinds.HorizontalPodAutoscalers, "default", "h").Status
				return ready(r, "app", "d") == step.pods && int(h.CurrentReplicas) == step.pods && len(h.CurrentMetrics) == 1 &&
					h.CurrentMetrics[0].External != nil && h.CurrentMetrics[0].External.Current.Value.Value() == step.queue
			})
		}
	})
}
