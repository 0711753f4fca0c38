package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/trail"
)

// trace tells who changed an object, and what followed from it.
func trace(ctx context.Context, std stdio, args []string) error {
	var f ask.Flags
	fs := flags(std, "trace", "KIND/NAME")
	f.Bind(fs)
	follow := fs.Bool("follow", false, "go on with what comes")
	since := fs.Duration("since", 24*time.Hour, "how far to look back")
	words, err := wordsOf(fs, args, 1, 2)
	if err != nil {
		return err
	}
	if words, err = pair(words); err != nil {
		return err
	}
	if len(words) != 2 {
		return misused(fs)
	}
	a, err := f.Connect()
	if err != nil {
		return err
	}
	r, object, err := traced(ctx, a, words[0], words[1])
	if err != nil {
		return err
	}
	body, err := openTrail(ctx, a, object, *since, *follow)
	if err != nil {
		return noTrail(words, err)
	}
	defer func() { _ = body.Close() }()
	if *follow {
		if missing := a.Missing(ctx, r, object.Namespace, object.Name); missing != nil {
			fmt.Fprintf(std.err, "%v: what comes is told\n", missing)
		}
		return untilStopped(ctx, tellAsItComes(std.out, formOf(fs), body))
	}
	list, err := readWrites(body, nil)
	if err != nil {
		return err
	}
	if len(trail.NewGraph(list).Of(object)) == 0 {
		if missing := a.Missing(ctx, r, object.Namespace, object.Name); missing != nil {
			return fmt.Errorf("%w, and nothing is known of one in the last %s", missing, since)
		}
	}
	return answer(std, fs, history{object, append([]trail.Write{}, list...)}, func(w io.Writer) error {
		return ask.Lay(w, screenOf(object, list))
	})
}

// traced is the object that is meant by a word for its kind and its name.
func traced(ctx context.Context, a *ask.Asker, kind, name string) (r *metav1.APIResource, o trail.Ref, err error) {
	if r, err = a.Resolve(ctx, kind); err != nil {
		return nil, o, err
	}
	o = trail.Ref{Resource: schema.GroupResource{Group: r.Group, Resource: r.Name}.String(), Name: name}
	if r.Namespaced {
		if o.Namespace = a.NS; a.NS == "" {
			return nil, o, fmt.Errorf("say in which namespace %s/%s is", kind, name)
		}
	}
	return r, o, nil
}

// openTrail asks for what was written of an object, one write a line, and with follow for what will be.
func openTrail(ctx context.Context, a *ask.Asker, object trail.Ref, since time.Duration, follow bool) (io.ReadCloser, error) {
	q := url.Values{"resource": {object.Resource}, "namespace": {object.Namespace}, "name": {object.Name}, "since": {since.String()}}
	if follow {
		q.Set("follow", "true")
	}
	body, err := a.Raw.Get().RequestURI(trail.Page + "?" + q.Encode()).Stream(ctx)
	if err == nil {
		return body, nil
	}
	q.Del("follow")
	data, again := a.Raw.Get().RequestURI(trail.Page + "?" + q.Encode()).DoRaw(ctx) // a stream does not tell why it was refused
	if again = ask.Refusal(data, again); again != nil {
		err = again
	}
	return nil, err
}

// A history holds all that kloop trace knows of an object, for programs: its writes, and those that followed.
type history struct {
	Object trail.Ref     `json:"object"`
	Items  []trail.Write `json:"items"`
}

// noTrail says why there is none.
func noTrail(object []string, err error) error {
	if apierrors.IsNotFound(err) {
		return errors.New("the server keeps no trail: it is no kloop, or was started with --no-trail (trail.off) " +
			"or --convergence=false (convergence.enabled)")
	}
	return fmt.Errorf("ask for the trail of %s: %w", strings.Join(object, "/"), err)
}

// untilStopped returns err, or nil when it comes of being stopped: following ends that way.
func untilStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readWrites reads one write a line; each, if set, is called for every one.
func readWrites(body io.Reader, each func(trail.Write)) (list []trail.Write, err error) {
	dec := json.NewDecoder(bufio.NewReader(body))
	for {
		var w trail.Write
		switch err := dec.Decode(&w); {
		case err == io.EOF:
			return list, nil
		case err != nil:
			return list, fmt.Errorf("read the trail: %w", err)
		case each != nil:
			each(w)
		default:
			list = append(list, w)
		}
	}
}

// tellAsItComes prints a line for every write.
func tellAsItComes(out io.Writer, form *ask.Output, body io.Reader) error {
	_, err := readWrites(body, func(w trail.Write) {
		if !form.Text() {
			_ = form.Next(out, w) // a reader that is gone ends the process
			return
		}
		fmt.Fprintln(out, ask.Escape(fmt.Sprintf("%s  %s %s %s%s", clock(w.At), w.By(), did(w.Verb), named(w), colon(w.What))))
	})
	return err
}

// screenOf is the history of an object, and what its newest request set off.
func screenOf(object trail.Ref, list []trail.Write) string {
	g := trail.NewGraph(list)
	own := g.Of(object)
	var b strings.Builder
	if len(own) == 0 {
		fmt.Fprintf(&b, "%s %s is there, and has not changed within this time\n", object.Resource, object.Name)
		return b.String()
	}
	fmt.Fprintf(&b, "%s %s\n\n", object.Resource, object.Name)
	for _, w := range own {
		if w.What == "status" {
			continue
		}
		fmt.Fprintf(&b, "%s  %s %s it%s%s\n", clock(w.At), w.By(), did(w.Verb), colon(w.What), whose(w))
		for _, c := range g.Because(w) {
			if c.Ref != w.Ref && c.What != "status" {
				fmt.Fprintf(&b, "              because %s %s %s%s\n", c.By(), did(c.Verb), named(c), colon(c.What))
				break
			}
		}
	}
	start, _ := g.Start(object)
	tree := g.Cascade(start)
	if tree == nil || len(tree.Below) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "\nwhat followed from the %s at %s:\n\n", start.Verb, clock(start.At))
	fmt.Fprintf(&b, "%10s  %s %s %s%s\n", "", start.By(), did(start.Verb), named(start), colon(start.What))
	drawSteps(&b, tree.Below, start.At, "")
	return b.String()
}

// drawSteps draws a cascade, each step with the time since its start.
func drawSteps(b *strings.Builder, steps []*trail.Step, from time.Time, indent string) {
	for i, s := range steps {
		branch, next := "├─ ", "│  "
		if i == len(steps)-1 {
			branch, next = "└─ ", "   "
		}
		what := named(s.Write)
		switch {
		case s.Count > 1 && s.Name == "":
			what = fmt.Sprintf("%d times %s", s.Count, what)
		case s.Count > 1:
			what = fmt.Sprintf("%d %s (%s…)", s.Count, bare(s.Resource), s.Name)
		}
		after := "+" + short(s.At.Sub(from))
		if s.Count > 1 && s.Last.Sub(s.At) >= time.Millisecond {
			after += "…" + short(s.Last.Sub(from))
		}
		fmt.Fprintf(b, "%10s  %s%s%s %s %s%s\n", after, indent, branch, s.By(), did(s.Verb), what, colon(s.What))
		drawSteps(b, s.Below, from, indent+next)
	}
}

func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }

// short is a time of a cascade: 4ms, 1.2s.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func did(verb string) string {
	switch verb {
	case trail.Created:
		return "created"
	case trail.Marked:
		return "asked to delete"
	case trail.Deleted:
		return "deleted"
	}
	return "changed"
}

// bare is the resource without its group.
func bare(resource string) string { name, _, _ := strings.Cut(resource, "."); return name }

func named(w trail.Write) string {
	if w.Name == "" {
		return converge.Hidden
	}
	return strings.TrimSuffix(bare(w.Resource), "s") + "/" + w.Name
}

func colon(what string) string {
	if what == "" || what == "status" {
		return ""
	}
	return ": " + what
}

// whose adds who it was, of those that are no loops.
func whose(w trail.Write) string {
	if w.Cause != nil || w.User == "" || w.User == w.By() {
		return ""
	}
	return " (" + w.User + ")"
}
