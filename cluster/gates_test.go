package cluster

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestGates(t *testing.T) {
	for gate, why := range map[string]string{"WatchList": "", "EventedPLEG": "",
		"NativeSidecar": "unrecognized feature gate: NativeSidecar", "WatchLists": "did you mean WatchList?",
		"MultiCIDRServiceAllocator": "cannot set feature gate MultiCIDRServiceAllocator to false, feature is locked to true"} {
		t.Run(gate, func(t *testing.T) {
			_, err := Config{Features: map[string]bool{gate: false}}.withDefaults()
			if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, want %q", gate, err, why)
			}
		})
	}
	set := map[string]bool{"WatchList": false, "EventedPLEG": true, "KMSv1": true, "CSIVolumeHealth": false, "ReloadKubeletClientCAFile": true,
		"KubeletTracing": true, "PodsAPI": false}
	if got := Idle("", set); !slices.Equal(got, []string{"EventedPLEG", "KMSv1", "KubeletTracing", "ReloadKubeletClientCAFile"}) {
		t.Error(got)
	}
	var log bytes.Buffer
	Config{Features: set}.tellIdle(slog.New(slog.NewTextHandler(&log, nil)))
	if text := log.String(); strings.Count(text, "\n") != 4 || !strings.Contains(text, "gate=EventedPLEG asked=true is=false") {
		t.Error(text)
	}
}

func TestVersions(t *testing.T) {
	for version, why := range map[string]string{"": "", "1.36": "", "kube=1.37": "", "1.35": "can't be emulated: use 1.36 or 1.37"} {
		t.Run(version, func(t *testing.T) {
			c, err := Config{EmulatedVersion: version}.withDefaults()
			if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
				t.Errorf("%q: %v, want %q", version, err, why)
			}
			if err == nil && c.on.Emulates() != (version == "1.36") {
				t.Errorf("%q is %s", version, c.on)
			}
		})
	}
	if _, err := (Config{RuntimeConfig: map[string]bool{"aps/v1": false}}).withDefaults(); err == nil ||
		!strings.Contains(err.Error(), "unknown api groups aps/v1") {
		t.Error(err)
	}
}
