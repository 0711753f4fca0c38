// Package flowschema says of every flow schema whether the priority level that it names exists.
//
//	reads   FlowSchema, PriorityLevelConfiguration
//	writes  FlowSchema: status
//	rule    the condition Dangling is True while there is no such level, else False
//
// Every server runs this loop, with or without other loops, as upstream's does.
package flowschema

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/flowcontrol"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a schema, and on a level that comes or goes.
var Controller = &loop.Controller[*flowcontrolv1.FlowSchema]{
	Name:   "flowschema",
	For:    flowcontrol.FlowSchemas,
	Wake:   []loop.Wake{{Kind: flowcontrol.PriorityLevelConfigurations, Keys: levelCameOrWent}},
	Writes: []resource.Kind{flowcontrol.FlowSchemas},
	Reconcile: func(ctx context.Context, c *loop.Ctx, s *flowcontrolv1.FlowSchema) (time.Duration, error) {
		level := s.Spec.PriorityLevelConfiguration.Name
		exists := resource.Get(c, flowcontrol.PriorityLevelConfigurations, "", level) != nil
		want := plan(s, exists)
		if want == nil {
			return 0, nil
		}
		now := c.Now().UTC().Truncate(time.Second)
		data, err := json.Marshal(map[string]any{"apiVersion": flowcontrolv1.SchemeGroupVersion.String(), "kind": "FlowSchema",
			"metadata": map[string]any{"name": s.Name, "uid": s.UID},
			"status": map[string]any{"conditions": []any{map[string]any{"type": want.Type, "status": want.Status, "reason": want.Reason,
				"message": want.Message, "lastTransitionTime": now}}}})
		if err != nil {
			return 0, err
		}
		return 0, c.Patch(ctx, flowcontrol.FlowSchemas, s, client.Patch{Type: types.ApplyPatchType, Data: data, Sub: "status", Force: true})
	},
}

// levelCameOrWent wakes the schemas that name the level.
func levelCameOrWent(c client.Change, read resource.Reader, wake func(ns, name string)) {
	if c.Old != nil && c.New != nil {
		return
	}
	obj := c.New
	if obj == nil {
		obj = c.Old
	}
	for s := range read.Each(flowcontrol.FlowSchemas, "") {
		if s.(*flowcontrolv1.FlowSchema).Spec.PriorityLevelConfiguration.Name == obj.GetName() {
			wake("", s.GetName())
		}
	}
}

// plan is the condition that the schema should have; nil if it has it.
func plan(s *flowcontrolv1.FlowSchema, exists bool) *flowcontrolv1.FlowSchemaCondition {
	level := s.Spec.PriorityLevelConfiguration.Name
	want := flowcontrolv1.FlowSchemaCondition{Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse,
		Reason:  "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level)}
	if !exists {
		want.Status, want.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		want.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	}
	for _, have := range s.Status.Conditions {
		if have.Type == want.Type && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
			return nil
		}
	}
	return &want
}
