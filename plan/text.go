package plan

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// mostLines bounds the lines of one part of a report.
const mostLines = 20

// A sheet takes the parts of a report.
type sheet struct{ strings.Builder }

// part writes a heading and lines below it; no lines, no heading.
func (s *sheet) part(heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(s, "\n%s\n", heading)
	for i, l := range lines {
		if i == mostLines {
			fmt.Fprintf(s, "  … and %d more: -o json has all\n", len(lines)-i)
			break
		}
		fmt.Fprintf(s, "  %s\n", l)
	}
}

func at(ns string) string {
	if ns == "" {
		return ""
	}
	return ns + ": "
}

// Text writes the report for people.
func (r *Report) Text(out io.Writer) error {
	var s sheet
	c := r.Cluster
	fmt.Fprintf(&s, "%s: %s\n", r.Change, r.Verdict)
	version := cmp.Or(c.Version, "of a version that you may not ask for")
	fmt.Fprintf(&s, "  on a fork of %s (%s) with %s and %s, as it was at %s\n", c.Server, version, plural(c.Nodes, "node"),
		plural(c.Pods, "pod"), c.At.Format("2006-01-02 15:04:05 MST"))
	if !r.AtRest {
		fmt.Fprintf(&s, "  not at rest after %s: --for looks further\n", r.Lasts)
	}
	s.part("REFUSED", lines(r.Refused, func(x Refusal) string { return at(x.Namespace) + x.String() + ": " + x.Message }))
	s.part("GAPS THAT WOULD REMAIN", lines(r.Gaps, gapText))
	s.part("WOULD FIT NOWHERE", lines(r.Unfit, func(x Unfit) string {
		return fmt.Sprintf("%s%s: %s", at(x.Namespace), several(x.Object, x.Count, x.Owner), x.Why)
	}))
	s.part("AVAILABLE PODS", lines(r.Workloads, workloadText))
	s.part("EVICTIONS", lines(r.Evictions, evictionText))
	s.part("PREEMPTIONS", lines(r.Preemptions, func(x Preemption) string {
		return fmt.Sprintf("%s%s of %s on %s, after %s: %s", at(x.Namespace), x.Object, x.Owner, x.Node, x.After, x.For)
	}))
	s.part("WOULD BE MADE", lines(r.Made, effectText))
	s.part("WOULD BE CHANGED", lines(r.Changed, effectText))
	s.part("WOULD BE REMOVED", lines(r.Removed, effectText))
	s.part("GAPS THAT WOULD BE CLOSED", lines(r.Closed, gapText))
	s.part("GAPS THAT ARE THERE ALREADY", lines(r.Still, gapText))
	s.part("WOULD HAPPEN ANYWAY", lines(r.Anyway, func(x Effect) string { return x.Verb + ": " + effectText(x) }))
	s.part("WEBHOOKS THAT WOULD BE ASKED (taken to let all pass)", lines(r.Webhooks,
		func(x Asked) string { return fmt.Sprintf("%s, %d times", x.Webhook, x.Times) }))
	s.part("TO KNOW", r.Warnings)
	s.part("NOT KNOWN", gathered(r.Unknown))
	_, err := io.WriteString(out, s.String())
	return err
}

func lines[T any](list []T, word func(T) string) (out []string) {
	for _, x := range list {
		out = append(out, word(x))
	}
	return out
}

func gapText(g Gap) string {
	text := at(g.Namespace) + g.Verdict
	if g.Asked {
		text += " (as asked)"
	}
	return text
}

func several(o Object, n int, owner string) string {
	text := o.String()
	if o.Name == "" {
		text = plural(max(n, 1), strings.ToLower(o.Kind))
	}
	if owner != "" {
		text += " of " + owner
	}
	return text
}

func effectText(x Effect) string {
	text := at(x.Namespace) + several(x.Object, x.Count, x.Owner)
	if len(x.Fields) > 0 {
		text += ": " + strings.Join(x.Fields, ", ")
	}
	return text
}

func workloadText(w Workload) string {
	text := fmt.Sprintf("%s%s: %d of %d at the end", at(w.Namespace), w.Object, w.After, w.Wanted)
	if w.Short > 0 && w.After >= min(w.Before, w.Wanted) {
		text += fmt.Sprintf("; %d at least, after %s; fewer than %d for %s", w.Least, w.At, w.Before, w.Short)
	}
	if w.After < min(w.Before, w.Wanted) {
		text += fmt.Sprintf("; fewer than %d to the end, from %s on", min(w.Before, w.Wanted), w.At)
	}
	switch {
	case w.After == 0 && w.Before > 0 && w.Wanted > 0:
		text += "; NONE to the end"
	case w.None > 0:
		text += fmt.Sprintf("; NONE for %s", w.None)
	}
	return text
}

func evictionText(x Eviction) string {
	text := fmt.Sprintf("%s%s", at(x.Namespace), x.Object)
	if x.Owner != "" {
		text += " of " + x.Owner
	}
	switch {
	case x.Stays:
		text += fmt.Sprintf(" on %s: never let go, asked %d times: %s", x.Node, x.Refused, x.Message)
	case x.Refused > 0:
		text += fmt.Sprintf(" on %s, after %s, refused %d times before: %s", x.Node, x.After, x.Refused, x.Message)
	default:
		text += fmt.Sprintf(" on %s, after %s", x.Node, x.After)
	}
	return text
}
