package fair

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

// executing returns the seats that requests have by the metrics, of each schema.
func executing(t *testing.T, f *Fair) map[string]float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(f)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seats := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "apiserver_flowcontrol_current_executing_seats" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "flow_schema" && m.GetGauge().GetValue() != 0 {
					seats[l.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
	}
	return seats
}

// TestExecuting: what is served is told by schema, as upstream tells it.
func TestExecuting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFair(20, spec{name: "g", shares: 1000, queues: 2, hand: 2, queue: 10})
		ticket := enter(t, f, by("u", "g"), 3)
		if got := executing(t, f); len(got) != 1 || got["g"] != 3 {
			t.Errorf("served: %v", got)
		}
		f.Leave(ticket)
		if got := executing(t, f); len(got) != 0 {
			t.Errorf("still served: %v", got)
		}
	})
}
