package topology

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

// A Checkpoint keeps which containers have which CPUs and memory for themselves, in the state files of the kubelet's CPU and memory
// managers, which survive the agent. Safe for concurrent use.
type Checkpoint struct {
	dir  string
	base Choice // without what is given

	mu   sync.Mutex
	have Assignments
	left bool // the agent before gave CPUs exclusively, and this one does not
}

// The files below the agent's root directory. Their names and fields are the kubelet's; its checksum is neither written nor read.
const (
	cpuFile    = "cpu_manager_state"
	memoryFile = "memory_manager_state"
)

type cpuState struct {
	PolicyName    string                          `json:"policyName"`
	DefaultCPUSet string                          `json:"defaultCpuSet"`
	Entries       map[types.UID]map[string]string `json:"entries,omitempty"`
}

type memoryState struct {
	PolicyName string                           `json:"policyName"`
	Entries    map[types.UID]map[string][]Block `json:"entries,omitempty"`
}

// Open returns the checkpoint as the last agent left it in dir, for the machine below sys, the mount point of sysfs. It fails if the
// settings can't be kept to on this machine.
func Open(dir, sys string, s Settings, log *slog.Logger) (*Checkpoint, error) {
	l := &Checkpoint{dir: dir, base: Choice{Settings: s}, have: Assignments{}}
	m, err := Read(sys)
	if err != nil && (s.On() || s.Policy != None && s.Policy != "") {
		return nil, fmt.Errorf("read the machine's topology: %w", err)
	}
	if n := m.Nodes().Count(); s.Policy != None && s.Policy != "" && n > cmp.Or(s.MaxNodes, MaxNodes) {
		return nil, fmt.Errorf("the machine has %d NUMA nodes, more than the %d on which anything is aligned: allow more with the topology "+
			"manager's option max-allowable-numa-nodes, or set its policy to none", n, cmp.Or(s.MaxNodes, MaxNodes))
	}
	if n := m.Nodes(); s.CPUs.AlignBySocket && m.sockets(n) > n.Count() {
		return nil, errors.New("align-by-socket is for machines with a NUMA node or more on each socket")
	}
	l.base.Machine = m
	if s.StaticCPUs {
		if l.base.Reserved, err = reserve(m, s); err != nil {
			return nil, err
		}
	}
	if err := l.load(); err != nil {
		log.Warn("which container has which CPUs and memory can't be read and is forgotten", "err", err)
		l.have = Assignments{}
	}
	return l, nil
}

// reserve chooses the CPUs that are nobody's for itself. Without any, the last container could take the CPUs that the machine needs.
func reserve(m Machine, s Settings) (cpuset.CPUSet, error) {
	set, err := cpuset.Parse(s.ReservedCPUs)
	if err != nil {
		return set, fmt.Errorf("reserved CPUs %q: %w", s.ReservedCPUs, err)
	}
	if !set.IsSubsetOf(m.All()) {
		return set, fmt.Errorf("reserved CPUs %q: the machine has %s", s.ReservedCPUs, m.All())
	}
	if set.IsEmpty() {
		if s.ReservedCPU <= 0 {
			return set, errors.New("the CPU manager policy static needs reserved CPUs: reserve cpu for the system, or name the CPUs")
		}
		set, err = m.TakeCPUs(m.All(), int((s.ReservedCPU+999)/1000), CPUOptions{})
	}
	return set, err
}

func (l *Checkpoint) load() error {
	var cpus cpuState
	var memory memoryState
	if err := errors.Join(read(filepath.Join(l.dir, cpuFile), &cpus), read(filepath.Join(l.dir, memoryFile), &memory)); err != nil {
		return err
	}
	put := func(pod types.UID, container string, change func(a *Assignment)) {
		if l.have[pod] == nil {
			l.have[pod] = map[string]Assignment{}
		}
		a := l.have[pod][container]
		change(&a)
		l.have[pod][container] = a
	}
	if l.left = len(cpus.Entries) > 0 && !l.base.Settings.StaticCPUs; l.left {
		cpus.Entries = nil
	}
	for pod, containers := range cpus.Entries {
		for name, text := range containers {
			set, err := cpuset.Parse(text)
			if err != nil {
				return fmt.Errorf("the CPUs of %s: %w", name, err)
			}
			if set.IsSubsetOf(l.base.Machine.All().Difference(l.base.Reserved)) { // else the machine has others now
				put(pod, name, func(a *Assignment) { a.CPUs = set })
			}
		}
	}
	if !l.base.Settings.StaticMemory {
		return nil
	}
	for pod, containers := range memory.Entries {
		for name, blocks := range containers {
			put(pod, name, func(a *Assignment) { a.Memory = blocks })
		}
	}
	return nil
}

func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// save writes the files. l is locked. Memory goes first: a container counts as given only with its CPUs.
func (l *Checkpoint) save() error {
	memory := memoryState{PolicyName: "Static", Entries: map[types.UID]map[string][]Block{}}
	cpus := cpuState{PolicyName: "static", DefaultCPUSet: l.shared().String(), Entries: map[types.UID]map[string]string{}}
	for pod, containers := range l.have {
		memory.Entries[pod], cpus.Entries[pod] = map[string][]Block{}, map[string]string{}
		for name, a := range containers {
			if a.Memory != nil {
				memory.Entries[pod][name] = a.Memory
			}
			if !a.CPUs.IsEmpty() {
				cpus.Entries[pod][name] = a.CPUs.String()
			}
		}
	}
	if l.base.Settings.StaticMemory {
		if err := write(filepath.Join(l.dir, memoryFile), memory); err != nil {
			return err
		}
	}
	if l.base.Settings.StaticCPUs {
		return write(filepath.Join(l.dir, cpuFile), cpus)
	}
	return nil
}

func write(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(path, text, 0o600); err != nil {
		return fmt.Errorf("keep who has which CPUs and memory: %w", err)
	}
	return nil
}

// choice gathers what a container can choose from. l is locked.
func (l *Checkpoint) choice(pod *corev1.Pod, c *corev1.Container) Choice {
	ch := l.base
	ch.Have = l.have
	taken := cpuset.New()
	of := l.have[pod.UID]
	for i := range pod.Spec.InitContainers {
		switch o := &pod.Spec.InitContainers[i]; {
		case o.Name == c.Name:
		case podspec.Sidecar(o):
			taken = taken.Union(of[o.Name].CPUs)
		default:
			ch.Spare.CPUs = ch.Spare.CPUs.Union(of[o.Name].CPUs)
		}
	}
	for i := range pod.Spec.Containers {
		if o := &pod.Spec.Containers[i]; o.Name != c.Name {
			taken = taken.Union(of[o.Name].CPUs)
		}
	}
	ch.Spare.CPUs = ch.Spare.CPUs.Difference(taken)
	return ch
}

// ask leaves out the memory of init containers: it is that of the main ones, who need it later.
func (l *Checkpoint) ask(pod *corev1.Pod, c *corev1.Container) Ask {
	a := l.base.Settings.AskOf(pod, c)
	for i := range pod.Spec.InitContainers {
		if o := &pod.Spec.InitContainers[i]; o.Name == c.Name && !podspec.Sidecar(o) {
			a.Memory = nil
		}
	}
	return a
}

// Wants says that a container asks for something that is given exclusively.
func (l *Checkpoint) Wants(pod *corev1.Pod, c *corev1.Container) bool {
	a := l.ask(pod, c)
	return a.CPUs > 0 || len(a.Memory) > 0
}

// Has says that a container has what it asks for.
func (l *Checkpoint) Has(pod *corev1.Pod, c *corev1.Container) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, has := l.ask(pod, c), l.have[pod.UID][c.Name]
	return has.CPUs.Size() == a.CPUs && (len(a.Memory) == 0) == (len(has.Memory) == 0)
}

// Hints are the places where what a container asks for can be had.
func (l *Checkpoint) Hints(pod *corev1.Pod, c *corev1.Container) []Hints {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.choice(pod, c).Hints(l.ask(pod, c))
}

// PodHints are the places where all that a pod asks for can be had.
func (l *Checkpoint) PodHints(pod *corev1.Pod) []Hints {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := l.base
	ch.Have = l.have
	return ch.Hints(l.base.Settings.AskOfPod(pod))
}

// Take chooses what a container gets, near some nodes if that is not 0, and keeps it.
func (l *Checkpoint) Take(pod *corev1.Pod, c *corev1.Container, near Mask) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	got, err := l.choice(pod, c).Take(l.ask(pod, c), near)
	if err != nil {
		return err
	}
	if l.have[pod.UID] == nil {
		l.have[pod.UID] = map[string]Assignment{}
	}
	l.have[pod.UID][c.Name] = got
	if err := l.save(); err != nil {
		delete(l.have[pod.UID], c.Name) // nobody has what the next agent would not know of
		return err
	}
	return nil
}

// Free takes back what a pod has.
func (l *Checkpoint) Free(pod types.UID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.have[pod] == nil {
		return nil
	}
	delete(l.have, pod)
	return l.save()
}

// Keep takes back what all pods have but those.
func (l *Checkpoint) Keep(used map[types.UID]bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.have)
	maps.DeleteFunc(l.have, func(uid types.UID, _ map[string]Assignment) bool { return !used[uid] })
	if len(l.have) == before {
		return nil
	}
	return l.save()
}

// Of tells what a container has for itself.
func (l *Checkpoint) Of(pod types.UID, container string) Assignment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.have[pod][container]
}

// Exclusive says that some container of the pod has CPUs for itself.
func (l *Checkpoint) Exclusive(pod types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.have[pod] {
		if !a.CPUs.IsEmpty() {
			return true
		}
	}
	return false
}

// Shared are the CPUs of all containers that have none for themselves.
func (l *Checkpoint) Shared() cpuset.CPUSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shared()
}

func (l *Checkpoint) shared() cpuset.CPUSet {
	set := l.base.Machine.All()
	for _, containers := range l.have {
		for _, a := range containers {
			set = set.Difference(a.CPUs)
		}
	}
	if l.base.Settings.CPUs.StrictCPUReservation {
		set = set.Difference(l.base.Reserved)
	}
	return set
}

// Left says that containers may run on CPUs that the last agent chose, and this one chooses none. Widened says that it is done.
func (l *Checkpoint) Left() bool { return l.left }

// Widened notes that all containers run on all CPUs again.
func (l *Checkpoint) Widened() error {
	l.left = false
	err := os.Remove(filepath.Join(l.dir, cpuFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Machine returns the machine that the checkpoint is about, and the CPUs of it that are nobody's for itself.
func (l *Checkpoint) Machine() (m Machine, reserved cpuset.CPUSet) {
	return l.base.Machine, l.base.Reserved
}

// Settings are those that the checkpoint was opened with.
func (l *Checkpoint) Settings() Settings { return l.base.Settings }
