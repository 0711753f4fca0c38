package cluster

import (
	"testing"

	"github.com/kloop-dev/kloop/node"
)

func TestPressure(t *testing.T) {
	for _, tt := range []struct {
		is         Pressure
		thresholds int
		high, low  int
		bad        bool
	}{
		{Pressure{}, 5, 85, 80, false},
		{DefaultPressure(), 5, 85, 80, false},
		{Pressure{Eviction: "none", ImageGCHigh: 100}, 0, 100, 80, false},
		{Pressure{Eviction: "memory.available<1Gi", ImageGCHigh: 50}, 1, 50, 50, false},
		{Pressure{Eviction: "memory<1"}, 0, 0, 0, true},
		{Pressure{ImageGCHigh: 70, ImageGCLow: 80}, 0, 0, 0, true},
		{Pressure{ImageGCHigh: 101}, 0, 0, 0, true},
	} {
		var cfg node.Config
		err := tt.is.into(&cfg)
		if bad := err != nil; bad != tt.bad {
			t.Errorf("%+v: %v", tt.is, err)
		}
		if err == nil && (len(cfg.Eviction) != tt.thresholds || cfg.ImageGCHigh != tt.high || cfg.ImageGCLow != tt.low) {
			t.Errorf("%+v: %v, %d, %d", tt.is, cfg.Eviction, cfg.ImageGCHigh, cfg.ImageGCLow)
		}
	}
	if err := (Config{Pressure: Pressure{Eviction: "x"}}).check(); err == nil {
		t.Error("a threshold that is none is taken")
	}
}
