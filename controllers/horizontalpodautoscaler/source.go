package horizontalpodautoscaler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// A Source reads metrics, from whoever serves the three metrics APIs. It is safe for concurrent use.
type Source interface {
	// Resource returns what the containers of pods use of CPU or memory, by pod; container "" means all of them.
	Resource(ctx context.Context, name corev1.ResourceName, ns string, pods labels.Selector, container string) (readings, error)
	// Pods returns a custom metric of each pod.
	Pods(ctx context.Context, metric autoscalingv2.MetricIdentifier, ns string, pods labels.Selector) (readings, error)
	// Object returns a custom metric of one object, in thousandths.
	Object(ctx context.Context, metric autoscalingv2.MetricIdentifier, ns string, resource, name string) (int64, error)
	// External returns the sum of a metric that belongs to no object, in thousandths.
	External(ctx context.Context, metric autoscalingv2.MetricIdentifier, ns string) (int64, error)
}

// A reading is one pod's value in thousandths: the mean over a window that ended at a time.
type reading struct {
	value  int64
	at     time.Time
	window time.Duration
}

// readings are by the pods' names.
type readings map[string]reading

var errNone = errors.New("no metrics are served in this cluster")

// nowhere has no metrics.
type nowhere struct{}

func (nowhere) Resource(context.Context, corev1.ResourceName, string, labels.Selector, string) (readings, error) {
	return nil, errNone
}

func (nowhere) Pods(context.Context, autoscalingv2.MetricIdentifier, string, labels.Selector) (readings, error) {
	return nil, errNone
}

func (nowhere) Object(context.Context, autoscalingv2.MetricIdentifier, string, string, string) (int64, error) {
	return 0, errNone
}

func (nowhere) External(context.Context, autoscalingv2.MetricIdentifier, string) (int64, error) {
	return 0, errNone
}

// REST returns a source that asks the API server: metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io.
func REST(c rest.Interface) Source { return wire{c} }

type wire struct{ client rest.Interface }

const (
	resourceAPI = "/apis/metrics.k8s.io/v1beta1"
	customAPI   = "/apis/custom.metrics.k8s.io/"
	externalAPI = "/apis/external.metrics.k8s.io/v1beta1"
	// askFor bounds a question about metrics.
	askFor = 20 * time.Second
)

// customVersions are served by adapters of custom metrics, the newest first. What is read of them is the same.
var customVersions = []string{"v1beta2", "v1beta1"}

// errUnserved says that nobody serves a path: an adapter that does says in a Status which metric it does not have.
var errUnserved = errors.New("the server could not find the requested resource")

// get reads a JSON answer. What is asked for stands in errors that the server does not put in words of its own, as client-go's have it:
// pods.metrics.k8s.io.
func (w wire) get(ctx context.Context, into any, what, path string, query map[string]string) error {
	ctx, stop := context.WithTimeout(ctx, askFor)
	defer stop()
	r := w.client.Get().AbsPath(path).SetHeader("Accept", "application/json").MaxRetries(0)
	for k, v := range query {
		if v != "" {
			r.Param(k, v)
		}
	}
	data, err := r.DoRaw(ctx)
	if err != nil {
		return worded(data, err, what)
	}
	if spoiled := resource.SpoilQuantities(data); spoiled != nil {
		if err := json.Unmarshal(spoiled, into); err != nil {
			return err
		}
	}
	return json.Unmarshal(data, into)
}

// worded is the error of an answer: in the server's words if it has any.
func worded(data []byte, err error, what string) error {
	var generic apierrors.APIStatus
	switch said := client.Refusal(data, err); {
	case said != err:
		return said
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w (get %s)", errUnserved, what)
	case errors.As(err, &generic):
		return fmt.Errorf("%w (get %s)", err, what)
	}
	return err
}

// The types below hold what is read of the metrics APIs' answers.

type podUse struct {
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Timestamp  metav1.Time       `json:"timestamp"`
	Window     metav1.Duration   `json:"window"`
	Containers []struct {
		Name  string              `json:"name"`
		Usage corev1.ResourceList `json:"usage"`
	} `json:"containers"`
}

type customValue struct {
	DescribedObject corev1.ObjectReference `json:"describedObject"`
	Timestamp       metav1.Time            `json:"timestamp"`
	WindowSeconds   *int64                 `json:"windowSeconds"`
	Window          *int64                 `json:"window"` // in v1beta1
	Value           apiresource.Quantity   `json:"value"`
}

// Resource implements Source.
func (w wire) Resource(ctx context.Context, name corev1.ResourceName, ns string, pods labels.Selector, container string) (readings, error) {
	var list struct {
		Items []podUse `json:"items"`
	}
	query := map[string]string{"labelSelector": pods.String()}
	if err := w.get(ctx, &list, "pods.metrics.k8s.io", resourceAPI+"/namespaces/"+ns+"/pods", query); err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	out := readings{}
	for _, p := range list.Items {
		if container != "" && !p.has(container) {
			return nil, fmt.Errorf("failed to get container metrics: container %s not present in metrics for pod %s/%s", container,
				p.Metadata.Namespace, p.Metadata.Name)
		}
		if v, ok := p.sum(name, container); ok {
			out[p.Metadata.Name] = reading{v, p.Timestamp.Time, p.Window.Duration}
		}
	}
	return out, nil
}

func (p podUse) has(container string) bool {
	for _, c := range p.Containers {
		if c.Name == container {
			return true
		}
	}
	return false
}

// sum adds up what the containers use. A pod whose wanted container, or any of all, is not known has no value.
func (p podUse) sum(name corev1.ResourceName, container string) (total int64, ok bool) {
	for _, c := range p.Containers {
		if container != "" && c.Name != container {
			continue
		}
		use, known := c.Usage[name]
		if !known {
			return 0, false
		}
		total, ok = total+use.MilliValue(), true
	}
	return total, ok
}

// Pods implements Source.
func (w wire) Pods(ctx context.Context, m autoscalingv2.MetricIdentifier, ns string, pods labels.Selector) (readings, error) {
	list, err := w.custom(ctx, "pods", "*", "/namespaces/"+ns+"/pods/*/"+m.Name, m, pods.String())
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("no metrics returned from custom metrics API")
	}
	out := readings{}
	for _, v := range list {
		window := time.Minute
		if seconds := cmp.Or(v.WindowSeconds, v.Window); seconds != nil {
			window = time.Duration(*seconds) * time.Second
		}
		out[v.DescribedObject.Name] = reading{v.Value.MilliValue(), v.Timestamp.Time, window}
	}
	return out, nil
}

// Object implements Source.
func (w wire) Object(ctx context.Context, m autoscalingv2.MetricIdentifier, ns, resource, name string) (int64, error) {
	path := "/namespaces/" + ns + "/" + resource + "/" + name + "/" + m.Name
	if resource == "namespaces" {
		path = "/namespaces/" + name + "/metrics/" + m.Name
	}
	list, err := w.custom(ctx, resource, name, path, m, "")
	if err != nil {
		return 0, err
	}
	if len(list) != 1 {
		return 0, fmt.Errorf("unable to fetch metrics from custom metrics API: the custom metrics API server returned %d results "+
			"when we asked for exactly one", len(list))
	}
	return list[0].Value.MilliValue(), nil
}

// custom reads a custom metric of an object, or of those of a kind, in the newest version that is served.
func (w wire) custom(ctx context.Context, resource, name, path string, m autoscalingv2.MetricIdentifier, pods string) (
	[]customValue, error,
) {
	var list struct {
		Items []customValue `json:"items"`
	}
	query := map[string]string{"labelSelector": pods, "metricLabelSelector": selector(m)}
	what := resource + ".custom.metrics.k8s.io " + name
	err := errUnserved
	for _, v := range customVersions {
		if err = w.get(ctx, &list, what, customAPI+v+path, query); !errors.Is(err, errUnserved) {
			break
		}
	}
	if errors.Is(err, errUnserved) {
		err = errors.New("no custom metrics API (custom.metrics.k8s.io) registered")
	}
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	return list.Items, nil
}

// External implements Source.
func (w wire) External(ctx context.Context, m autoscalingv2.MetricIdentifier, ns string) (sum int64, err error) {
	var list struct {
		Items []struct {
			Value apiresource.Quantity `json:"value"`
		} `json:"items"`
	}
	what, query := m.Name+".external.metrics.k8s.io", map[string]string{"labelSelector": selector(m)}
	if err := w.get(ctx, &list, what, externalAPI+"/namespaces/"+ns+"/"+m.Name, query); err != nil {
		return 0, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return 0, errors.New("no metrics returned from external metrics API")
	}
	for _, v := range list.Items {
		one := v.Value.MilliValue()
		if one > 0 && sum > math.MaxInt64-one {
			return math.MaxInt64, nil
		}
		sum += one
	}
	return sum, nil
}

// selector is that of a metric, in a question's words. An empty one, and one that can't be (whose metric is not asked for), has none.
func selector(m autoscalingv2.MetricIdentifier) string {
	s, err := metav1.LabelSelectorAsSelector(m.Selector)
	if err != nil {
		return ""
	}
	return s.String()
}
