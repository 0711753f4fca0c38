package autoscaling

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// rich has all that v1 has no fields for. The metric that v1 knows comes last, where it returns to.
const rich = `
metadata: {name: h, annotations: {mine: x}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}
  minReplicas: 2
  maxReplicas: 9
  behavior:
    scaleUp: {stabilizationWindowSeconds: 5, selectPolicy: Max, tolerance: 100m, policies: [{type: Pods, value: 4, periodSeconds: 15}]}
    scaleDown: {selectPolicy: Disabled}
  metrics:
  - {type: Object, object: {describedObject: {kind: Service, name: s}, metric: {name: m, selector: {matchLabels: {a: b}}},
      target: {type: Value, value: 5}}}
  - {type: Object, object: {describedObject: {kind: Service, name: s}, metric: {name: m}, target: {type: AverageValue, averageValue: 5}}}
  - {type: Pods, pods: {metric: {name: m}, target: {type: AverageValue, averageValue: 100m}}}
  - {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}
  - {type: ContainerResource, containerResource: {name: cpu, container: c, target: {type: Utilization, averageUtilization: 50}}}
  - {type: External, external: {metric: {name: m, selector: {matchLabels: {a: b}}}, target: {type: Value, value: 7}}}
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}
status:
  observedGeneration: 4
  lastScaleTime: '2024-01-01T00:00:00Z'
  currentReplicas: 3
  desiredReplicas: 4
  conditions: [{type: AbleToScale, status: 'True', reason: R, message: M, lastTransitionTime: '2024-01-01T00:00:00Z'}]
  currentMetrics:
  - {type: Object, object: {describedObject: {kind: Service, name: s}, metric: {name: m}, current: {value: 5}}}
  - {type: Pods, pods: {metric: {name: m}, current: {averageValue: 1}}}
  - {type: Resource, resource: {name: memory, current: {averageValue: 1Gi}}}
  - {type: ContainerResource, containerResource: {name: cpu, container: c, current: {averageUtilization: 50, averageValue: 1}}}
  - {type: External, external: {metric: {name: m}, current: {value: 7, averageValue: 1}}}
  - {type: Resource, resource: {name: cpu, current: {averageUtilization: 30}}}
`

func read2(t *testing.T, text string) hpa {
	t.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := yaml.UnmarshalStrict([]byte(text), h); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestV1KeepsAll(t *testing.T) {
	in := read2(t, rich)
	was := in.DeepCopy()
	old := toV1(in)
	if !equality.Semantic.DeepEqual(in, was) {
		t.Error("converting changed the hub's object")
	}
	if p := old.Spec.TargetCPUUtilizationPercentage; p == nil || *p != 70 {
		t.Errorf("target CPU is %v, want 70", p)
	}
	if p := old.Status.CurrentCPUUtilizationPercentage; p == nil || *p != 30 {
		t.Errorf("current CPU is %v, want 30", p)
	}
	if len(old.Annotations) != 5 {
		t.Errorf("annotations %v, want one of ours and four kept ones", old.Annotations)
	}
	const behavior = `{"ScaleUp":{"StabilizationWindowSeconds":5,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,` +
		`"PeriodSeconds":15}],` +
		`"Tolerance":"100m"},"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Disabled","Policies":null,"Tolerance":null}}`
	if got := old.Annotations[behaviorKey]; got != behavior {
		t.Errorf("behavior is kept as\n%s\nwant\n%s", got, behavior)
	}
	if out := fromV1(old); !equality.Semantic.DeepEqual(in, out) {
		a, _ := yaml.Marshal(in)
		b, _ := yaml.Marshal(out)
		t.Errorf("there and back:\n%s\nbecame\n%s", a, b)
	}
}

// What does not parse is dropped rather than refused, and nothing kept shows in the hub.
func TestV1BadAnnotations(t *testing.T) {
	in := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		metricsKey: "{", behaviorKey: "[]", conditionsKey: "1", statusesKey: "x"}}}
	out := fromV1(in)
	if out.Annotations != nil || out.Spec.Metrics != nil || out.Spec.Behavior != nil || out.Status.Conditions != nil {
		t.Errorf("got %+v", out)
	}
	if len(in.Annotations) != 4 {
		t.Error("converting changed the argument")
	}
}

func TestDefaultBehavior(t *testing.T) {
	h := read2(t, `{spec: {maxReplicas: 3, scaleTargetRef: {kind: K, name: k}, behavior: {scaleDown: {selectPolicy: Min}}}}`)
	defaultAutoscaler(h)
	up, down := h.Spec.Behavior.ScaleUp, h.Spec.Behavior.ScaleDown
	if *up.StabilizationWindowSeconds != 0 || len(up.Policies) != 2 || *up.SelectPolicy != autoscalingv2.MaxChangePolicySelect {
		t.Errorf("scaling up by %+v", up)
	}
	if down.StabilizationWindowSeconds != nil || len(down.Policies) != 1 || *down.SelectPolicy != autoscalingv2.MinChangePolicySelect {
		t.Errorf("scaling down by %+v", down)
	}
	if *h.Spec.MinReplicas != 1 || len(h.Spec.Metrics) != 1 {
		t.Errorf("spec %+v", h.Spec)
	}
}

// The annotation also keeps a utilization that has a field in v1.
func TestStatusOfCPUInV1(t *testing.T) {
	percent := int32(30)
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricStatus{Name: "cpu", Current: autoscalingv2.MetricValueStatus{AverageUtilization: &percent}}}}
	got := toV1(h)
	if p := got.Status.CurrentCPUUtilizationPercentage; p == nil || *p != percent || got.Annotations[statusesKey] == "" {
		t.Errorf("%v %v", got.Status, got.Annotations)
	}
}
