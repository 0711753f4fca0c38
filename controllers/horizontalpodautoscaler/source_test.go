package horizontalpodautoscaler

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// serve returns a source whose metrics a function answers for.
func serve(t *testing.T, answer http.HandlerFunc) Source {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
	if err != nil {
		t.Fatal(err)
	}
	return REST(client)
}

// TestContainerThatIsNotThere: of a container that one of the pods does not have, nothing can be told; a container whose use is not known
// yet is another thing.
func TestContainerThatIsNotThere(t *testing.T) {
	source := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"metadata":{"namespace":"ns","name":"a"},"containers":[{"name":"c","usage":{"cpu":"1"}}]},
			{"metadata":{"namespace":"ns","name":"b"},"containers":[{"name":"c","usage":{}},{"name":"d","usage":{"cpu":"1"}}]}]}`)
	})
	if got, err := source.Resource(t.Context(), "cpu", "ns", labels.Everything(), "c"); err != nil || len(got) != 1 || got["a"].value != 1000 {
		t.Errorf("of c: %v, %v", got, err)
	}
	_, err := source.Resource(t.Context(), "cpu", "ns", labels.Everything(), "d")
	if err == nil || err.Error() != "failed to get container metrics: container d not present in metrics for pod ns/a" {
		t.Errorf("of d: %v", err)
	}
}

// TestSelectorsOfMetrics: an empty selector is as good as none, and a metric whose selector can't be is not asked for.
func TestSelectorsOfMetrics(t *testing.T) {
	var asked []string
	source := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		_, _ = io.WriteString(w, `{"items":[{"value":"3"}]}`)
	})
	q := question{a: &autoscaler{source: source}, h: &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}},
		sel: labels.Everything()}
	one := apiresource.MustParse("1")
	ask := func(s *metav1.LabelSelector) error {
		_, _, err := q.ask(t.Context(), autoscalingv2.MetricSpec{External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "m", Selector: s}, Target: autoscalingv2.MetricTarget{AverageValue: &one}}})
		return err
	}
	for _, s := range []*metav1.LabelSelector{nil, {}, {MatchLabels: map[string]string{"a": "b"}}} {
		if err := ask(s); err != nil {
			t.Error(s, err)
		}
	}
	if len(asked) != 3 || asked[0] != "" || asked[1] != "" || asked[2] != "labelSelector=a%3Db" {
		t.Errorf("asked %q", asked)
	}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	if err := ask(bad); err == nil || err.Error() != `"Near" is not a valid label selector operator` || len(asked) != 3 {
		t.Errorf("a bad one: %v, asked %q", err, asked)
	}
}

// TestHugeMetrics: sums of what external metrics tell stay the largest number, and never become negative.
func TestHugeMetrics(t *testing.T) {
	source := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"value":"9e15"},{"value":"9e15"}]}`)
	})
	if sum, err := source.External(t.Context(), autoscalingv2.MetricIdentifier{Name: "m"}, "ns"); err != nil || sum != math.MaxInt64 {
		t.Errorf("%d, %v", sum, err)
	}
	for _, c := range [][3]int64{{7, 2, 4}, {6, 2, 3}, {-7, 2, -3}, {0, 3, 0}, {math.MaxInt64, 2, math.MaxInt64/2 + 1}} {
		if got := ceilDiv(c[0], c[1]); got != c[2] {
			t.Errorf("%d / %d: %d", c[0], c[1], got)
		}
	}
}
