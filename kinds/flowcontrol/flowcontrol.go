// Package flowcontrol declares the kinds that say which requests wait when the API server is busy.
package flowcontrol

import (
	"cmp"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

func gvk(kind string) schema.GroupVersionKind { return flowcontrolv1.SchemeGroupVersion.WithKind(kind) }

// What upstream fills in.
const (
	defaultPrecedence = 1000
	defaultShares     = 30
)

// exempt names the schema and the level of requests that never wait.
const exempt = flowcontrolv1.PriorityLevelConfigurationNameExempt

// planter is upstream's field manager of the flow schemas and levels that a cluster begins with.
const planter = "api-priority-and-fairness-config-producer-v1"

// FlowSchemas declares the kind.
var FlowSchemas = &resource.Def[*flowcontrolv1.FlowSchema]{
	GVK: gvk("FlowSchema"), Plural: "flowschemas", Generation: true, Status: true,
	Quirks:        resource.Quirks{MetaErrorsOnce: true, StatusResets: []string{"metadata"}, Planter: planter},
	Default:       func(s *flowcontrolv1.FlowSchema) { rule.FillZero(&s.Spec.MatchingPrecedence, defaultPrecedence) },
	Validate:      resource.Serving(func(s, _ *flowcontrolv1.FlowSchema) field.ErrorList { return validateSchema(s, field.NewPath("spec")) }),
	PrepareStatus: func(s, old *flowcontrolv1.FlowSchema) { keepMeta(&s.ObjectMeta, old.ObjectMeta) },
	ValidateStatus: resource.Serving(func(s, _ *flowcontrolv1.FlowSchema) (errs field.ErrorList) {
		path, seen := field.NewPath("status", "conditions"), map[flowcontrolv1.FlowSchemaConditionType]bool{}
		for i, c := range s.Status.Conditions {
			errs = append(errs, once(seen, c.Type, path.Index(i).Child("type"))...)
		}
		return errs
	}),
	RowOrder: func(a, b *flowcontrolv1.FlowSchema) int {
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
	},
	Columns: []resource.Column[*flowcontrolv1.FlowSchema]{
		resource.Col("PriorityLevel", "string", func(s *flowcontrolv1.FlowSchema) any {
			return s.Spec.PriorityLevelConfiguration.Name
		}),
		resource.Col("MatchingPrecedence", "string", func(s *flowcontrolv1.FlowSchema) any { return int64(s.Spec.MatchingPrecedence) }),
		resource.Col("DistinguisherMethod", "string", func(s *flowcontrolv1.FlowSchema) any {
			if s.Spec.DistinguisherMethod == nil {
				return cell.None
			}
			return string(s.Spec.DistinguisherMethod.Type)
		}),
		resource.Age[*flowcontrolv1.FlowSchema](),
		resource.Col("MissingPL", "string", func(s *flowcontrolv1.FlowSchema) any {
			for _, c := range s.Status.Conditions {
				if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
					return string(c.Status)
				}
			}
			return "?"
		}),
	},
}

// PriorityLevelConfigurations declares the kind.
var PriorityLevelConfigurations = &resource.Def[*flowcontrolv1.PriorityLevelConfiguration]{
	GVK: gvk("PriorityLevelConfiguration"), Plural: "prioritylevelconfigurations", Generation: true, Status: true,
	Quirks: resource.Quirks{MetaErrorsOnce: true, StatusResets: []string{"metadata"}, Planter: planter,
		Declared: []string{"Forbidden spec.exempt", "Forbidden spec.limited", "Required spec.limited", "Required spec.type",
			"Forbidden spec.limited.limitResponse.queuing", "Required spec.limited.limitResponse.queuing",
			"Required spec.limited.limitResponse.type"}},
	Default:       defaultLevel,
	Gated:         resource.Gated[*flowcontrolv1.PriorityLevelConfiguration]{Validate: resource.Serving(validateLevelOf)},
	PrepareStatus: func(l, old *flowcontrolv1.PriorityLevelConfiguration) { keepMeta(&l.ObjectMeta, old.ObjectMeta) },
	ValidateStatus: resource.Serving(func(l, _ *flowcontrolv1.PriorityLevelConfiguration) (errs field.ErrorList) {
		path, seen := field.NewPath("status", "conditions"), map[flowcontrolv1.PriorityLevelConfigurationConditionType]bool{}
		for i, c := range l.Status.Conditions {
			errs = append(errs, once(seen, c.Type, path.Index(i).Child("type"))...)
		}
		return errs
	}),
	Columns: []resource.Column[*flowcontrolv1.PriorityLevelConfiguration]{
		resource.Col("Type", "string", func(l *flowcontrolv1.PriorityLevelConfiguration) any { return string(l.Spec.Type) }),
		resource.Col("NominalConcurrencyShares", "string", func(l *flowcontrolv1.PriorityLevelConfiguration) any {
			if l.Spec.Limited == nil || l.Spec.Limited.NominalConcurrencyShares == nil {
				return cell.None
			}
			return int64(*l.Spec.Limited.NominalConcurrencyShares)
		}),
		queue("Queues", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.Queues }),
		queue("HandSize", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.HandSize }),
		queue("QueueLengthLimit", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.QueueLengthLimit }),
		resource.Age[*flowcontrolv1.PriorityLevelConfiguration](),
	},
}

func queue(name string, of func(*flowcontrolv1.QueuingConfiguration) int32) resource.Column[*flowcontrolv1.PriorityLevelConfiguration] {
	return resource.Col(name, "string", func(l *flowcontrolv1.PriorityLevelConfiguration) any {
		if l.Spec.Limited == nil || l.Spec.Limited.LimitResponse.Queuing == nil {
			return cell.None
		}
		return int64(of(l.Spec.Limited.LimitResponse.Queuing))
	})
}

// keepMeta makes a write of the status leave all of the metadata as it is, but who owns what, and the revision that it asks for.
func keepMeta(meta *metav1.ObjectMeta, old metav1.ObjectMeta) {
	old.ManagedFields, old.ResourceVersion = meta.ManagedFields, meta.ResourceVersion
	*meta = old
}

func once[T ~string](seen map[T]bool, t T, path *field.Path) (errs field.ErrorList) {
	errs = rule.Needed(t, path)
	if seen[t] {
		errs = append(errs, field.Duplicate(path, t))
	}
	seen[t] = true
	return errs
}

func defaultLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	if l.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt {
		rule.Fill(&l.Spec.Exempt, flowcontrolv1.ExemptPriorityLevelConfiguration{})
	}
	if e := l.Spec.Exempt; e != nil {
		rule.Fill(&e.NominalConcurrencyShares, 0)
		rule.Fill(&e.LendablePercent, 0)
	}
	c := l.Spec.Limited
	if c == nil {
		return
	}
	rule.Fill(&c.NominalConcurrencyShares, defaultShares)
	rule.Fill(&c.LendablePercent, 0)
	if q := c.LimitResponse.Queuing; q != nil {
		rule.FillZero(&q.Queues, 64)
		rule.FillZero(&q.HandSize, 8)
		rule.FillZero(&q.QueueLengthLimit, 50)
	}
}
