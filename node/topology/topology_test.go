package topology

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
	"pgregory.net/rapid"
)

// machine makes one whose threads of a core are numbered as Linux numbers them: the second ones after all first ones.
func machine(sockets, nodes, cores, threads int) Machine {
	m := Machine{Memory: map[int]map[string]uint64{}}
	all := sockets * nodes * cores
	for t := range threads {
		for i := range all {
			m.CPUs = append(m.CPUs, CPU{ID: t*all + i, Core: i, Node: i / cores, Socket: i / cores / nodes})
		}
	}
	for n := range sockets * nodes {
		m.Memory[n] = map[string]uint64{"memory": 10 << 30, "hugepages-2Mi": 1 << 30}
	}
	return m
}

// sysfs writes a machine as the kernel shows it.
func sysfs(t *testing.T, m Machine) string {
	t.Helper()
	dir := t.TempDir()
	put := func(path, format string, args ...any) {
		path = filepath.Join(dir, "devices/system", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, format+"\n", args...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("cpu/online", "%s", m.All())
	for _, c := range m.CPUs {
		put(fmt.Sprintf("cpu/cpu%d/topology/physical_package_id", c.ID), "%d", c.Socket)
		put(fmt.Sprintf("cpu/cpu%d/topology/thread_siblings_list", c.ID), "%s", m.where(func(o CPU) bool { return o.Core == c.Core }))
	}
	for n, memory := range m.Memory {
		node := fmt.Sprintf("node/node%d/", n)
		put(node+"cpulist", "%s", m.On(MaskOf(n)))
		put(node+"meminfo", "Node %d MemTotal: %d kB\nNode %d MemFree: 1 kB", n, (memory["memory"]+memory["hugepages-2Mi"])>>10, n)
		put(node+"hugepages/hugepages-2048kB/nr_hugepages", "%d", memory["hugepages-2Mi"]>>21)
		put(node+"hugepages/hugepages-1048576kB/nr_hugepages", "0")
	}
	return dir
}

func TestRead(t *testing.T) {
	t.Attr("retry", "never")
	for _, m := range []Machine{machine(1, 1, 2, 1), machine(2, 1, 4, 2), machine(2, 2, 3, 2), machine(1, 4, 2, 1)} {
		got, err := Read(sysfs(t, m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("read %+v, %v; want %+v", got, err, m)
		}
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("a machine without CPUs is read")
	}
	if m, err := Read("/sys"); err != nil || len(m.CPUs) == 0 { // this one
		t.Errorf("%+v, %v", m, err)
	}
}

func TestTakeCPUs(t *testing.T) {
	t.Attr("retry", "never")
	two := machine(2, 1, 4, 2) // node 0: 0-3,8-11; node 1: 4-7,12-15
	for _, c := range []struct {
		name string
		free string
		n    int
		o    CPUOptions
		want string
	}{
		{"a core", "0-15", 2, CPUOptions{}, "0,8"},
		{"a socket", "0-15", 8, CPUOptions{}, "0-3,8-11"},
		{"a broken core first", "1-15", 1, CPUOptions{}, "8"},
		{"the fuller node that holds it", "0-15", 3, CPUOptions{}, "0-1,8"},
		{"the node where little else is free", "0-3,4,12,8", 2, CPUOptions{}, "4,12"},
		{"whole socket and a rest", "0-15", 10, CPUOptions{}, "0-4,8-12"},
		{"whole cores only", "1-15", 2, CPUOptions{FullPCPUsOnly: true}, "1,9"},
		{"spread", "0-15", 10, CPUOptions{DistributeCPUsAcrossNUMA: true}, "0-2,4-6,8-9,12-13"},
		{"spread whole cores", "0-15", 12, CPUOptions{DistributeCPUsAcrossNUMA: true, FullPCPUsOnly: true}, "0-2,4-6,8-10,12-14"},
		{"no need to spread", "0-15", 4, CPUOptions{DistributeCPUsAcrossNUMA: true}, "0-1,8-9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			free, err := cpuset.Parse(c.free)
			if err != nil {
				t.Fatal(err)
			}
			got, err := two.TakeCPUs(free, c.n, c.o)
			if err != nil || got.String() != c.want {
				t.Errorf("%s: %d of %s: %s, %v; want %s", c.name, c.n, c.free, got, err, c.want)
			}
		})
	}
	if _, err := two.TakeCPUs(cpuset.New(1, 2), 3, CPUOptions{}); err == nil || !strings.Contains(err.Error(), "not enough cpus available") {
		t.Errorf("more than there is: %v", err)
	}
	if _, err := two.TakeCPUs(cpuset.New(1, 2, 3), 2, CPUOptions{FullPCPUsOnly: true}); err == nil ||
		!strings.Contains(err.Error(), "not enough free physical CPUs") {
		t.Errorf("no whole core is free: %v", err)
	}
}

func drawMachine(t *rapid.T) Machine {
	in := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
	return machine(in("sockets", 2), in("nodes", 2), in("cores", 4), in("threads", 2))
}

func drawCPUs(t *rapid.T, m Machine, name string) cpuset.CPUSet {
	bits := rapid.Uint32().Draw(t, name)
	return m.where(func(c CPU) bool { return bits&(1<<c.ID) != 0 })
}

// TestTakenCPUs checks what every choice of CPUs keeps to.
func TestTakenCPUs(t *testing.T) {
	t.Attr("retry", "never")
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		free := drawCPUs(t, m, "free")
		n := rapid.IntRange(0, 32).Draw(t, "n")
		o := CPUOptions{FullPCPUsOnly: rapid.Bool().Draw(t, "full"), DistributeCPUsAcrossNUMA: rapid.Bool().Draw(t, "distribute")}
		if o.FullPCPUsOnly {
			n = n / m.Threads() * m.Threads()
		}
		usable := free
		if o.FullPCPUsOnly {
			usable = m.wholeCores(free)
		}
		got, err := m.TakeCPUs(free, n, o)
		if (usable.Size() >= n) != (err == nil) {
			t.Fatalf("%d of %s: %v", n, usable, err)
		}
		if err != nil || n == 0 {
			return
		}
		if got.Size() != n || !got.IsSubsetOf(usable) {
			t.Fatalf("%d of %s: %s", n, usable, got)
		}
		if o.FullPCPUsOnly && !m.wholeCores(got).Equals(got) {
			t.Fatalf("%s breaks cores", got)
		}
		for _, k := range m.Nodes().Nodes() {
			if usable.Intersection(m.On(MaskOf(k))).Size() >= n && m.spread(got).Count() > 1 {
				t.Fatalf("%d of %s: %s, though node %d holds them", n, usable, got, k)
			}
		}
	})
}

func TestMerge(t *testing.T) {
	t.Attr("retry", "never")
	all := MaskOf(0, 1)
	h := func(pairs ...any) (list Hints) {
		list = Hints{}
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, Hint{pairs[i].(Mask), pairs[i+1].(bool)})
		}
		return list
	}
	n0, n1 := MaskOf(0), MaskOf(1)
	for _, c := range []struct {
		name     string
		requests []Hints
		// by policy: where, or ! for a refusal
		best, restricted, single string
	}{
		{"nothing asked", nil, "any", "any", "any"},
		{"no wish", []Hints{nil}, "any", "any", "any"},
		{"agree", []Hints{h(n0, true, n1, true, all, false), h(n1, true, all, false)}, "1", "1", "1"},
		{"either", []Hints{h(n0, true, n1, true, all, false)}, "0", "0", "0"},
		{"disagree", []Hints{h(n0, true, all, false), h(n1, true, all, false)}, "0", "!", "!"},
		{"needs both", []Hints{h(all, true)}, "any", "any", "!"},
		{"one needs both", []Hints{h(all, true), h(n1, true, all, false)}, "1", "1", "!"},
		{"impossible", []Hints{h(), h(n1, true)}, "1", "!", "!"},
		{"crowded", []Hints{h(all, false), h(n1, true, all, false)}, "any", "!", "!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for p, want := range map[Policy]string{BestEffort: c.best, Restricted: c.restricted, SingleNUMA: c.single, None: "any"} {
				on, err := p.Merge(all, c.requests)
				got := "any"
				switch {
				case err != nil:
					got = "!"
				case on != 0:
					got = strings.Trim(fmt.Sprint(on.Nodes()), "[]")
				}
				if got != want {
					t.Errorf("%s, %s: %s, want %s", c.name, p, got, want)
				}
			}
		})
	}
}

// TestMerged checks every merge against all combinations of hints.
func TestMerged(t *testing.T) {
	t.Attr("retry", "never")
	rapid.Check(t, func(t *rapid.T) {
		all := MaskOf(0, 1, 2)
		hint := rapid.Custom(func(t *rapid.T) Hint {
			return Hint{Mask(rapid.Uint64Range(1, 7).Draw(t, "on")), rapid.Bool().Draw(t, "preferred")}
		})
		var requests []Hints
		for range rapid.IntRange(0, 3).Draw(t, "requests") {
			requests = append(requests, rapid.SliceOfN(hint, 1, 4).Draw(t, "hints"))
		}
		possible := []Hint{{all, true}}
		for _, list := range requests {
			var next []Hint
			for _, a := range possible {
				for _, b := range list {
					if a.On&b.On != 0 {
						next = append(next, Hint{a.On & b.On, a.Preferred && b.Preferred})
					}
				}
			}
			possible = next
		}
		fewest := 4 // nodes of the best place where all are preferred
		for _, h := range possible {
			if h.Preferred {
				fewest = min(fewest, h.On.Count())
			}
		}
		on, err := Restricted.Merge(all, requests)
		if on == 0 {
			on = all
		}
		if (fewest == 4) != (err != nil) || err == nil && (on.Count() != fewest || !slices.Contains(possible, Hint{on, true})) {
			t.Fatalf("restricted: %v, %v; possible are %v", on.Nodes(), err, possible)
		}
		on, err = BestEffort.Merge(all, requests)
		if err != nil || on != 0 && !slices.ContainsFunc(possible, func(h Hint) bool { return h.On == on }) {
			t.Fatalf("best effort: %v, %v; possible are %v", on.Nodes(), err, possible)
		}
	})
}

func TestMemory(t *testing.T) {
	t.Attr("retry", "never")
	const gib = 1 << 30
	s := Stock{Machine: machine(2, 1, 1, 1), Reserved: map[int]map[string]uint64{0: {"memory": 2 * gib}}}
	take := func(n uint64, near Mask) string {
		blocks, err := s.Take(map[string]uint64{"memory": n * gib}, near)
		if err != nil {
			return "!"
		}
		s.Taken = append(s.Taken, blocks...)
		return strings.Trim(fmt.Sprint(blocks[0].On.Nodes()), "[]")
	}
	for i, c := range []struct {
		name string
		n    uint64
		near Mask
		want string
	}{
		{"on the first", 5, 0, "0"},
		{"too large for the rest of it",
			5, 0, "1"},
		{"on what is left of the second",
			4, 0, "1"},
		{"no room", 4, 0, "!"},
		{"near the first", 3, MaskOf(0), "0"},
		{"near the first, which is full",
			1, MaskOf(0), "1"},
		{"more than a node has",
			12, 0, "!"},
	} {
		if got := take(c.n, c.near); got != c.want {
			t.Errorf("%s: %d: %d GiB near %v: on %s, want %s", c.name, i, c.n, c.near.Nodes(), got, c.want)
		}
	}
	s.Taken = nil
	if got := take(12, 0); got != "0 1" {
		t.Errorf("what no node holds alone: %s", got)
	}
	if got := take(1, 0); got != "0 1" { // the nodes are a group now
		t.Errorf("beside a group: %s", got)
	}
}

// pod is a Guaranteed one: name=cpus for each container, i: for init containers and s: for sidecars.
func pod(uid string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Status: corev1.PodStatus{QOSClass: corev1.PodQOSGuaranteed}}
	for _, text := range containers {
		name, cpus, _ := strings.Cut(text, "=")
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			"cpu": apiresource.MustParse(cpus), "memory": apiresource.MustParse("1Gi")}}}
		switch name[:2] {
		case "s:":
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			fallthrough
		case "i:":
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

func open(t *testing.T, dir string, m Machine, s Settings) *Checkpoint {
	t.Helper()
	l, err := Open(dir, sysfs(t, m), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func takeAll(l *Checkpoint, p *corev1.Pod) error {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if err := l.Take(p, &list[i], 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestCheckpointSurvives(t *testing.T) {
	t.Attr("retry", "never")
	dir, m := t.TempDir(), machine(2, 1, 4, 1)
	static := Settings{StaticCPUs: true, StaticMemory: true, ReservedCPU: 500}
	l := open(t, dir, m, static)
	p := pod("u", "i:1=2", "s:1=1", "m1=2", "m2=1500m")
	if err := takeAll(l, p); err != nil {
		t.Fatal(err)
	}
	check := func(l *Checkpoint) {
		t.Helper()
		for name, want := range map[string]string{"i:1": "1-2", "s:1": "1", "m1": "2-3", "m2": ""} {
			if got := l.Of("u", name).CPUs.String(); got != want {
				t.Errorf("%s has %s, want %s", name, got, want)
			}
		}
		if got := l.Shared().String(); got != "0,4-7" {
			t.Errorf("all others have %s", got)
		}
		if b := l.Of("u", "m1").Memory; len(b) != 1 || b[0] != (Block{MaskOf(0), "memory", 1 << 30}) {
			t.Errorf("memory of m1 is %+v", b)
		}
		if l.Of("u", "i:1").Memory != nil {
			t.Error("an init container has memory beside that of the main ones")
		}
	}
	check(l)
	check(open(t, dir, m, static))
	small := open(t, dir, machine(1, 1, 3, 1), static) // the machine lost CPUs
	if got := small.Of("u", "m1").CPUs; !got.IsEmpty() {
		t.Errorf("m1 has CPUs that are gone: %s", got)
	}
	if shared := open(t, dir, m, Settings{}); !shared.Left() || shared.Shared().Size() != 8 || shared.Widened() != nil {
		t.Error("the policy none keeps what static gave")
	}
	if open(t, dir, m, Settings{}).Left() {
		t.Error("it is widened more than once")
	}
	l = open(t, t.TempDir(), m, Settings{StaticCPUs: true, ReservedCPUs: "0,4", CPUs: CPUOptions{StrictCPUReservation: true}})
	if err := takeAll(l, pod("u", "m1=6")); err != nil || l.Of("u", "m1").CPUs.String() != "1-3,5-7" {
		t.Errorf("%s, %v", l.Of("u", "m1").CPUs, err)
	}
	if !l.Shared().IsEmpty() {
		t.Errorf("strictly reserved CPUs are shared: %s", l.Shared())
	}
	if err := takeAll(l, pod("v", "m1=1")); err == nil {
		t.Error("a reserved CPU is given away")
	}
	if err := l.Free("u"); err != nil || l.Shared().String() != "1-3,5-7" {
		t.Errorf("after Free: %s, %v", l.Shared(), err)
	}
}

func TestBadSettingsAndFiles(t *testing.T) {
	t.Attr("retry", "never")
	m := machine(1, 1, 2, 2)
	sys := sysfs(t, m)
	for want, s := range map[string]Settings{
		"needs reserved CPUs":    {StaticCPUs: true},
		"the machine has 0-3":    {StaticCPUs: true, ReservedCPUs: "7"},
		"not enough cpus":        {StaticCPUs: true, ReservedCPU: 9000},
		`reserved CPUs "0-": `:   {StaticCPUs: true, ReservedCPUs: "0-"},
		`reserved CPUs "1--2": `: {StaticCPUs: true, ReservedCPUs: "1--2"},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := Open(t.TempDir(), sys, s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", s, err, want)
			}
		})
	}
	for _, text := range []string{"", "{", "[]", `{"entries":{"u":{"c":"x"}}}`, `{"entries":{"u":{"c":"99999999999"}}}`, "null"} {
		dir := t.TempDir()
		for _, name := range []string{cpuFile, memoryFile} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := open(t, dir, m, Settings{StaticCPUs: true, StaticMemory: true, ReservedCPU: 1}).Shared().String(); got != "0-3" {
			t.Errorf("%s: %s", text, got)
		}
	}
	full := open(t, t.TempDir(), m, Settings{StaticCPUs: true, ReservedCPU: 1, CPUs: CPUOptions{FullPCPUsOnly: true}})
	err := takeAll(full, pod("u", "m1=1"))
	if err == nil || err.Error() != "SMT Alignment Error: requested 1 cpus not multiple cpus per core = 2" {
		t.Errorf("a part of a core: %v", err)
	}
}

// TestCheckpointNeverGivesTwice: whatever comes and goes, no CPU is two pods', none of the reserved is anybody's, and what is aligned lies
// where it was said.
func TestCheckpointNeverGivesTwice(t *testing.T) {
	t.Attr("retry", "never")
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		l := &Checkpoint{dir: dir, have: Assignments{}, base: Choice{Machine: m, Reserved: cpuset.New(0),
			Settings: Settings{StaticCPUs: true, StaticMemory: true}}}
		for i := range rapid.IntRange(1, 8).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "free") {
				if err := l.Free(types.UID(fmt.Sprint(rapid.IntRange(0, i).Draw(t, "which")))); err != nil {
					t.Fatal(err)
				}
				continue
			}
			p := pod(fmt.Sprint(i), fmt.Sprintf("m1=%d", rapid.IntRange(1, 8).Draw(t, "cpus")))
			on, err := SingleNUMA.Merge(m.Nodes(), l.Hints(p, &p.Spec.Containers[0]))
			if err != nil {
				continue
			}
			if err := l.Take(p, &p.Spec.Containers[0], on); err != nil {
				t.Fatalf("what hints promise can't be had: %v", err)
			}
			if got := l.Of(p.UID, "m1"); m.spread(got.CPUs).Count() != 1 || got.Memory[0].On != m.spread(got.CPUs) {
				t.Fatalf("%+v does not lie on one node", got)
			}
		}
		seen := cpuset.New(0)
		for uid, containers := range l.have {
			if set := containers["m1"].CPUs; seen.Intersection(set).Size() > 0 {
				t.Fatalf("%s has %s, of which some are others'", uid, set)
			} else {
				seen = seen.Union(set)
			}
		}
		if !l.Shared().Difference(cpuset.New(0)).Intersection(seen).IsEmpty() {
			t.Fatal("what is exclusive is shared")
		}
	})
}

// Of equally many NUMA nodes those are taken that the firmware says are nearer to each other.
func TestPreferClosest(t *testing.T) {
	t.Attr("retry", "never")
	m := machine(4, 1, 2, 1)
	m.Far = map[int]map[int]int{0: {0: 10, 1: 30, 2: 30, 3: 11}, 1: {0: 30, 1: 10, 2: 20, 3: 30}, 2: {0: 30, 1: 20, 2: 10, 3: 30},
		3: {0: 11, 1: 30, 2: 30, 3: 10}}
	two := Fits(m.Nodes(), func(on Mask) bool { return on.Count() >= 2 }, func(on Mask) bool { return on.Count() >= 2 })
	for closest, want := range map[bool]Mask{false: MaskOf(0, 1), true: MaskOf(0, 3)} {
		on, err := Settings{Policy: Restricted, PreferClosest: closest}.Merge(m, []Hints{two})
		if err != nil || on != want {
			t.Errorf("closest %t: %v, %v, want %v", closest, on.Nodes(), err, want.Nodes())
		}
	}
	dir := sysfs(t, m)
	for path, text := range map[string]string{"online": "0-3", "node0/distance": "10 30 30 11", "node3/distance": "11 30 30"} {
		t.Run(path, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "devices/system/node", path), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	if got, err := Read(dir); err != nil || got.Far[0][3] != 11 || got.Far[0][1] != 30 || got.Far[3] != nil || got.Far[1] != nil {
		t.Errorf("%v, %v", got.Far, err)
	}
}

// All NUMA nodes of one socket are as good as one of them, where that is asked for.
func TestAlignBySocket(t *testing.T) {
	t.Attr("retry", "never")
	m := machine(2, 2, 4, 1) // NUMA nodes 0 and 1 on one socket, 2 and 3 on the other
	free := m.On(MaskOf(0, 1, 2)).Difference(cpuset.New(0, 1, 4, 5, 8, 9))
	has := func(on Mask) bool { return m.On(on).Size() >= 4 }
	can := func(on Mask) bool { return free.Intersection(m.On(on)).Size() >= 4 }
	for align, want := range map[bool]string{false: "!", true: "[0 1]"} {
		hints := Fits(m.Nodes(), has, can)
		if align {
			m.preferSockets(hints, has)
		}
		on, err := Restricted.Merge(m.Nodes(), []Hints{hints})
		got := fmt.Sprint(on.Nodes())
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("align %t: %s, want %s", align, got, want)
		}
	}
}

// A machine of more NUMA nodes than can be weighed is refused, unless they are allowed.
func TestManyNodes(t *testing.T) {
	t.Attr("retry", "never")
	dir := sysfs(t, machine(9, 1, 1, 1))
	for _, c := range []struct {
		name string
		s    Settings
		good bool
	}{
		{"no policy", Settings{}, true},
		{"more nodes than the policy bears",
			Settings{Policy: BestEffort}, false},
		{"as many as are allowed",
			Settings{Policy: BestEffort, MaxNodes: 9}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Open(t.TempDir(), dir, c.s, slog.New(slog.DiscardHandler)); (err == nil) != c.good {
				t.Errorf("%+v: %v", c.s, err)
			}
		})
	}
}
