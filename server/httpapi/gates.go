package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kloop-dev/kloop/features"
)

var enabledDesc = prometheus.NewDesc("kubernetes_feature_enabled",
	"Whether kloop does what a feature gate says, and the stage of the feature.", []string{"name", "stage"}, nil)

// gauges tells of the feature gates of a cluster: 1 stands for what is done, not for what was asked for.
type gauges struct{ on *features.Set }

// Describe implements prometheus.Collector.
func (g gauges) Describe(to chan<- *prometheus.Desc) { to <- enabledDesc }

// Collect implements prometheus.Collector.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	for name, gate := range features.Known(g.on.Minor()) {
		value := 0.0
		if gate.Does(g.on.On(name)) {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(enabledDesc, prometheus.GaugeValue, value, name, string(gate.Stage))
	}
}
