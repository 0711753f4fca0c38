package flowschema

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

func TestPlan(t *testing.T) {
	s := &flowcontrolv1.FlowSchema{}
	s.Spec.PriorityLevelConfiguration.Name = "fast"
	for _, x := range []struct {
		exists bool
		status flowcontrolv1.ConditionStatus
		reason string
	}{{true, "False", "Found"}, {false, "True", "NotFound"}, {true, "False", "Found"}} {
		got := plan(s, x.exists)
		if got == nil || got.Type != "Dangling" || got.Status != x.status || got.Reason != x.reason {
			t.Fatalf("exists %v: %+v", x.exists, got)
		}
		s.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{*got}
		if again := plan(s, x.exists); again != nil {
			t.Errorf("exists %v: written again as %+v", x.exists, again)
		}
	}
	s.Spec.PriorityLevelConfiguration.Name = "slow"
	if plan(s, true) == nil {
		t.Error("the text still names another level")
	}
}
