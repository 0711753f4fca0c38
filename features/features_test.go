package features

import (
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
	for _, test := range []struct {
		name  string
		minor int
		asked map[string]bool
		err   string
	}{
		{"the newest", 37, nil, ""},
		{"the oldest with a gate off", 36, map[string]bool{"WatchList": false}, ""},
		{"too old", 35, nil, "version 1.35: use 1.36 or 1.37"},
		{"unknown gate", 37, map[string]bool{"WatchLists": false}, "unrecognized feature gate: WatchLists"},
		{"locked gate off", 37, map[string]bool{"MultiCIDRServiceAllocator": false},
			"cannot set feature gate MultiCIDRServiceAllocator to false, feature is locked to true"},
		{"locked gate as it is", 37, map[string]bool{"MultiCIDRServiceAllocator": true}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := New(test.minor, test.asked)
			if err != nil || test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("1.%d %v: %v, want %q", test.minor, test.asked, err, test.err)
				}
				return
			}
			for gate, on := range test.asked {
				if s.On(gate) != on {
					t.Errorf("%s is not %t", gate, on)
				}
			}
		})
	}
}

func TestAll(t *testing.T) {
	s, err := New(Newest, map[string]bool{"AllAlpha": true, "AllBeta": false, "WatchList": true})
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range Known(Newest) {
		want := g.Default
		switch {
		case name == "WatchList" || g.Stage == Alpha:
			want = true
		case g.Stage == Beta:
			want = false
		}
		if s.On(name) != want {
			t.Errorf("%s %+v: %t", name, g, s.On(name))
		}
	}
}

func TestNil(t *testing.T) {
	var s *Set
	if !s.On("WatchList") || s.On("AllAlpha") || s.String() != "1.37" || !s.AtLeast(37) || s.Emulates() {
		t.Error(s)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int{"": 37, "1.36": 36, "v1.37": 37, "kube=1.36": 36, "1.35": 0, "kubelet=1.36": 0,
		"1.36.3": 0, "36": 0} {
		t.Run(text, func(t *testing.T) {
			if got, err := Parse(text); got != want || (err == nil) != (want > 0) {
				t.Errorf("%s: %d, %v", text, got, err)
			}
		})
	}
}

// TestTable holds the table to its form: each gate once, its versions in order.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(table)) {
		words := strings.Fields(line)
		name, last := strings.TrimLeft(words[0], "*-"), -1
		if seen[name] || len(words) < 2 {
			t.Errorf("%q: listed twice, or without a version", line)
		}
		seen[name] = true
		for _, spec := range words[1:] {
			since, g, there := parse(spec)
			if since <= last || !there && spec[0] != 'x' || there && !strings.ContainsAny(spec, "+-") || g.Locked && !there {
				t.Errorf("%s: %s", name, spec)
			}
			last = since
		}
	}
}
