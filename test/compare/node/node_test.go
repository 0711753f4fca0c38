package main

import (
	"slices"
	"testing"
)

// The file of scenarios reads, and containers have what all begin with where they say nothing else.
func TestScenarios(t *testing.T) {
	list, err := readScenarios("scenarios.yaml")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(s scenario) bool { return s.Name == "two-one-fails" })
	if i < 0 {
		t.Fatal("there is no two-one-fails")
	}
	containers, _ := list[i].Spec["containers"].([]any)
	if len(containers) != 2 {
		t.Fatalf("it has %d containers", len(containers))
	}
	second, _ := containers[1].(map[string]any)
	if second["name"] != "d" || second["image"] == nil {
		t.Errorf("its second container is %v", second)
	}
	for _, s := range list {
		if len(s.Steps) == 0 {
			t.Errorf("%s waits for nothing", s.Name)
		}
	}
}

// What is a matter of chance is said in the same words of both clusters.
func TestPlain(t *testing.T) {
	p := &play{}
	for name, row := range map[string]struct{ of, want string }{
		"uid":     {"pod p_n(6e11b648-9bc9-4b88-870d-48f5a3c32949)", "pod p_n(UID)"},
		"time":    {".startTime = 2026-11-30T15:48:01Z", ".startTime = TIME"},
		"address": {"dial tcp 10.88.0.7:80: refused", "dial tcp PODIP:80: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.plain([]string{row.of}); !slices.Equal(got, []string{row.want}) {
				t.Errorf("%q reads %q", row.of, got)
			}
		})
	}
}

// Only what one of two records has is told, under its label.
func TestDifferences(t *testing.T) {
	a := record{{"status", []string{".phase = Failed", ".reason = Evicted"}}, {"events", []string{"Killing"}}}
	b := record{{"status", []string{".phase = Failed"}}, {"events", []string{"Killing", "BackOff"}}}
	want := []string{"  status:", "    - .reason = Evicted", "  events:", "    + BackOff"}
	if got := differences(a, b, false); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// An end that something followed is left out: one agent writes of it, the other has started the container again by then.
func TestLasting(t *testing.T) {
	got := lasting([]string{"running", "ended Error 1", "waits CrashLoopBackOff", "running", "ended Error 1"})
	if want := []string{"running", "waits CrashLoopBackOff", "running", "ended Error 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
