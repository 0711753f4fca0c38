package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// How young pods count, as upstream's controller manager has it by default.
const (
	warmUp       = 5 * time.Minute  // the CPU of a pod this young counts only while it is ready
	firstReady   = 30 * time.Second // a pod that lost its readiness this soon after its start has not been ready yet
	tolerated    = 0.1              // a ratio this near to one changes nothing
	unitOfTarget = 100              // percent
)

var errNoPods = errors.New("did not receive metrics for targeted pods (pods might be unready)")

// band is the distance from one that a ratio may have without effect, in either direction.
type band struct{ down, up float64 }

func (b band) holds(ratio float64) bool { return ratio >= 1-b.down && ratio <= 1+b.up }

// A sample is a metric of a target's pods, sorted out.
type sample struct {
	values   readings // of the pods that count
	unready  []string // not counted because they are not ready, or too young
	missing  []string // without a value
	requests map[string]int64
}

// sort decides which pods count. Pods that are going, or have failed, are nobody's load.
func sortOut(pods []*corev1.Pod, values readings, cpu bool, now time.Time) sample {
	s := sample{values: readings{}}
	for _, p := range pods {
		v, known := values[p.Name]
		switch {
		case p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed:
		case p.Status.Phase == corev1.PodPending:
			s.unready = append(s.unready, p.Name)
		case !known:
			s.missing = append(s.missing, p.Name)
		case cpu && cold(p, v, now):
			s.unready = append(s.unready, p.Name)
		default:
			s.values[p.Name] = v
		}
	}
	return s
}

// cold says whether the pod's CPU tells of its start rather than of its load.
func cold(p *corev1.Pod, v reading, now time.Time) bool {
	var ready *corev1.PodCondition
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodReady {
			ready = &p.Status.Conditions[i]
		}
	}
	if ready == nil || p.Status.StartTime == nil {
		return true
	}
	start := p.Status.StartTime.Time
	if start.Add(warmUp).After(now) {
		return ready.Status == corev1.ConditionFalse || v.at.Before(ready.LastTransitionTime.Add(v.window))
	}
	return ready.Status == corev1.ConditionFalse && start.Add(firstReady).After(ready.LastTransitionTime.Time)
}

// requested returns the request of each pod, or of one of its containers, for a resource in thousandths.
func requested(pods []*corev1.Pod, container string, name corev1.ResourceName) (map[string]int64, error) {
	out := map[string]int64{}
	for _, p := range pods {
		if container == "" && podresource.IsPodLevelRequestsSet(p) {
			q, ok := podresource.PodRequests(p, podresource.PodResourcesOptions{})[name]
			if !ok {
				return nil, fmt.Errorf("missing pod-level request for %s in Pod %s", name, p.Name)
			}
			out[p.Name] = q.MilliValue()
			continue
		}
		found, total := container == "", int64(0)
		for _, c := range counted(p) {
			if container != "" && c.Name != container {
				continue
			}
			q, ok := c.Resources.Requests[name]
			if !ok {
				return nil, fmt.Errorf("missing request for %s in container %s of Pod %s", name, c.Name, p.Name)
			}
			found, total = true, total+q.MilliValue()
		}
		if !found {
			return nil, fmt.Errorf("container %s not found in Pod %s", container, p.Name)
		}
		out[p.Name] = total
	}
	return out, nil
}

// counted are the containers that run as long as the pod: the app's, and sidecars.
func counted(p *corev1.Pod) []corev1.Container {
	list := p.Spec.Containers
	for _, c := range p.Spec.InitContainers {
		if podspec.Sidecar(&c) {
			list = append(list[:len(list):len(list)], c)
		}
	}
	return list
}

// utilization is the share of their requests that the pods use, in percent.
func utilization(s sample) (percent, average int64, err error) {
	var used, asked int64
	n := int64(0)
	for name, v := range s.values {
		if q, ok := s.requests[name]; ok {
			used, asked, n = used+v.value, asked+q, n+1
		}
	}
	if asked == 0 {
		return 0, 0, errors.New("no metrics returned matched known pods")
	}
	return used * unitOfTarget / asked, used / n, nil
}

// average is the mean of the values.
func average(s sample) int64 {
	if len(s.values) == 0 {
		return 0
	}
	var sum int64
	for _, v := range s.values {
		sum += v.value
	}
	return sum / int64(len(s.values))
}

// wanted is the number of pods that the sample calls for. ratio compares it with the metric's target; fill makes up the value of
// a pod that has none. Missing values are made up so that the answer errs towards the present size: pods
// without a value use what is called for when there would be fewer, nothing when there would be more; pods that are
// not ready use nothing when there would be more.
func wanted(s sample, current int32, b band, ratio func(sample) (float64, error), fill func(pod string, low bool) int64) (int32, error) {
	if len(s.values) == 0 {
		return 0, errNoPods
	}
	first, err := ratio(s)
	if err != nil {
		return 0, err
	}
	growing := first > 1 && len(s.unready) > 0
	if !growing && len(s.missing) == 0 {
		if b.holds(first) {
			return current, nil
		}
		return ceil(first * float64(len(s.values))), nil
	}
	for _, p := range s.missing {
		switch {
		case first < 1:
			s.values[p] = reading{value: fill(p, true)}
		case first > 1:
			s.values[p] = reading{}
		}
	}
	if growing {
		for _, p := range s.unready {
			s.values[p] = reading{}
		}
	}
	second, err := ratio(s)
	if err != nil {
		return 0, err
	}
	if b.holds(second) || first < 1 && second > 1 || first > 1 && second < 1 {
		return current, nil
	}
	n := ceil(second * float64(len(s.values)))
	if second < 1 && n > current || second > 1 && n < current {
		return current, nil
	}
	return n, nil
}

// ceil rounds up, within what a size can be.
func ceil(f float64) int32 { return int32(min(math.Ceil(f), math.MaxInt32)) }

// readyOf counts the pods that are ready.
func readyOf(pods []*corev1.Pod) (n int64) {
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.Status.Phase == corev1.PodRunning {
				n++
			}
		}
	}
	return n
}
