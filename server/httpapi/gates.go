package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kloop-dev/kloop/features"
)

var enabledDesc = prometheus.NewDesc("kubernetes_feature_enabled", "Whether a feature gate is on, and the stage of the feature.", []string{"name", "stage"}, nil)

// gauges tells of the feature gates of a cluster.
type gauges struct{ on *features.Set }

// Describe implements prometheus.Collector.
func (g gauges) Describe(to chan<- *prometheus.Desc) { to <- enabledDesc }

// Collect implements prometheus.Collector.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	for name, gate := range features.Known(g.on.Minor()) {
		value := 0.0
		if g.on.On(name) {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(enabledDesc, prometheus.GaugeValue, value, name, string(gate.Stage))
	}
}
