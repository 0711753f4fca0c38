package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

// screen is the whole explanation.
func (a *Asker) screen(g *convergence.Gap, words []string, change string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", g.Verdict)
	a.treeOf(&b, g)
	row := func(name string, lines ...string) {
		for i, l := range lines {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "  %-8s %s\n", name, l)
		}
	}
	b.WriteByte('\n')
	if g.Want != "" {
		row("differs", fmt.Sprintf("%s, but %s, for %s", g.Want, g.Have, a.since(g.Since)))
	}
	if change != "" {
		row("changed", change)
	}
	row("state", g.State+" ("+g.Cause+")")
	row("owner", g.Owner)
	if g.Waits != nil {
		row("waits", "for "+waitText(g.Waits))
	}
	next := g.Next.Who + " " + g.Next.What
	if g.Next.At != nil {
		if left := g.Next.At.Sub(a.Now()); left > 0 {
			next += fmt.Sprintf(", in %s", left.Round(1e9))
		} else {
			next += ", now"
		}
	}
	row("next", next)
	if e := g.Error; e != nil {
		lines := strings.Split(strings.TrimSpace(e.Message), "\n")
		if e.Count > 1 && e.First != nil {
			lines = append(lines, fmt.Sprintf("(%d times since %s)", e.Count, e.First.UTC().Format("2006-01-02 15:04:05 MST")))
		}
		row("error", lines...)
	}
	row("log", words...)
	row("you can", g.Advice...)
	if g.NoCommand != "" {
		row("by hand", g.NoCommand)
	}
	return b.String()
}

// inWords is a state as it stands in a sentence.
func inWords(state string) string {
	if state == "BackingOff" {
		return "backing off"
	}
	return strings.ToLower(state)
}

func waitText(w *convergence.Wait) string {
	text := strings.ToLower(w.Type)
	if w.Name != "" {
		text = strings.TrimPrefix(text+" "+w.Name, "object ")
	}
	if w.On != nil {
		text = w.On.Short()
	}
	if w.Field != "" {
		text += ", field " + w.Field
	}
	return text
}

// treeOf draws the causes.
func (a *Asker) treeOf(b *strings.Builder, g *convergence.Gap) {
	b.WriteString("  " + g.Object.Short() + " " + g.Says)
	if g.Detail != "" {
		b.WriteString(": " + g.Detail)
	}
	b.WriteByte('\n')
	for i := range g.Chain {
		l := &g.Chain[i]
		branch := "└─ "
		for j := i + 1; j < len(g.Chain) && g.Chain[j].Depth >= l.Depth; j++ {
			if g.Chain[j].Depth == l.Depth {
				branch = "├─ "
			}
		}
		fmt.Fprintf(b, "  %s%s%s %s", strings.Repeat("   ", int(l.Depth)-1), branch, l.Object.Short(), l.Says)
		if l.Others > 0 {
			fmt.Fprintf(b, " (and %d more like it)", l.Others)
		}
		fmt.Fprintf(b, "  [%s, %s]\n", l.Owner, inWords(l.State))
	}
}

// wordy are the causes at which a container's last words say more than anything else.
var wordy = []string{"CrashLoop", "InitCrash", "OutOfMemory", "PodFailed", "ContainerEnded", "EndsAtOnce", "InitRuns",
	"StartupProbeFails", "LivenessProbeFails", "ReadinessProbeFails"}

// tail is the number of last lines of a log that are shown.
const tail = "5"

// lastWords are the last lines that the container at the bottom of it wrote; none if they can't be had.
func (a *Asker) lastWords(ctx context.Context, g *convergence.Gap) []string {
	at, cause := g.Object, g.Cause
	for _, l := range g.Chain {
		if l.Cause == cause {
			at = l.Object
			break
		}
	}
	if at.Kind != "Pod" || !slices.Contains(wordy, cause) {
		return nil
	}
	path := "/api/v1/namespaces/" + at.Namespace + "/pods/" + at.Name
	var p corev1.Pod
	if a.Get(ctx, path, &p) != nil {
		return nil
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c.Ready || c.State.Terminated != nil && c.State.Terminated.ExitCode == 0 {
			continue
		}
		req := a.Raw.Get().AbsPath(path+"/log").Param("container", c.Name).Param("tailLines", tail)
		if c.State.Running == nil && c.RestartCount > 0 && c.State.Terminated == nil {
			req.Param("previous", "true")
		}
		if data, err := req.DoRaw(ctx); err == nil && len(data) > 0 {
			return strings.Split(strings.TrimRight(string(data), "\n"), "\n")
		}
	}
	return nil
}

// at is the beginning of a sentence about what is in a namespace.
func at(ns string) string {
	if ns == "" {
		return ""
	}
	return ns + ": "
}

func (a *Asker) since(t metav1.Time) string { return duration.HumanDuration(a.Now().Sub(t.Time)) }
