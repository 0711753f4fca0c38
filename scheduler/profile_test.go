package scheduler

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

const configHead = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func TestReadConfig(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"default", configHead, "default-scheduler [] map[] 0 spread, "},
		{"another kind", "apiVersion: v1\nkind: Pod", "error: has to be a KubeSchedulerConfiguration"},
		{"a typo", configHead + "profile: []", "error: unknown field"},
		{"off", configHead + "profiles: [{schedulerName: x, plugins: {filter: {disabled: [{name: TaintToleration}]}}}]",
			"x [TaintToleration] map[] 0 spread, "},
		{"weights",
			configHead +
				"profiles: [{schedulerName: x, plugins: {score: {disabled: [{name: ImageLocality}, {name: NodeAffinity}], enabled: " +
				"[{name: NodeAffinity, weight: 9}]}}}]",
			"x [] map[ImageLocality:0 NodeAffinity:9] 0 spread, "},
		{"no ranking but one", configHead +
			"profiles: [{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 1}]}}}]",
			"default-scheduler [] map[DynamicResources:0 ImageLocality:1 InterPodAffinity:0 NodeAffinity:0 NodeResourcesBalancedAllocation:0 " +
				"NodeResourcesFit:0 PodTopologySpread:0 TaintToleration:0 VolumeBinding:0] 0 spread, "},
		{"unknown", configHead + "profiles: [{plugins: {filter: {disabled: [{name: Tolerations}]}}}]", `error: no plugin "Tolerations"`},
		{"twice", configHead + "profiles: [{}, {schedulerName: default-scheduler}]", "error: two scheduler profiles"},
		{"packed", configHead + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]",
			"default-scheduler [] map[] 0 spread, MostAllocated"},
		{"by ratio",
			configHead +
				"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio, resources: " +
				"[{name: example.com/gpu, weight: 3}], requestedToCapacityRatio: {shape: " +
				"[{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}}]}]",
			"default-scheduler [] map[] 0 spread, RequestedToCapacityRatio"},
		{"no shape",
			configHead + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}]}]",
			"error: needs a shape"},
		{"a shape that goes back", configHead +
			"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio, " +
			"requestedToCapacityRatio: {shape: [{utilization: 50, score: 0}, {utilization: 50, score: 10}]}}}}]}]", "error: go up in utilization"},
		{"no such strategy", configHead +
			"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Random}}}]}]", "error: scoringStrategy Random"},
		{"a weight of nothing", configHead +
			"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: cpu}]}}}]}]",
			"error: weight from 1 to 100"},
		{"hard affinity", configHead + "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]",
			"error: hardPodAffinityWeight 101"},
		{"no candidates", configHead +
			"profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}}]}]",
			"error: at least one node"},
		{"binding in no time", configHead + "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}]}]",
			"error: must not be below 0"},
		{"a shape of storage that goes back",
			configHead +
				"profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 50, score: 0}, {utilization: 10, score: 1}]}}]}]",
			"error: go up in utilization"},
		{"devices in no time", configHead +
			"profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 0s, bindingTimeout: 0s}}]}]",
			"error: bindingTimeout must not be below 1s"},
		{"spread",
			configHead +
				"profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: " +
				"[{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}}]}]",
			"default-scheduler [] map[] 1 spread, "},
		{"an extender", configHead +
			"extenders: [{urlPrefix: 'http://127.0.0.1:1/x', filterVerb: filter, prioritizeVerb: rank, weight: 5, httpTimeout: 3s, " +
			"managedResources: [{name: example.com/a, ignoredByScheduler: true}]}]",
			"default-scheduler [] map[] 0 spread, , extender http://127.0.0.1:1/x 5 3s [{example.com/a true}]"},
		{"an extender nowhere", configHead + "extenders: [{urlPrefix: x}]", "error: has to be a URL"},
		{"an extender without weight", configHead + "extenders: [{urlPrefix: 'http://127.0.0.1:1', prioritizeVerb: rank}]",
			"error: weight has to be above 0"},
		{"two that bind", configHead +
			"extenders: [{urlPrefix: 'http://127.0.0.1:1', bindVerb: b}, {urlPrefix: 'http://127.0.0.1:2', bindVerb: b}]", "error: one may"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			list, err := ReadConfig([]byte(test.text), nil)
			if err != nil {
				got = "error: " + err.Error()
			}
			for _, p := range list {
				got += fmt.Sprintf("%s %v %v %d spread, %s", p.Name, p.Off, p.Weights, len(p.Spread), p.Fit.Type)
				for _, e := range p.Extenders {
					got += fmt.Sprintf(", extender %s %d %s %v", e.URL, e.Weight, e.Timeout, e.Manages)
				}
			}
			want, isError := strings.CutPrefix(test.want, "error: ")
			if isError && (err == nil || !strings.Contains(got, want)) || !isError && got != want {
				t.Errorf("%s: got %s, want %s", test.name, got, test.want)
			}
		})
	}
}

// TestBindTime: no time for the binding of volumes is none at all, and the longest is not a time in the past.
func TestBindTime(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 1, "5": 5 * time.Second, "9223372036854775807": resource.Seconds(math.MaxInt64)} {
		t.Run(text, func(t *testing.T) {
			list, err := ReadConfig([]byte(configHead+
				"profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: "+text+"}}]}]"), nil)
			if err != nil || len(list) != 1 || list[0].bindTime() != want {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

// TestProfiles decides one pod as the profiles of several schedulers would.
func TestProfiles(t *testing.T) {
	zoneB := &corev1.NodeAffinity{}
	must(yaml.UnmarshalStrict([]byte(
		`requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}`),
		zoneB))
	for _, test := range []struct {
		name    string
		profile Profile
		want    string
	}{
		{"the default", Profile{}, "empty"},
		{"most allocated first",
			Profile{Fit: Strategy{Type: mostAllocated}, Weights: map[string]int64{"NodeResourcesBalancedAllocation": 0}}, "used"},
		{"taints do not matter",
			Profile{Off: []string{"TaintToleration"}, Weights: map[string]int64{"NodeResourcesFit": 100}}, "tainted"},
		{"affinity of the profile", Profile{Affinity: zoneB}, "used"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.profile.Name = "own"
			if err := test.profile.Check(); err != nil {
				t.Fatal(err)
			}
			st := site(node("used", "zone: b", ""), node("empty", "zone: a", ""))
			big := node("tainted", "zone: a", "spec: {taints: [{key: k, effect: NoSchedule}]}")
			must(yaml.Unmarshal([]byte(`{cpu: 64, memory: 128Gi, pods: 10}`), &big.Status.Allocatable))
			st.setNode(big.Name, big)
			st.profiles["own"] = &test.profile
			st.add(pod("there", "", "cpu=1,memory=2Gi", ""), "used")
			p := pod("p", "", "cpu=1,memory=2Gi", "")
			p.Spec.SchedulerName = "own"
			if got := st.where(p); got != test.want {
				t.Errorf("%+v: %s, want %s", test.profile, got, test.want)
			}
		})
	}
}

// TestShapeOfOld refuses a shape of storage where nodes are not ranked by it, as in 1.36.
func TestShapeOfOld(t *testing.T) {
	const text = configHead + "profiles: [{pluginConfig: [{name: VolumeBinding, " +
		"args: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}]}]"
	for minor, want := range map[int]string{37: "",
		36: "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"} {
		on, err := features.New(minor, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig([]byte(text), on); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("1.%d: %v, want %q", minor, err, want)
		}
	}
}
