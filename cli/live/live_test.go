package live_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cli/live"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

func busy() *live.State {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	s := &live.State{Title: "https://10.0.0.1:6443", At: now}
	for i := range 40 {
		g := &convergence.Gap{Verdict: fmt.Sprintf("deployment/web-%d has 0 of 1 replicas\x1b[31m available", i),
			Owner: "scheduler", State: "Blocked", Since: metav1.NewTime(now.Add(-time.Minute))}
		g.Object.Namespace = "shop"
		s.Gaps = append(s.Gaps, g)
		s.Nodes = append(s.Nodes, live.Node{Name: fmt.Sprint("node-", i), State: "Ready", Pods: i, Room: 110, CPU: 0.5})
		s.Work = append(s.Work, live.Workload{Name: fmt.Sprint("shop/deployment/web-", i), Want: 3, Ready: 1})
		s.Events = append(s.Events, live.Event{At: now, Warning: true, Object: "shop/pod/web", Reason: "Failed", Text: "a\nb"})
	}
	return s
}

// A frame fits its screen, whatever is on it and however small it is, and shows some of everything at 80 by 24.
func TestFrame(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 60}, {20, 5}, {1, 1}, {0, 0}} {
		lines := live.Frame(busy(), live.Look{Width: size[0], Height: size[1]})
		if len(lines) != max(1, size[1]) {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, l := range lines {
			if utf8.RuneCountInString(l) > size[0] || strings.ContainsAny(l, "\x1b\n") {
				t.Errorf("%v: %q", size, l)
			}
		}
	}
	text := strings.Join(live.Frame(busy(), live.Look{Width: 80, Height: 24}), "\n")
	for _, want := range []string{"GAPS 40: scheduler 40", "NODES 40",
		"WORKLOADS 40, 40 not there yet", "EVENTS", "cpu [###...] 50% mem [......]  0%",
		"shop: deployment/web-0", "and 35 more", "q: quit"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if got := live.Frame(&live.State{}, live.Look{Width: 80, Height: 24}); len(got) != 24 {
		t.Errorf("%d lines of an empty cluster", len(got))
	}
}

// Keys are typed into the filter, and quit only outside of it.
func TestPress(t *testing.T) {
	l := live.Look{Width: 80, Height: 24}
	var quit bool
	for _, k := range []byte("/web-39q\x7f\r") {
		if l, quit = l.Press(k); quit {
			t.Fatalf("%q quits", k)
		}
	}
	if l.Filter != "web-39" || l.Typing {
		t.Errorf("the look is %+v", l)
	}
	text := strings.Join(live.Frame(busy(), l), "\n")
	if !strings.Contains(text, "deployment/web-39") || strings.Contains(text, "deployment/web-3 ") {
		t.Errorf("the filter shows\n%s", text)
	}
	if l, _ = l.Press(0x1b); l.Filter != "" {
		t.Errorf("escape leaves %+v", l)
	}
	if _, quit = l.Press('q'); !quit {
		t.Error("q does not quit")
	}
	if _, quit = l.Press(3); !quit {
		t.Error("an interrupt does not quit")
	}
}
