package cluster

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestGates(t *testing.T) {
	for gate, why := range map[string]string{"WatchList": "", "GangScheduling": "", "NativeSidecar": "there is no feature gate", "WatchLists": "did you mean WatchList?"} {
		_, err := Config{Features: map[string]bool{gate: false}}.withDefaults()
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", gate, err, why)
		}
	}
	set := map[string]bool{"WatchList": false, "GangScheduling": true, "EventedPLEG": false, "SidecarContainers": false, "KMSv1": true}
	if got := Idle(set); !slices.Equal(got, []string{"GangScheduling", "KMSv1", "SidecarContainers"}) {
		t.Error(got)
	}
	var log bytes.Buffer
	tellIdle(slog.New(slog.NewTextHandler(&log, nil)), set)
	if text := log.String(); strings.Count(text, "\n") != 3 || !strings.Contains(text, "gate=GangScheduling default=false") {
		t.Error(text)
	}
	seen := map[string]bool{}
	for _, list := range []string{gatesOn, gatesOff, gatesDone, gatesDeprecated} {
		for gate := range strings.FieldsSeq(list) {
			if seen[gate] {
				t.Errorf("%s is listed twice", gate)
			}
			seen[gate] = true
		}
	}
}
