package autoscaling

import (
	"fmt"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds/cell"
)

const unknown = "<unknown>"

// shownMetrics is the number of metrics that the column Targets shows.
const shownMetrics = 2

// targets prints current and wanted value of the metrics: cpu: 30%/80%, 5/10 (avg) + 1 more...
func targets(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return cell.None
	}
	var list []string
	for i, s := range specs[:min(len(specs), shownMetrics)] {
		var now autoscalingv2.MetricStatus
		if i < len(statuses) {
			now = statuses[i]
		}
		list = append(list, metric(s, now))
	}
	text := strings.Join(list, ", ")
	if more := len(specs) - shownMetrics; more > 0 {
		text += fmt.Sprintf(" + %d more...", more)
	}
	return text
}

// metric is the present and the wanted value of one metric, as `kubectl get hpa` prints them: 12%/80%.
func metric(s autoscalingv2.MetricSpec, now autoscalingv2.MetricStatus) string {
	var current *autoscalingv2.MetricValueStatus // nil: there is none
	switch {
	case s.Type == autoscalingv2.ExternalMetricSourceType && s.External != nil:
		if now.External != nil {
			current = &now.External.Current
		}
		return valueOrAverage(s.External.Target, current)
	case s.Type == autoscalingv2.ObjectMetricSourceType && s.Object != nil:
		if now.Object != nil {
			current = &now.Object.Current
		}
		return valueOrAverage(s.Object.Target, current)
	case s.Type == autoscalingv2.PodsMetricSourceType && s.Pods != nil:
		if now.Pods != nil {
			current = &now.Pods.Current
		}
		return average(current) + "/" + s.Pods.Target.AverageValue.String()
	case s.Type == autoscalingv2.ResourceMetricSourceType && s.Resource != nil:
		if now.Resource != nil {
			current = &now.Resource.Current
		}
		return string(s.Resource.Name) + ": " + usage(s.Resource.Target, current)
	case s.Type == autoscalingv2.ContainerResourceMetricSourceType && s.ContainerResource != nil:
		if now.ContainerResource != nil {
			current = &now.ContainerResource.Current
		}
		return string(s.ContainerResource.Name) + ": " + usage(s.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

// valueOrAverage marks a target for each pod, "(avg)", for a metric that is one number for all.
func valueOrAverage(t autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	if now == nil {
		now = &autoscalingv2.MetricValueStatus{}
	}
	if t.AverageValue != nil {
		return quantity(now.AverageValue) + "/" + t.AverageValue.String() + " (avg)"
	}
	return quantity(now.Value) + "/" + t.Value.String()
}

// usage is of a resource: a plain amount, or a percentage of what the pods request.
func usage(t autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	if t.AverageValue != nil {
		return average(now) + "/" + t.AverageValue.String()
	}
	current := unknown
	if now != nil {
		current = percent(now.AverageUtilization, unknown)
	}
	return current + "/" + percent(t.AverageUtilization, "<auto>")
}

// average formats the average of a metric; one given in another form prints as <nil>.
func average(now *autoscalingv2.MetricValueStatus) string {
	if now == nil {
		return unknown
	}
	return now.AverageValue.String()
}

func percent(n *int32, none string) string {
	if n == nil {
		return none
	}
	return strconv.Itoa(int(*n)) + "%"
}

func quantity(q *resource.Quantity) string {
	if q == nil {
		return unknown
	}
	return q.String()
}
