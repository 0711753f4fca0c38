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
	"k8s.io/apimachinery/pkg/api/resource"
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
		if share, isShare := strings.CutSuffix(value, "%"); isShare {
			if t.Percent, err = strconv.ParseFloat(share, 64); err != nil || t.Percent < 0 || t.Percent > 100 {
				return nil, fmt.Errorf("eviction threshold %s: %q is no percentage", name, value)
			}
		} else {
			q, err := resource.ParseQuantity(value)
			if err != nil || q.Sign() < 0 {
				return nil, fmt.Errorf("eviction threshold %s: %q is no quantity", name, value)
			}
			t.Amount = q.Value()
		}
		list = append(list, t)
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

// Crossed returns the thresholds that are crossed, the most urgent first. What could not be read crosses nothing.
func Crossed(list []Threshold, now map[Signal]Reading) (crossed []Threshold) {
	for _, t := range list {
		if r, ok := now[t.Signal]; ok && r.Available < t.Of(r.Capacity) {
			crossed = append(crossed, t)
		}
	}
	slices.SortStableFunc(crossed, func(a, b Threshold) int {
		return cmp.Compare(properties[a.Signal].urgency, properties[b.Signal].urgency)
	})
	return crossed
}

// Transition is for how long a condition stays after the last crossing: pods do not come back at once to where they were evicted.
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

// True lists the conditions that hold, in the order of their names.
func (c *Conditions) True(now time.Time) (list []corev1.NodeConditionType) {
	for t, last := range c.last {
		if now.Sub(last) < Transition {
			list = append(list, t)
		}
	}
	slices.Sort(list)
	return list
}
