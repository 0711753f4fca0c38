package instance

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// TestDecide: writes are taken only with the Lease, nobody is promoted who may lack a commit, and data is thrown away only where
// another has it.
func TestDecide(t *testing.T) {
	status := func(target string, epoch int64, election bool) v1alpha1.PostgresClusterStatus {
		s := v1alpha1.PostgresClusterStatus{TargetPrimary: target, Epoch: epoch, SystemID: "7"}
		if election {
			s.Election = &v1alpha1.Election{}
		}
		return s
	}
	primary := Local{Data: true, SystemID: "7", Running: true, LSN: 100}
	standby := Local{Data: true, SystemID: "7", Running: true, InRecover: true, Signal: true, LSN: 100, Upstream: "a", Receiving: true}
	clean := Local{Data: true, SystemID: "7", Clean: true, LSN: 100}
	crashed := Local{Data: true, SystemID: "7", LSN: 50}
	resting := Local{Data: true, SystemID: "7", Signal: true}
	lost := grant{there: true, holder: "c-2_x", epoch: 3}
	for _, tt := range []struct {
		name string
		s    Situation
		want Act
	}{
		{"a new cluster", Situation{Status: v1alpha1.PostgresClusterStatus{TargetPrimary: "c-1"}, Held: true}, Init},
		{"a cluster whose data is gone", Situation{Status: status("c-1", 0, false), Held: true}, Wait},
		{"a primary", Situation{Status: status("c-1", 0, false), Local: primary, Held: true}, Tend},
		{"a primary whose settings were lowered", Situation{Status: status("c-1", 0, false), Held: true,
			Local: Local{Data: true, SystemID: "7", Running: true, Lowered: true}}, Stop},
		{"it has stopped for that", Situation{Status: status("c-1", 0, false), Local: clean, Held: true}, Start},
		{"a primary that lost the lease", Situation{Status: status("c-1", 0, false), Local: primary}, Stop},
		{"a primary that is to hand over", Situation{Status: status("c-2", 0, false), Local: primary, Held: true}, Stop},
		{"it has stopped", Situation{Status: status("c-2", 0, false), Local: clean, Held: true}, Release},
		{"a primary during an election", Situation{Status: status("c-1", 1, true), Local: primary, Held: true}, Stop},
		{"a standby during an election", Situation{Status: status("c-2", 1, true), Local: standby}, Pause},
		{"its voice", Situation{Status: status("c-2", 1, true), Local: Local{Data: true, Running: true, InRecover: true, AtEnd: true}}, Wait},
		{"a crashed one during an election", Situation{Status: status("c-2", 1, true), Local: crashed}, Start},
		{"a stopped standby during an election", Situation{Status: status("c-2", 1, true), Local: resting}, Start},
		{"a stopped primary during an election", Situation{Status: status("c-2", 1, true), Local: clean}, Wait},
		{"the winner, while the lease lasts", Situation{Status: status("c-1", 4, false), Local: standby, Last: lost}, Wait},
		{"the winner", Situation{Status: status("c-1", 4, false), Local: standby, Last: lost, Free: true}, Acquire},
		{"the winner with the lease", Situation{Status: status("c-1", 4, false), Local: standby, Held: true}, Promote},
		{"a successor of a holder that fell silent, without an election", Situation{Status: status("c-1", 3, false), Local: standby,
			Last: lost, Free: true}, Wait},
		{"a successor that has all", Situation{Status: status("c-1", 3, false), Local: standby, Free: true,
			Last: grant{there: true, epoch: 3, released: 100}}, Acquire},
		{"a successor that lacks WAL", Situation{Status: status("c-1", 3, false), Local: standby, Free: true,
			Last: grant{there: true, epoch: 3, released: 101}}, Wait},
		{"a successor of one that did not end cleanly", Situation{Status: status("c-1", 3, false), Local: standby, Free: true,
			Last: grant{there: true, epoch: 3}}, Wait},
		{"a primary whose container restarted", Situation{Status: status("c-1", 3, false), Local: crashed, Free: true,
			Last: grant{there: true, holder: "c-1_y", epoch: 3}}, Acquire},
		{"it has the lease again", Situation{Status: status("c-1", 3, false), Local: crashed, Held: true}, Start},
		{"data of another cluster", Situation{Status: status("c-1", 3, false), Local: Local{Data: true, SystemID: "8"}, Held: true}, Wait},
		{"a new standby", Situation{Status: status("c-2", 0, false), Upstream: "a"}, Clone},
		{"a new standby without a primary", Situation{Status: status("c-2", 0, false)}, Wait},
		{"a former primary", Situation{Status: status("c-2", 0, false), Local: crashed, Upstream: "a"}, Rewind},
		{"whose rewind did not end", Situation{Status: status("c-2", 0, false), Local: Local{Data: true, Broken: true}, Upstream: "a"}, Clone},
		{"a standby that was stopped", Situation{Status: status("c-2", 0, false), Local: resting, Upstream: "a"}, Start},
		{"a standby of a new primary", Situation{Status: status("c-2", 0, false), Local: standby, Upstream: "b"}, Follow},
		{"a standby that streams", Situation{Status: status("c-2", 0, false), Local: standby, Upstream: "a"}, Wait},
		{"one that has diverged", Situation{Status: status("c-2", 0, false), Local: standby, Upstream: "a", Stuck: true}, Rewind},
		{"and can't be rewound", Situation{Status: status("c-2", 0, false), Local: standby, Upstream: "a", Stuck: true, Rewound: true}, Clone},
		{"the wrong version", Situation{Status: status("c-1", 0, false), Version: "it is 15.2"}, Wait},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Me = "c-1"
			if got, reason := decide(tt.s); got != tt.want {
				t.Errorf("%s (%s), want %s", got, reason, tt.want)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	c := &v1alpha1.PostgresCluster{}
	c.Spec.Parameters = map[string]string{"work_mem": "4MB", "fsync": "off", "log_statement": "a'b", "x\ny": "z"}
	c.Status.Quorum = &v1alpha1.Quorum{Number: 1, Members: []string{"c-1", "c-2", "c-3"}}
	got := settings(c, "c-1", "/self", nil)
	for _, want := range []string{"work_mem = '4MB'\n", "log_statement = 'a''b'\n", `synchronous_standby_names = 'ANY 1 ("c-2", "c-3")'`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if strings.LastIndex(got, "fsync = 'on'") < strings.Index(got, "fsync = 'off'") || strings.Contains(got, "x\ny") {
		t.Errorf("a parameter of the user's is stronger than ours, or has a line of its own:\n%s", got)
	}
}

func TestParseLSN(t *testing.T) {
	for text, want := range map[string]uint64{"0/0": 0, "16/B374D848": 0x16B374D848, "FFFFFFFF/FFFFFFFF": 1<<64 - 1} {
		t.Run(text, func(t *testing.T) {
			if got, err := parseLSN(text); err != nil || got != want {
				t.Errorf("%s is %X, %v, want %X", text, got, err, want)
			}
		})
	}
	for _, text := range []string{"", "1", "x/1", "1/100000000", "1/-1"} {
		if _, err := parseLSN(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
