package ask

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

// Streams take an answer and what is said beside it.
type Streams struct{ Out, Err io.Writer }

// CodeStuck is the exit code that says that something is not what it should be.
const CodeStuck = 3

// ErrStuck says that something is not what it should be; the answer was written.
var ErrStuck = errors.New("something is not what it should be")

// ErrUsage says that the words or flags make no question.
var ErrUsage = errors.New("wrong usage")

// Options are those of the question why.
type Options struct {
	Flags
	output      *Output
	wait, watch bool
	at          string
	timeout     time.Duration
}

// Bind adds the flags of the question to a set.
func Bind(fs *flag.FlagSet) *Options {
	o := &Options{}
	o.Flags.Bind(fs)
	o.output = BindOutput(fs)
	fs.StringVar(&o.at, "at", "", "what it was like at a time: 10m (ago), 14:05 or a time like 2006-01-02T15:04:05Z")
	fs.BoolVar(&o.wait, "wait", false, "wait until it is what it should be")
	fs.BoolVar(&o.watch, "watch", false, "answer again whenever the answer changes")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long --wait waits at most")
	return o
}

// Check refuses what makes no question.
func (o *Options) Check() error {
	if strings.Contains(o.context, ",") && (o.wait || o.watch) {
		return errors.New("--wait and --watch follow one cluster: give one --context")
	}
	if o.at != "" && (o.wait || o.watch) {
		return errors.New("--at asks for a time that is over: --wait and --watch go with the present")
	}
	if o.wait && o.watch {
		return errors.New("--wait ends when all is well, --watch never does: choose one")
	}
	return nil
}

// Pair takes KIND/NAME apart. An empty word, as a script's variable that is not set leaves it, is refused: a question for it is one for
// all objects of a kind.
func Pair(words []string) ([]string, error) {
	if len(words) == 1 && strings.Contains(words[0], "/") {
		words = strings.SplitN(words[0], "/", 2)
	}
	if slices.Contains(words, "") {
		return nil, errors.New("the kind or the name is empty: say KIND/NAME")
	}
	return words, nil
}

// Run asks and writes the answer: of everything when there are no words, else of KIND NAME, KIND/NAME or NAME. The error is
// ErrStuck when something is not what it should be.
func (o *Options) Run(ctx context.Context, a *Asker, std Streams, words []string) error {
	if !o.wait && !o.watch {
		out, err := o.question(ctx, a, words)
		if err != nil {
			return err
		}
		return o.tell(ctx, a, std, out, len(words) > 0)
	}
	began, told := time.Now(), ""
	for {
		began := [2]time.Time{began, time.Now()}
		out, err := o.question(ctx, a, words)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case o.wait && (!out.stuck() || time.Since(began[0]) > o.timeout):
			return o.tell(ctx, a, std, out, len(words) > 0)
		case o.watch:
			if now := essence(out); now != told {
				if told != "" && o.output.Text() {
					fmt.Fprintf(std.Out, "\n--- %s\n", a.Now().Format("15:04:05"))
				}
				if told = now; o.tell(ctx, a, std, out, len(words) > 0) != nil && ctx.Err() != nil {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(time.Second, 10*time.Since(began[1]))): // a cluster that takes long to read is read less often
		}
	}
}

// question asks for what the words name. Without a namespace that was asked for, everything is that of all namespaces, or of the
// kubeconfig's alone where the caller may not see more.
func (o *Options) question(ctx context.Context, a *Asker, words []string) (*Answer, error) {
	if o.at != "" {
		return a.then(ctx, o.at, o.ns, words)
	}
	switch len(words) {
	case 1:
		return a.Named(ctx, words[0])
	case 2:
		return a.One(ctx, words[0], words[1])
	}
	if o.ns != "" {
		out, err := a.All(ctx)
		if err == nil && len(out.Items) == 0 {
			err = a.Nowhere(ctx, o.ns)
		}
		return out, err
	}
	everywhere := *a
	everywhere.NS = ""
	out, err := everywhere.All(ctx)
	if apierrors.IsForbidden(err) && a.Home != "" {
		at := *a
		at.NS = a.Home
		if out, err2 := at.All(ctx); err2 == nil {
			out.elsewhere(err)
			return out, nil
		}
	}
	return out, err
}

// tell writes an answer in the form that was asked for.
func (o *Options) tell(ctx context.Context, a *Asker, std Streams, out *Answer, one bool) error {
	var err error
	out.Context = a.Context
	for _, g := range out.Items {
		g.SetGroupVersionKind(convergence.Gaps.GVK)
	}
	for _, f := range out.Fights {
		f.SetGroupVersionKind(convergence.Fights.GVK)
	}
	switch {
	case o.output.Text():
		err = a.print(ctx, std, out, one)
	case a.Context != "" || o.watch: // one of several answers
		err = o.output.Next(std.Out, out)
	default:
		err = o.output.Print(std.Out, out)
	}
	if err == nil && out.stuck() {
		return ErrStuck
	}
	return err
}

// essence stands for an answer without what changes by itself: times and counts.
func essence(out *Answer) string {
	var b strings.Builder
	for _, g := range out.Items {
		fmt.Fprintln(&b, g.Namespace, g.Name, g.Cause, g.State, g.Says, g.Owner)
	}
	for _, f := range out.Fights {
		fmt.Fprintln(&b, f.Namespace, f.Name)
	}
	return b.String()
}
