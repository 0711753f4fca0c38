// Package pressure decides when a node runs short of memory, disk or process numbers: which eviction thresholds are crossed, which
// conditions of the Node follow, and which pod goes first. It is pure but for Read, and keeps upstream's signals, ranking and texts
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/).
package pressure

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource"
)

// A Signal names what a threshold looks at.
type Signal string

// The signals.
const (
	MemoryAvailable  Signal = "memory.available"
	NodefsAvailable  Signal = "nodefs.available" // of pods' volumes and logs
	NodefsInodesFree Signal = "nodefs.inodesFree"
	ImagefsAvailable Signal = "imagefs.available" // of images and containers' own files
	ImagefsInodes    Signal = "imagefs.inodesFree"
	PIDAvailable     Signal = "pid.available"
)

// A property ties a signal to the node's status.
type property struct {
	condition corev1.NodeConditionType
	resource  corev1.ResourceName // starved
	urgency   int                 // less is first
}

var properties = map[Signal]property{
	MemoryAvailable:  {corev1.NodeMemoryPressure, corev1.ResourceMemory, 0},
	PIDAvailable:     {corev1.NodePIDPressure, "pids", 2},
	NodefsAvailable:  {corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage, 1},
	NodefsInodesFree: {corev1.NodeDiskPressure, "inodes", 1},
	ImagefsAvailable: {corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage, 1},
	ImagefsInodes:    {corev1.NodeDiskPressure, "inodes", 1},
}

// Condition is the condition of the Node that the signal sets.
func (s Signal) Condition() corev1.NodeConditionType { return properties[s].condition }

// Starved is the resource that there is too little of.
func (s Signal) Starved() corev1.ResourceName { return properties[s].resource }

// A Threshold is crossed when less than so much is left.
type Threshold struct {
	Signal  Signal
	Percent float64 // of the capacity; 0: Amount counts
	Amount  int64   // bytes, inodes or processes

	Grace time.Duration // for so long it is crossed before a pod has to go (soft); 0: at once (hard)

	// Reclaim, or a share of the capacity, is the amount more that must be left before the threshold no longer counts as crossed.
	Reclaim        int64
	ReclaimPercent float64
}

// String is the threshold as --eviction takes it.
func (t Threshold) String() string {
	if t.Percent > 0 {
		return fmt.Sprintf("%s<%g%%", t.Signal, t.Percent)
	}
	return fmt.Sprintf("%s<%d", t.Signal, t.Amount)
}

// Default are the thresholds of a node that nobody tuned. Disk is a smaller share than upstream's 10 and 15 %, as k3s has it: the
// machine's disk is often its owner's too.
const Default = "memory.available<100Mi,nodefs.available<5%,imagefs.available<5%,nodefs.inodesFree<5%,imagefs.inodesFree<5%"

// Parse reads thresholds as the kubelet's flag --eviction-hard has them: "memory.available<100Mi,nodefs.available<5%". "" and "none"
// are no thresholds.
func Parse(text string) (list []Threshold, err error) {
	if text == "" || text == "none" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "<")
		s := Signal(name)
		if _, known := properties[s]; !ok || !known {
			return nil, fmt.Errorf("%q is no eviction threshold: want SIGNAL<QUANTITY or SIGNAL<PERCENT%%, of memory.available, "+
				"nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available", part)
		}
		if slices.ContainsFunc(list, func(t Threshold) bool { return t.Signal == s }) {
			return nil, fmt.Errorf("eviction threshold %s is given twice", name)
		}
		t := Threshold{Signal: s}
		if t.Percent, t.Amount, err = share(value); err != nil {
			return nil, fmt.Errorf("eviction threshold %s: %w", name, err)
		}
		list = append(list, t)
	}
	return list, nil
}

// share reads a percentage or an amount.
func share(value string) (percent float64, n int64, err error) {
	if text, isShare := strings.CutSuffix(value, "%"); isShare {
		if percent, err = strconv.ParseFloat(text, 64); err != nil || !(percent >= 0 && percent <= 100) {
			return 0, 0, fmt.Errorf("%q is no percentage", value)
		}
		return percent, 0, nil
	}
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() < 0 {
		return 0, 0, fmt.Errorf("%q is no quantity", value)
	}
	return 0, q.Value(), nil
}

// ParseAll reads hard and soft thresholds, the graces that the soft ones must have, and how much more must be left for either to be passed:
// by signal, as the kubelet's evictionSoftGracePeriod and evictionMinimumReclaim have them. Hard ones are in front.
func ParseAll(hard, soft string, grace, reclaim map[string]string) ([]Threshold, error) {
	list, err := Parse(hard)
	if err != nil {
		return nil, err
	}
	later, err := Parse(soft)
	if err != nil {
		return nil, err
	}
	for i := range later {
		t := &later[i]
		if t.Grace, err = time.ParseDuration(grace[string(t.Signal)]); err != nil || t.Grace <= 0 {
			return nil, fmt.Errorf("soft eviction threshold %s needs a grace period, as %s=1m30s, not %q", t, t.Signal, grace[string(t.Signal)])
		}
	}
	for name := range grace {
		if !slices.ContainsFunc(later, func(t Threshold) bool { return string(t.Signal) == name }) {
			return nil, fmt.Errorf("a grace period is given for %s, which has no soft eviction threshold", name)
		}
	}
	list = append(list, later...)
	for name, value := range reclaim {
		percent, n, err := share(value)
		if _, known := properties[Signal(name)]; err != nil || !known {
			return nil, fmt.Errorf("minimum reclaim %s=%s: want a signal, and a quantity or a percentage", name, value)
		}
		for i := range list {
			if string(list[i].Signal) == name {
				list[i].ReclaimPercent, list[i].Reclaim = percent, n
			}
		}
	}
	return list, nil
}

// A Reading is an amount that is left, of a capacity.
type Reading struct{ Available, Capacity int64 }

// Of is the amount at which the threshold is crossed, given the capacity.
func (t Threshold) Of(capacity int64) int64 {
	if t.Percent > 0 {
		return int64(float64(capacity) * t.Percent / 100)
	}
	return t.Amount
}

// passed is the amount from which on the threshold is no longer crossed, once it was.
func (t Threshold) passed(capacity int64) int64 {
	return t.Of(capacity) + t.Reclaim + int64(float64(capacity)*t.ReclaimPercent/100)
}

// A Tracker remembers since when thresholds are crossed. The zero value has seen none.
type Tracker struct{ since map[Threshold]time.Time }

// Observe returns the thresholds that are crossed, the most urgent first. What could not be read crosses nothing.
func (k *Tracker) Observe(list []Threshold, readings map[Signal]Reading, now time.Time) (crossed []Threshold) {
	since := map[Threshold]time.Time{}
	for _, t := range list {
		r, ok := readings[t.Signal]
		at, was := k.since[t]
		switch {
		case !ok || r.Available >= t.passed(r.Capacity) || !was && r.Available >= t.Of(r.Capacity):
			continue
		case !was:
			at = now
		}
		since[t] = at
		crossed = append(crossed, t)
	}
	k.since = since
	coldsort.StableFunc(crossed, func(a, b Threshold) int {
		return cmp.Compare(properties[a.Signal].urgency, properties[b.Signal].urgency)
	})
	return crossed
}

// Due returns those of the crossed thresholds that are so for longer than their grace: something has to be done.
func (k *Tracker) Due(crossed []Threshold, now time.Time) []Threshold {
	return slices.DeleteFunc(slices.Clone(crossed), func(t Threshold) bool { return now.Sub(k.since[t]) < t.Grace })
}

// Transition is for how long a condition stays after the last crossing, unless told otherwise: pods do not come back at once to where
// they were evicted.
const Transition = 5 * time.Minute

// Conditions remembers when each condition was last caused. The zero value is a node without pressure.
type Conditions struct {
	last map[corev1.NodeConditionType]time.Time
}

// Update notes what is crossed now.
func (c *Conditions) Update(now time.Time, crossed []Threshold) {
	for _, t := range crossed {
		if c.last == nil {
			c.last = map[corev1.NodeConditionType]time.Time{}
		}
		c.last[t.Signal.Condition()] = now
	}
}

// True lists the conditions that hold, in the order of their names: those that were caused within the transition period.
func (c *Conditions) True(now time.Time, transition time.Duration) (list []corev1.NodeConditionType) {
	for t, last := range c.last {
		if now.Sub(last) < transition {
			list = append(list, t)
		}
	}
	slices.Sort(list)
	return list
}
