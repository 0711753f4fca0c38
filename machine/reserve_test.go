package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/node"
	"github.com/kloop-dev/kloop/node/runtime"
)

func TestNodeResources(t *testing.T) {
	amounts := map[string]string{"cpu": "500m", "memory": "1Gi", "pid": "100"}
	good := cluster.NodeResources{SystemReserved: amounts, KubeReserved: amounts, ReservedSystemCPUs: "0-1,4", PodPidsLimit: 7,
		CgroupRoot:   "/kloop-dev-1",
		SwapBehavior: "LimitedSwap", MemoryReservationPolicy: "TieredReservation", MemoryThrottlingFactor: "0.9"}
	var cfg node.Config
	if err := reserve(good, &cfg); err != nil {
		t.Fatal(err)
	}
	r := cfg.Resources
	if r.SystemReserved.Cpu().MilliValue() != 500 || r.KubeReserved.Memory().Value() != 1<<30 || r.PodPidsLimit != 7 ||
		!r.LimitedSwap || !r.TieredReservation || r.MemoryThrottlingFactor != 0.9 || r.ReservedSystemCPUs != "0-1,4" {
		t.Errorf("%+v", r)
	}
	if cfg.CgroupDir != "kloop-dev-1/kubepods" {
		t.Error(cfg.CgroupDir)
	}
	plain := cluster.NodeResources{SwapBehavior: "NoSwap", MemoryReservationPolicy: "None"}
	if err := reserve(plain, &cfg); err != nil || cfg.Resources.LimitedSwap || cfg.CgroupDir != "kubepods" {
		t.Errorf("%+v, %v", cfg.Resources, err)
	}
	for want, bad := range map[string]cluster.NodeResources{
		"gpu can't be reserved":  {KubeReserved: map[string]string{"gpu": "1"}},
		"cpu=-1: want":           {SystemReserved: map[string]string{"cpu": "-1"}},
		"cpu=x: want":            {SystemReserved: map[string]string{"cpu": "x"}},
		"a list of CPUs":         {ReservedSystemCPUs: "1-"},
		"from 1s to 5m":          {MaxContainerRestartPeriod: time.Hour},
		"want NoSwap or":         {SwapBehavior: "UnlimitedSwap"},
		"want None or":           {MemoryReservationPolicy: "All"},
		"\"kloop\": want the":    {CgroupRoot: "kloop"},
		"\"/a/../b\": want the":  {CgroupRoot: "/a/../b"},
		"cgroupfs or systemd":    {CgroupDriver: "systemctl"},
		"at most 1":              {MemoryThrottlingFactor: "1.1"},
		"\"NaN\": want":          {MemoryThrottlingFactor: "NaN"},
		"maxPods -1":             {MaxPods: -1},
		"\"vm.swappiness\"":      {AllowedUnsafeSysctls: []string{"vm.swappiness"}},
		"\"net.*.forward\"":      {AllowedUnsafeSysctls: []string{"net.*.forward"}},
		"\"0\": want a quantity": {ContainerLogMaxSize: "0"},
		"containerLogMaxFiles 1": {ContainerLogMaxFiles: 1},
	} {
		if err := reserve(bad, &node.Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", bad, err, want)
		}
	}
	_, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(),
		Machine: Here, NodeResources: cluster.NodeResources{SwapBehavior: "x"}})
	if err == nil || !strings.Contains(err.Error(), "swapBehavior") {
		t.Errorf("a setting that is none: %v", err)
	}
}

func TestNodeImages(t *testing.T) {
	var cfg node.Config
	var rt runtime.Config
	good := cluster.NodeImages{MinimumGCAge: time.Minute, MaximumGCAge: time.Hour, MaxParallelPulls: 2, VerificationPolicy: "AlwaysVerify"}
	if err := images(good, &cfg, &rt); err != nil || cfg.ImageAge != time.Minute || cfg.ImageMaxAge != time.Hour ||
		cfg.ParallelPulls != 2 || cfg.Verification.Name != "AlwaysVerify" {
		t.Errorf("%+v, %v", cfg, err)
	}
	for want, bad := range map[string]cluster.NodeImages{
		"longer than":           {MinimumGCAge: time.Hour, MaximumGCAge: time.Minute},
		"can't be negative":     {MaximumGCAge: -1},
		"maxParallelImagePulls": {MaxParallelPulls: -1},
		"\"Verify\": use":       {VerificationPolicy: "Verify"},
	} {
		if err := images(bad, &node.Config{}, &rt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", bad, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "registries.yaml")
	if err := os.WriteFile(file, []byte("mirrors: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := runtime.Config{Socket: "/run/c.sock"}
	err := images(cluster.NodeImages{Registries: file}, &node.Config{}, &foreign)
	if err == nil || !strings.Contains(err.Error(), "hosts.toml") {
		t.Errorf("registries of another's runtime: %v", err)
	}
	_, err = cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), Machine: Here, RuntimeSocket: "c.sock"})
	if err == nil || !strings.Contains(err.Error(), "absolute path") {
		t.Errorf("an endpoint that is none: %v", err)
	}
}
