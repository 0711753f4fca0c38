package scheduler

import (
	"iter"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource"
)

// noObjects is a Reader of an empty cluster.
type noObjects struct{ resource.Reader }

func (noObjects) Lookup(resource.Kind, string, string) resource.Object { return nil }
func (noObjects) Each(resource.Kind, string) iter.Seq[resource.Object] {
	return func(func(resource.Object) bool) {}
}

// TestScores checks single scores against figures worked out by upstream's formulas.
func TestScores(t *testing.T) {
	st := site(node("n1", "", ""), node("n2", "", ""))
	st.add(pod("there", "", "cpu=1,memory=2Gi", ""), "n1")
	s := st.nodes[0]
	for _, test := range []struct {
		name  string
		asks  string
		score func(*nodeVerdicts, *nodeInfo) int64
		want  int64
	}{
		{"least allocated", "cpu=1,memory=2Gi", scoreFit, 50},
		{"least allocated, nothing asked", "", scoreFit, (72 + 72) / 2}, // (4000-1100)/4000 and (8192-2048-200)/8192
		{"least allocated, too much", "cpu=9,memory=9Gi", scoreFit, 0},
		{"balanced", "cpu=1,memory=2Gi", scoreBalanced, 75},     // as even as it was
		{"balanced, cpu only", "cpu=2", scoreBalanced, 50 + 12}, // 3/4 against 1/4: 75, and was 100
		{"balanced, nothing asked", "", scoreBalanced, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := st.task(pod("p-"+test.name[:3], "", test.asks, "")).class
			c.prepare()
			if got := test.score(c.verdicts, s); got != test.want {
				t.Errorf("%s: %d, want %d", test.name, got, test.want)
			}
		})
	}
}

// TestStrategies ranks a node with 4 cpus, 8Gi and 2 of 4 gpus used by what a profile says.
func TestStrategies(t *testing.T) {
	shape := []Point{{0, 0}, {50, 10}, {100, 2}}
	gpu := []Weight{{"example.com/gpu", 3}, {"cpu", 1}}
	for _, test := range []struct {
		name, asks string
		strategy   Strategy
		even       []Weight
		fit, same  int64
	}{
		{"most", "cpu=1,memory=2Gi", Strategy{Type: mostAllocated}, nil, 50, 75},
		{"most, more than there is", "cpu=9,memory=9Gi", Strategy{Type: mostAllocated}, nil, 100, 75},
		{"most, of gpus too", "cpu=1,memory=2Gi,example.com/gpu=1", Strategy{Type: mostAllocated, Of: gpu}, nil, (75*3 + 50) / 4, 75},
		{"gpus that are not asked for", "cpu=1,memory=2Gi", Strategy{Of: gpu}, nil, 50, 75},
		{"by ratio", "cpu=1,memory=4Gi", Strategy{Type: byRatio, Shape: shape}, nil, 80,
			50 + (50+(87-100))/2}, // 100 at half, 60 at three quarters
		{"by ratio, before the first point", "cpu=1,memory=2Gi", Strategy{Type: byRatio, Shape: []Point{{60, 3}, {70, 4}}}, nil, 30, 75},
		{"by ratio, more than there is", "cpu=9,memory=2Gi", Strategy{Type: byRatio, Shape: shape}, nil, 60, 50 + (50+(75-100))/2},
		{"even with gpus", "cpu=1,memory=2Gi,example.com/gpu=2", Strategy{}, []Weight{{"cpu", 1}, {"memory", 1}, {"example.com/gpu", 1}},
			50, 50 + (50+(76-88))/2},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := node("n1", "", "")
			must(yaml.Unmarshal([]byte("{cpu: 4, memory: 8Gi, pods: 10, example.com/gpu: 4}"), &n.Status.Allocatable))
			st := site(n)
			st.profiles["own"] = &Profile{Name: "own", Fit: test.strategy, Even: test.even}
			st.add(pod("there", "", "cpu=1,memory=2Gi,example.com/gpu=2", ""), "n1")
			p := pod("p", "", test.asks, "")
			p.Spec.SchedulerName = "own"
			c := st.task(p).class
			c.prepare()
			if fit, same := scoreFit(c.verdicts, st.nodes[0]), scoreBalanced(c.verdicts, st.nodes[0]); fit != test.fit || same != test.same {
				t.Errorf("%s: %d and %d, want %d and %d", test.name, fit, same, test.fit, test.same)
			}
		})
	}
}

func TestImageScore(t *testing.T) {
	with := func(size int64) *state {
		n1 := node("n1", "", "")
		n1.Status.Images = []corev1.ContainerImage{{Names: []string{"docker.io/i:latest", "i:latest"}, SizeBytes: size}}
		st := site(n1, node("n2", "", ""))
		st.read = noObjects{}
		return st
	}
	for _, test := range []struct {
		name       string
		size, want int64
	}{
		{"too small to matter", 1048576, 0},
		{"the largest that matters",
			2097152000, 100},
		{"half of the largest", 1048576000, (500 - 23) * 100 / (1000 - 23)},
	} {
		t.Run(test.name, func(t *testing.T) { // one node of two holds it
			st := with(test.size)
			task := st.task(pod("p", "", "", ""))
			st.refresh(task.class)
			if got := scoreImages(task.class.verdicts, st.nodes[0]); got != test.want {
				t.Errorf("%d bytes: %d, want %d", test.size, got, test.want)
			}
			if got := scoreImages(task.class.verdicts, st.nodes[1]); got != 0 {
				t.Errorf("without: %d", got)
			}
		})
	}
}

func TestProportion(t *testing.T) {
	for _, test := range []struct {
		name string
		raw  []int64
		less bool
		want []int64
	}{
		{"more is better", []int64{0, 1, 4}, false, []int64{0, 50, 200}},
		{"less is better", []int64{0, 1, 4}, true, []int64{200, 150, 0}},
		{"all the same", []int64{0, 0, 0}, true, []int64{200, 200, 200}},
	} {
		t.Run(test.name, func(t *testing.T) {
			total := make([]int64, 3)
			normalize(test.raw, []int32{0, 1, 2}, total, 2, test.less)
			for i := range total {
				if total[i] != test.want[i] {
					t.Errorf("%v, less %v: %v", test.raw, test.less, total)
				}
			}
		})
	}
}
