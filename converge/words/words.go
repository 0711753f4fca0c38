// Package words reads what controllers, runtimes and programs say: the complaint in the status of an object of any kind, the field of a
// spec
// that a message speaks of, and what known sentences mean and what helps. It knows texts and trees, and no cluster.
package words

import (
	"fmt"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

// SeveralBudgets says that an eviction was refused with the message because the pod has more than one budget.
func SeveralBudgets(message string) bool {
	return strings.Contains(message, "more than one PodDisruptionBudget")
}

// ErrorText is the message of an error; "" of none.
func ErrorText(f *convergence.Failure) string {
	if f == nil {
		return ""
	}
	return f.Message
}

// Ago words a duration roughly, so that the sentence does not change every second.
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return Count(int(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return Count(int(d/time.Hour), "hour")
	}
	return Count(int(d/(24*time.Hour)), "day")
}

// Between cuts out what stands between two texts; "" when they are not there.
func Between(s, from, to string) string {
	_, rest, ok := strings.Cut(s, from)
	if !ok {
		return ""
	}
	out, _, ok := strings.Cut(rest, to)
	if !ok {
		return ""
	}
	return out
}

// OneLine has a text of several lines as one.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Word is a text in which there may be anything as one word of advice, without what stands behind a space: a text that goes on with a
// command would look like advice of ours.
func Word(text string) string {
	if list := strings.Fields(text); len(list) > 0 {
		return list[0]
	}
	return ""
}

// Count words a number of things: 1 pod, 2 pods.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// List words a few names: a, b and 3 more.
func List(names []string, most int) string {
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Domain cuts off a group what differs between the groups of one project.
func Domain(group string) string {
	last := strings.LastIndexByte(group, '.')
	return group[strings.LastIndexByte(group[:max(0, last)], '.')+1:]
}

// Texts are the values of a list as text.
func Texts[T any](list []T) (out []string) {
	for _, x := range list {
		out = append(out, fmt.Sprint(x))
	}
	return out
}
