package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

// why explains on one screen why an object is not what it should be. It only reads the API, so it works from anywhere.
func why(ctx context.Context, std stdio, args []string) error {
	var f askFlags
	fs := flags(std, "why", "[KIND/NAME]")
	f.bind(fs)
	to := fs.String("to", "", "of a pod: whether network policies let it connect to "+targetForm)
	words, err := wordsOf(fs, args, 0, 2)
	if err != nil {
		return err
	}
	if len(words) == 1 {
		if words = strings.SplitN(words[0], "/", 2); len(words) < 2 {
			return misused(fs)
		}
	}
	a, err := f.connect()
	if err != nil {
		return err
	}
	switch {
	case *to != "" && len(words) == 0:
		return misused(fs)
	case *to != "":
		return a.reach(ctx, std.out, words[0], words[1], *to)
	case len(words) == 0:
		return a.tellAll(ctx, std)
	}
	return a.tell(ctx, std.out, words[0], words[1])
}

// tell explains one object.
func (a *asker) tell(ctx context.Context, out io.Writer, kind, name string) error {
	r, err := a.resolve(ctx, kind)
	if err != nil {
		return err
	}
	ns := a.ns
	if !r.Namespaced {
		ns = "default" // where gaps of objects without a namespace are
	} else if ns == "" {
		return fmt.Errorf("say in which namespace %s/%s is", kind, name)
	}
	gr := schema.GroupResource{Group: r.Group, Resource: r.Name}
	var g convergence.Gap
	err = a.get(ctx, within(ns, "gaps")+"/"+convergence.NameOf(gr, name), &g)
	switch {
	case err == nil:
		_, err = io.WriteString(out, a.screen(&g, a.lastWords(ctx, &g)))
		return err
	case !apierrors.IsNotFound(err):
		return err
	}
	if err := a.get(ctx, explained, &metav1.APIResourceList{}); err != nil {
		return a.unexplained(ctx, err)
	}
	err = a.get(ctx, objectPath(r, ns, name), &metav1.PartialObjectMetadata{})
	switch {
	case apierrors.IsNotFound(err) && r.Namespaced:
		return fmt.Errorf("there is no %s %q in namespace %s", strings.ToLower(r.Kind), name, ns)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no %s %q", strings.ToLower(r.Kind), name)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(out, "%s/%s is what it should be\n", strings.ToLower(r.Kind), name)
	return err
}

func objectPath(r *metav1.APIResource, ns, name string) string {
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	if r.Namespaced {
		path += "/namespaces/" + ns
	}
	return path + "/" + r.Name + "/" + name
}

// resolve finds the resource that a person means by a word: deploy, pods, CronTab, crontabs.example.com.
func (a *asker) resolve(ctx context.Context, word string) (*metav1.APIResource, error) {
	list, err := resources(ctx, a.raw)
	if err != nil {
		return nil, err
	}
	low := strings.ToLower(word)
	var best *metav1.APIResource
	for i := range list {
		r := &list[i]
		if low != r.Name && low != r.SingularName && low != strings.ToLower(r.Kind) && low != r.Name+"."+r.Group && !slices.Contains(r.ShortNames, low) {
			continue
		}
		if best == nil || usual(r.Group) && !usual(best.Group) {
			best = r
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, fmt.Errorf("the server has no resource %q; kubectl api-resources lists them", word)
}

// usual tells the groups whose kinds people mean when they name no group: others have kinds of the same names.
func usual(group string) bool { return group == "" || !strings.Contains(group, ".") }

// screen is the whole explanation.
func (a *asker) screen(g *convergence.Gap, words []string) string {
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
	row("state", g.State+" ("+g.Cause+")")
	row("owner", g.Owner)
	if g.Waits != nil {
		row("waits", "for "+waitText(g.Waits))
	}
	next := g.Next.Who + " " + g.Next.What
	if g.Next.At != nil {
		if left := g.Next.At.Sub(a.now()); left > 0 {
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
func (a *asker) treeOf(b *strings.Builder, g *convergence.Gap) {
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
var wordy = []string{"CrashLoop", "InitCrash", "OutOfMemory", "PodFailed", "ContainerEnded", "EndsAtOnce", "InitRuns", "StartupProbeFails", "LivenessProbeFails", "ReadinessProbeFails"}

// tail is how many of the last lines of a log are shown.
const tail = "5"

// lastWords are the last lines that the container at the bottom of it wrote; none if they can't be had.
func (a *asker) lastWords(ctx context.Context, g *convergence.Gap) []string {
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
	if a.get(ctx, path, &p) != nil {
		return nil
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c.Ready || c.State.Terminated != nil && c.State.Terminated.ExitCode == 0 {
			continue
		}
		req := a.raw.Get().AbsPath(path+"/log").Param("container", c.Name).Param("tailLines", tail)
		if c.State.Running == nil && c.RestartCount > 0 && c.State.Terminated == nil {
			req.Param("previous", "true")
		}
		if data, err := req.DoRaw(ctx); err == nil && len(data) > 0 {
			return strings.Split(strings.TrimRight(string(data), "\n"), "\n")
		}
	}
	return nil
}
