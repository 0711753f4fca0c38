package cluster

import "testing"

func TestPressure(t *testing.T) {
	for _, tt := range []struct {
		name       string
		is         Pressure
		thresholds int
		high, low  int
		bad        bool
	}{
		{"nothing said", Pressure{}, 5, 85, 80, false},
		{"the defaults", DefaultPressure(), 5, 85, 80, false},
		{"no eviction", Pressure{Eviction: "none", ImageGCHigh: 100}, 0, 100, 80, false},
		{"one threshold", Pressure{Eviction: "memory.available<1Gi", ImageGCHigh: 50}, 1, 50, 50, false},
		{"soft threshold beside the defaults",
			Pressure{EvictionSoft: "memory.available<1Gi", EvictionSoftGracePeriod: map[string]string{"memory.available": "1m"},
				EvictionMinimumReclaim: map[string]string{"nodefs.available": "1%"}}, 6, 85, 80, false},
		{"soft threshold without a grace period", Pressure{EvictionSoft: "memory.available<1Gi"}, 0, 0, 0, true},
		{"unknown signal", Pressure{Eviction: "memory<1"}, 0, 0, 0, true},
		{"low above high", Pressure{ImageGCHigh: 70, ImageGCLow: 80}, 0, 0, 0, true},
		{"more than all of the disk", Pressure{ImageGCHigh: 101}, 0, 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eviction, high, low, err := tt.is.Limits()
			if bad := err != nil; bad != tt.bad {
				t.Errorf("%+v: %v", tt.is, err)
			}
			if err == nil && (len(eviction) != tt.thresholds || high != tt.high || low != tt.low) {
				t.Errorf("%+v: %v, %d, %d", tt.is, eviction, high, low)
			}
		})
	}
	if err := (Config{Pressure: Pressure{Eviction: "x"}}).check(); err == nil {
		t.Error("a threshold that is none is taken")
	}
}
