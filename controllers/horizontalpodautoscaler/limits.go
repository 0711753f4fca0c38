package horizontalpodautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// calmDown is the time for which a size is kept up after less is called for, unless the behavior says otherwise.
const calmDown = 5 * time.Minute

// bounds are the target's present size and the sizes that it may have.
type bounds struct{ current, least, most int32 }

// A step is a size and why it is that one.
type step struct {
	n            int32
	reason, text string
}

var (
	inRange   = step{0, "DesiredWithinRange", "the desired count is within the acceptable range"}
	tooMany   = step{0, "TooManyReplicas", "the desired replica count is more than the maximum replica count"}
	tooFew    = step{0, "TooFewReplicas", "the desired replica count is less than the minimum replica count"}
	tooFast   = step{0, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
	tooSudden = step{0, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}
	higher    = step{0, "ScaleDownStabilized",
		"recent recommendations were higher than current one, applying the highest recent recommendation"}
	lower = step{0, "ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation"}
)

func (s step) at(n int32) step { s.n = n; return s }

// steady does not follow every turn of the metrics: a target shrinks only to the largest size that was called for
// within a window, and grows only to the smallest within another.
func steady(b *autoscalingv2.HorizontalPodAutoscalerBehavior, current, wish int32, advice []point, now time.Time) step {
	growIn, shrinkIn := time.Duration(0), calmDown
	if b != nil {
		growIn, shrinkIn = window(b.ScaleUp, 0), window(b.ScaleDown, calmDown)
	}
	up, down := wish, wish
	for _, p := range advice {
		if p.at.After(now.Add(-growIn)) {
			up = min(up, p.n)
		}
		if p.at.After(now.Add(-shrinkIn)) {
			down = max(down, p.n)
		}
	}
	if b == nil {
		return higher.at(down)
	}
	n := min(max(current, up), down)
	if wish >= current {
		return lower.at(n)
	}
	return higher.at(n)
}

// windows is the longer of a behavior's windows.
func windows(b *autoscalingv2.HorizontalPodAutoscalerBehavior) time.Duration {
	if b == nil {
		return calmDown
	}
	return max(window(b.ScaleUp, 0), window(b.ScaleDown, calmDown))
}

func window(r *autoscalingv2.HPAScalingRules, def time.Duration) time.Duration {
	if r == nil || r.StabilizationWindowSeconds == nil {
		return def
	}
	return time.Duration(*r.StabilizationWindowSeconds) * time.Second
}

// limit keeps the size within bounds, and the change within what the behavior allows.
func limit(b *autoscalingv2.HorizontalPodAutoscalerBehavior, in bounds, wish int32, scales []point, now time.Time) step {
	most, over := in.most, tooMany
	least, under := in.least, tooFew
	switch {
	case b == nil:
		// Without a behavior growth is at most twofold, or to four.
		if fast := max(2*in.current, 4); fast < most {
			most, over = fast, tooFast
		}
	case wish > in.current:
		if fast := max(rate(b.ScaleUp, in.current, scales, now, grow), in.current); fast < most {
			most, over = fast, tooFast
		}
	case wish < in.current:
		if sudden := min(rate(b.ScaleDown, in.current, scales, now, shrink), in.current); sudden > least {
			least, under = sudden, tooSudden
		}
	}
	switch {
	case wish < least:
		return under.at(least)
	case wish > most:
		return over.at(most)
	}
	return inRange.at(wish)
}

// grow and shrink are the directions of a rate.
const (
	grow   = 1
	shrink = -1
)

// rate is the size that the rules let the target have at most (grow) or at least (shrink). Each policy counts from the
// size at its period's start.
func rate(r *autoscalingv2.HPAScalingRules, current int32, scales []point, now time.Time, direction float64) int32 {
	choice := autoscalingv2.MaxChangePolicySelect
	if r != nil && r.SelectPolicy != nil {
		choice = *r.SelectPolicy
	}
	switch {
	case choice == autoscalingv2.DisabledPolicySelect:
		return current
	case r != nil && len(r.Policies) > 0:
	case direction == grow:
		return math.MaxInt32
	default:
		return 0
	}
	best, first := 0.0, true // the change, as a distance from the present size
	for _, p := range r.Policies {
		start := current
		for _, s := range scales {
			if s.at.After(now.Add(-time.Duration(p.PeriodSeconds) * time.Second)) {
				start -= s.n
			}
		}
		end := float64(start) + direction*float64(p.Value)
		if p.Type == autoscalingv2.PercentScalingPolicy {
			end = float64(start) * (1 + direction*float64(p.Value)/100)
			if direction == grow {
				end = math.Ceil(end)
			}
		}
		distance := direction * (math.Trunc(end) - float64(current))
		if first || (choice == autoscalingv2.MinChangePolicySelect) == (distance < best) {
			best, first = distance, false
		}
	}
	return int32(min(math.MaxInt32, max(0, float64(current)+direction*best)))
}
