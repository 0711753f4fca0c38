package serve

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/node/runtime"
)

// How much of its CPUs a machine uses follows from two looks, far enough from each other.
func TestRate(t *testing.T) {
	var r rate
	sum := uint64(0)
	at := time.Unix(100, 0)
	for _, tt := range []struct {
		name  string
		after time.Duration
		used  uint64 // nanoseconds since the look before
		want  uint64 // 0: none
	}{
		{"the first look", 0, 0, 0},
		{"too soon", 100 * time.Millisecond, 1e8, 0},
		{"half a core", 1900 * time.Millisecond, 9e8, 5e8},
		{"the next look begins where the last began, until it is long ago", 8 * time.Second, 16e9, 17e8},
		{"at once again", 0, 0, 17e8},
		{"idle", 10 * time.Second, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at = at.Add(tt.after)
			sum += tt.used
			got := r.look(at, sum)
			switch {
			case got == nil && tt.want != 0, got != nil && *got != tt.want:
				t.Errorf("got %v, want %d", got, tt.want)
			}
		})
	}
}

// The node tells of its page faults and its swap, also where there is none, as the kubelet does.
func TestNodeStats(t *testing.T) {
	n := serveNode(t, &runtime.Runtime{Containers: stub{}}, "", "id1")
	var s summary
	if code, body := call(t, n.server(t), "GET", n.url+"/stats/summary"); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	} else if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if m := s.Node.Memory; m.PageFaults == nil || *m.PageFaults == 0 || m.MajorPageFaults == nil {
		t.Errorf("its memory: %+v", m)
	}
	if w := s.Node.Swap; w == nil || w.Available == nil || w.Used == nil {
		t.Errorf("its swap: %+v", w)
	}
}
