// Package usage has what agents of nodes count of the processor time and the memory that is used, as package metrics takes it.
package usage

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Summary holds the figures that a node's agent counted.
type Summary struct {
	At         time.Time
	Node       Count
	Containers map[Container]Count
}

// A Container names one.
type Container struct{ Namespace, Pod, UID, Name string }

// A Count is of a node or a container. What is not known is nil.
type Count struct {
	Start  time.Time // when the counter started; zero: not known
	Total  *uint64   // CPU time since then, in nanoseconds
	Rate   *uint64   // CPU in billionths of a core, for those who know it and do not count
	Memory *uint64   // working set in bytes
}

// Counts says whether the node has a counter: one look at it does not tell the use.
func (s *Summary) Counts() bool { return s.Node.Total != nil && s.Node.Rate == nil }

// Shortest is the shortest time over which a use is measured.
const Shortest = time.Second

// CPU is the use between two counts in billionths of a core; before may be nil. ok is false when it is not known.
func (u Count) CPU(before *Count, at, beforeAt time.Time) (n uint64, ok bool) {
	switch {
	case u.Total == nil && u.Rate == nil:
		return 0, false
	case u.Total == nil:
		return *u.Rate, true
	case before != nil && before.Total != nil && *before.Total <= *u.Total && at.After(beforeAt):
		return per(*u.Total-*before.Total, at.Sub(beforeAt)), true
	case u.Start.IsZero() || at.Sub(u.Start) < Shortest || before == nil && u.Start.Before(beforeAt):
		return 0, false
	}
	return per(*u.Total, at.Sub(u.Start)), true // it started, or started anew, in between
}

// per is nanoseconds of CPU over a time, in billionths of a core.
func per(total uint64, d time.Duration) uint64 { return uint64(float64(total) / d.Seconds()) }

// Parse reads the kubelet's /stats/summary.
func Parse(data []byte, now time.Time) (*Summary, error) {
	type use struct {
		Name      string      `json:"name"`
		StartTime metav1.Time `json:"startTime"`
		CPU       struct {
			Time  metav1.Time `json:"time"`
			Rate  *uint64     `json:"usageNanoCores"`
			Total *uint64     `json:"usageCoreNanoSeconds"`
		} `json:"cpu"`
		Memory struct {
			WorkingSet *uint64 `json:"workingSetBytes"`
		} `json:"memory"`
	}
	var in struct {
		Node use `json:"node"`
		Pods []struct {
			PodRef struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
				UID       string `json:"uid"`
			} `json:"podRef"`
			Containers []use `json:"containers"`
		} `json:"pods"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read the node's summary: %w", err)
	}
	of := func(u use) Count {
		out := Count{Start: u.StartTime.Time, Total: u.CPU.Total, Memory: u.Memory.WorkingSet}
		if out.Total == nil {
			out.Rate = u.CPU.Rate
		}
		return out
	}
	s := &Summary{At: now, Node: of(in.Node), Containers: map[Container]Count{}}
	for _, p := range in.Pods {
		for _, c := range p.Containers {
			s.Containers[Container{p.PodRef.Namespace, p.PodRef.Name, p.PodRef.UID, c.Name}] = of(c)
		}
	}
	return s, nil
}
