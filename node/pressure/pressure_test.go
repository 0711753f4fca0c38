package pressure

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":     "[]",
		"none": "[]",
		"memory.available<100Mi, nodefs.available<5%": "[memory.available<104857600 nodefs.available<5%]",
		"memory.available":                            "error: is no eviction threshold",
		"memory.free<1":                               "error: is no eviction threshold",
		"pid.available<-1":                            "error: is no quantity",
		"pid.available<101%":                          "error: is no percentage",
		"pid.available<x%":                            "error: is no percentage",
		"pid.available<1,pid.available<2":             "error: is given twice",
		strings.Repeat("memory.available<1,", 1000):   "error: is given twice",
	} {
		t.Run(text, func(t *testing.T) {
			list, err := Parse(text)
			if got := fmt.Sprint(list); err == nil && got != want || err != nil && !strings.Contains(err.Error(),
				strings.TrimPrefix(want, "error: ")) {
				t.Errorf("%q: %s %v, want %s", text, got, err, want)
			}
		})
	}
	if list, err := Parse(Default); err != nil || len(list) != 5 {
		t.Errorf("the default: %v %v", list, err)
	}
}

func TestCrossed(t *testing.T) {
	list, err := Parse("nodefs.available<10%,pid.available<10,memory.available<100,imagefs.available<0%")
	if err != nil {
		t.Fatal(err)
	}
	now := map[Signal]Reading{NodefsAvailable: {9, 100}, PIDAvailable: {9, 100}, MemoryAvailable: {99, 1000}, ImagefsAvailable: {0, 100}}
	at := time.Unix(1e9, 0)
	if got := fmt.Sprint(new(Tracker).Observe(list, now, at)); got != "[memory.available<100 nodefs.available<10% pid.available<10]" {
		t.Error(got)
	}
	now = map[Signal]Reading{NodefsAvailable: {10, 100}, MemoryAvailable: {100, 1000}} // just enough, and one that can't be read
	if got := new(Tracker).Observe(list, now, at); len(got) != 0 {
		t.Error(got)
	}
}

func TestSoft(t *testing.T) {
	grace := map[string]string{"memory.available": "1m30s"}
	list, err := ParseAll("memory.available<100", "memory.available<300", grace, map[string]string{"memory.available": "10%"})
	if err != nil {
		t.Fatal(err)
	}
	var k Tracker
	at := time.Unix(1e9, 0)
	for _, step := range []struct {
		after     time.Duration
		left      int64
		met, acts string
	}{
		{0, 299, "[memory.available<300]", "[]"},
		{89 * time.Second, 299, "[memory.available<300]", "[]"},
		{90 * time.Second, 299, "[memory.available<300]", "[memory.available<300]"},
		{2 * time.Minute, 399, "[memory.available<300]", "[memory.available<300]"}, // not enough was reclaimed
		{3 * time.Minute, 400, "[]", "[]"},
		{4 * time.Minute, 399, "[]", "[]"},
		{5 * time.Minute, 99, "[memory.available<100 memory.available<300]", "[memory.available<100]"},
		{6 * time.Minute, 199, "[memory.available<100 memory.available<300]", "[memory.available<100]"},
		{6 * time.Minute, 200, "[memory.available<300]", "[]"},
	} {
		now := at.Add(step.after)
		met := k.Observe(list, map[Signal]Reading{MemoryAvailable: {step.left, 1000}}, now)
		if got, due := fmt.Sprint(met), fmt.Sprint(k.Due(met, now)); got != step.met || due != step.acts {
			t.Errorf("after %v with %d left: %s, due %s; want %s, due %s", step.after, step.left, got, due, step.met, step.acts)
		}
	}
	for want, bad := range map[string][4]string{
		"needs a grace period":         {"", "memory.available<1", "", ""},
		"has no soft":                  {"memory.available<1", "", "memory.available=1m", ""},
		"minimum reclaim":              {"memory.available<1", "", "", "memory.free=1"},
		"memory.available=x":           {"memory.available<1", "", "", "memory.available=x"},
		"as memory.available=1m30s, n": {"", "memory.available<1", "memory.available=-1m", ""},
	} {
		t.Run(want, func(t *testing.T) {
			one := func(pair string) map[string]string {
				k, v, ok := strings.Cut(pair, "=")
				if !ok {
					return nil
				}
				return map[string]string{k: v}
			}
			if _, err := ParseAll(bad[0], bad[1], one(bad[2]), one(bad[3])); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", bad, err, want)
			}
		})
	}
}

func TestTransition(t *testing.T) {
	var c Conditions
	at := time.Unix(1e9, 0)
	c.Update(at, []Threshold{{Signal: NodefsInodesFree}})
	c.Update(at.Add(time.Minute), nil)
	if got := c.True(at.Add(Transition-time.Second), Transition); fmt.Sprint(got) != "[DiskPressure]" {
		t.Error(got)
	}
	if got := c.True(at.Add(Transition), Transition); len(got) != 0 {
		t.Error(got)
	}
}

// use is a pod that asked for some memory and uses some.
func use(name string, priority int32, asked, used int64) Use {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Priority: &priority,
		Containers: []corev1.Container{{Name: "c",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(asked,
				resource.BinarySI)}}}}}}
	return Use{Pod: p, Containers: map[string]map[corev1.ResourceName]int64{"c": {corev1.ResourceMemory: used, "pids": used}}}
}

func TestRank(t *testing.T) {
	pods := []Use{use("modest", 0, 10, 5), use("important", 5, 0, 100), use("over", 0, 10, 20), use("far-over", 0, 10, 50)}
	order := func(r corev1.ResourceName) (s string) {
		Rank(r, pods)
		for _, u := range pods {
			s += u.Pod.Name + " "
		}
		return s
	}
	if got := order(corev1.ResourceMemory); got != "far-over over important modest " {
		t.Error(got)
	}
	if got := order("pids"); got != "far-over over modest important " {
		t.Error(got)
	}
}

func TestUnused(t *testing.T) {
	now := time.Unix(1e9, 0)
	old := now.Add(-time.Hour)
	images := []Image{{ID: "used", Bytes: 10, Kept: true, Seen: old}, {ID: "new", Bytes: 10, Seen: now.Add(-time.Minute)},
		{ID: "lately", Bytes: 10, Seen: old, Active: now.Add(-time.Minute)}, {ID: "never", Bytes: 10, Seen: old}}
	for want, ids := range map[int64]string{0: "", 5: "never ", 10: "never ", 11: "never lately ", 1000: "never lately "} {
		got := ""
		for _, i := range Unused(images, want, ImageAge, now) {
			got += i.ID + " "
		}
		if got != ids {
			t.Errorf("%d bytes: %s, want %s", want, got, ids)
		}
	}
	for _, tt := range []struct{ left, excess int64 }{{50, 0}, {16, 0}, {15, 5}, {0, 20}} {
		if got := Excess(Reading{tt.left, 100}, ImagesHigh, ImagesLow); got != tt.excess {
			t.Errorf("%d left: %d, want %d", tt.left, got, tt.excess)
		}
	}
}

func TestRefuses(t *testing.T) {
	pod := func(qos corev1.PodQOSClass, tolerations ...corev1.Toleration) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tolerations}, Status: corev1.PodStatus{QOSClass: qos}}
	}
	memory, disk := corev1.NodeMemoryPressure, corev1.NodeDiskPressure
	for _, tt := range []struct {
		name     string
		pod      *corev1.Pod
		critical bool
		of       []corev1.NodeConditionType
		want     bool
	}{
		{"no pressure", pod(corev1.PodQOSBestEffort), false, nil, false},
		{"best effort under memory pressure", pod(corev1.PodQOSBestEffort), false, []corev1.NodeConditionType{memory}, true},
		{"tolerated", pod(corev1.PodQOSBestEffort, corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: "Exists"}), false,
			[]corev1.NodeConditionType{memory}, false},
		{"burstable under memory pressure", pod(corev1.PodQOSBurstable), false, []corev1.NodeConditionType{memory}, false},
		{"guaranteed under disk pressure", pod(corev1.PodQOSGuaranteed), false, []corev1.NodeConditionType{disk}, true},
		{"burstable under both", pod(corev1.PodQOSBurstable), false, []corev1.NodeConditionType{disk, memory}, true},
		{"critical", pod(corev1.PodQOSBestEffort), true, []corev1.NodeConditionType{disk, memory}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Refuses(tt.pod, tt.critical, tt.of); got != tt.want {
				t.Errorf("%s, critical %v, %v: %v", tt.pod.Status.QOSClass, tt.critical, tt.of, got)
			}
		})
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	now := Read(dir, "")
	for _, s := range []Signal{MemoryAvailable, NodefsAvailable, ImagefsAvailable, PIDAvailable} {
		if r := now[s]; r.Available <= 0 || r.Capacity < r.Available {
			t.Errorf("%s: %+v", s, r)
		}
	}
	if size, files := Walk(dir + "/none"); size != 0 || files != 0 {
		t.Error(size, files)
	}
}

func TestIdle(t *testing.T) {
	now := time.Unix(10000, 0)
	var got []string
	for _, i := range Idle([]Image{
		{ID: "old", Seen: now.Add(-2 * time.Hour)}, {ID: "kept", Seen: now.Add(-2 * time.Hour), Kept: true},
		{ID: "new", Seen: now.Add(-time.Minute)},
		{ID: "used", Seen: now.Add(-2 * time.Hour), Active: now.Add(-time.Minute)},
		{ID: "left", Seen: now.Add(-3 * time.Hour), Active: now.Add(-2 * time.Hour)},
	}, time.Hour, now) {
		got = append(got, i.ID)
	}
	if !slices.Equal(got, []string{"old", "left"}) {
		t.Error(got)
	}
}
