package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/plan"
)

// The exit codes of kloop plan, beside those of every command. docs/plan.md promises them.
const (
	planStuck  = 3 // something would be refused, or stuck
	planOutage = 4 // with --no-outage: a workload would have no available pod for a time
)

// planFlags are the flags of kloop plan.
type planFlags struct {
	ask        ask.Flags
	files      []string
	replicas   int
	span       time.Duration
	form       *ask.Output
	save, from string
	noOutage   bool
}

const planWords = "-f FILE | drain NODE | lose node/zone NAME | scale KIND/NAME --replicas N " +
	"| set image KIND/NAME CONTAINER=IMAGE… | delete KIND/NAME | upgrade crd -f FILE"

func (f *planFlags) bind(fs *flag.FlagSet) {
	f.ask.Bind(fs)
	file := func(name string) error {
		f.files = append(f.files, name)
		if name == "-" {
			return nil
		}
		return settings.Readable(name)
	}
	fs.Func("f", "manifest to apply, - for the standard input; may be given again", file)
	fs.Func("filename", "the same as -f", file)
	fs.IntVar(&f.replicas, "replicas", -1, "of scale: how many")
	fs.DurationVar(&f.span, "for", time.Hour, "how far to look, in simulated time")
	f.form = formOf(fs)
	fs.StringVar(&f.save, "save", "", "write the fork to a file; without a change that is all")
	fs.StringVar(&f.from, "from", "", "read the fork from a file that --save wrote, in place of a cluster")
	fs.BoolVar(&f.noOutage, "no-outage", false, "fail also when a workload has no available pod for a time")
}

// planCmd tells what would happen. It only reads the API of the cluster: what happens happens in a fork of it.
func planCmd(ctx context.Context, std stdio, args []string) error {
	var f planFlags
	fs := flags(std, "plan", planWords)
	f.bind(fs)
	words, err := wordsOf(fs, args, 0, 64)
	if err != nil {
		return err
	}
	if f.span <= 0 || f.save != "" && f.from != "" {
		return misused(fs)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(std.err,
		&slog.HandlerOptions{Level: slog.LevelError}))) // what parts of the fork say is no news
	change, ns, err := f.change(std, fs, words)
	if err != nil {
		return err
	}
	fork, err := f.fork(ctx, ns)
	if err != nil {
		return err
	}
	if change == nil {
		return f.saved(std)
	}
	c, err := change(ns)
	if err != nil {
		return err
	}
	r, err := plan.Run(ctx, fork, c, plan.Options{For: f.span})
	if err != nil && len(fork.Unseen) > 0 {
		for _, line := range fork.NotSeen() {
			_ = ask.Lay(std.err, "not seen: "+line+"\n")
		}
		return fmt.Errorf("%w; but not all of the cluster could be seen", err)
	} else if err != nil {
		return err
	}
	return f.tell(std, r)
}

// saved says that the fork is in its file, and that nothing was asked of it.
func (f *planFlags) saved(std stdio) error {
	if !f.form.Text() {
		return f.form.Print(std.out, map[string]string{"saved": f.save})
	}
	_, err := fmt.Fprintf(std.out, "the fork is in %s: kloop plan --from %[1]s … asks it\n", f.save)
	return err
}

// fork reads the cluster, or a file, and saves it if asked to.
func (f *planFlags) fork(ctx context.Context, ns string) (*plan.Fork, error) {
	if f.from != "" {
		in, err := os.Open(f.from)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		return plan.Load(in)
	}
	a, err := f.ask.Connect()
	if err != nil {
		return nil, err
	}
	fork, err := plan.Read(ctx, a.Rest, ns)
	if err != nil || f.save == "" {
		return fork, err
	}
	out, err := os.OpenFile(f.save, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return fork, errors.Join(fork.Save(out), out.Close())
}

// A changing makes the change for a namespace.
type changing func(ns string) (plan.Change, error)

// change reads the words; nil: the fork is to be saved, and nothing else.
func (f *planFlags) change(std stdio, fs *flag.FlagSet, words []string) (changing, string, error) {
	ns := f.ask.Namespace()
	if f.from == "" {
		a, err := f.ask.Connect()
		if err != nil {
			return nil, "", err
		}
		ns = a.NS
	}
	if ns == "" {
		ns = "default"
	}
	about := func(at int, make func(t plan.Target) plan.Change) changing {
		return func(ns string) (plan.Change, error) {
			t, err := plan.ParseTarget(words[at], ns)
			if err != nil {
				return plan.Change{}, err
			}
			return make(t), nil
		}
	}
	only := func(c plan.Change) changing { return func(string) (plan.Change, error) { return c, nil } }
	verb := strings.Join(words[:min(len(words), 2)], " ")
	switch n := len(words); {
	case n == 0 && len(f.files) == 0 && f.save != "":
		return nil, ns, nil
	case n == 0 && len(f.files) > 0, verb == "upgrade crd" && n == 2 && len(f.files) > 0:
		return func(ns string) (plan.Change, error) { return f.manifest(std, ns, n == 2) }, ns, nil
	case len(f.files) > 0 || n == 0:
	case words[0] == "drain" && n == 2:
		return only(plan.Drain(strings.TrimPrefix(words[1], "node/"))), ns, nil
	case verb == "lose node" && n == 3:
		return only(plan.LoseNode(words[2])), ns, nil
	case verb == "lose zone" && n == 3:
		return only(plan.LoseZone(words[2])), ns, nil
	case words[0] == "scale" && n == 2 && f.replicas >= 0 && f.replicas <= math.MaxInt32:
		return about(1, func(t plan.Target) plan.Change { return plan.Scale(t, int32(f.replicas)) }), ns, nil
	case words[0] == "delete" && n == 2:
		return about(1, plan.Delete), ns, nil
	case verb == "set image" && n > 3:
		images, err := imagesByContainer(words[3:])
		return about(2, func(t plan.Target) plan.Change { return plan.SetImages(t, images) }), ns, err
	}
	return nil, "", misused(fs)
}

// imagesByContainer reads CONTAINER=IMAGE words.
func imagesByContainer(words []string) (map[string]string, error) {
	images := map[string]string{}
	for _, w := range words {
		c, image, ok := strings.Cut(w, "=")
		if !ok || c == "" || image == "" {
			return nil, misusef("%q: say CONTAINER=IMAGE", w)
		}
		images[c] = image
	}
	return images, nil
}

// manifest reads what is to be applied.
func (f *planFlags) manifest(std stdio, ns string, definitions bool) (plan.Change, error) {
	var docs []plan.Document
	for _, name := range f.files {
		var in io.Reader = std.in
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return plan.Change{}, err
			}
			defer file.Close()
			in = file
		}
		more, err := plan.ReadManifest(in)
		if err != nil {
			return plan.Change{}, fmt.Errorf("read %s: %w", name, err)
		}
		docs = append(docs, more...)
	}
	if definitions {
		return plan.UpgradeDefinitions(docs)
	}
	return plan.Apply(docs, ns), nil
}

// tell prints the report and says by the exit code what it comes to.
func (f *planFlags) tell(std stdio, r *plan.Report) error {
	write := func() error {
		var text strings.Builder
		return errors.Join(r.Text(&text), ask.Lay(std.out, text.String()))
	}
	if !f.form.Text() {
		write = func() error { return f.form.Print(std.out, r) }
	}
	if err := write(); err != nil {
		return err
	}
	if r.Stuck {
		return exitError(planStuck)
	}
	for _, w := range r.Workloads {
		if f.noOutage && w.None > 0 {
			return exitError(planOutage)
		}
	}
	return nil
}
