// Command compare asks two API servers the same mutated questions and says where they answer differently.
//
//	scripts/compare A.kubeconfig B.kubeconfig [flags]
//
// A is taken for right: its OpenAPI documents say which fields there are. For every seed object, each field within reach is left out,
// emptied, made too long, malformed or doubled, in a creation, an update, a patch and so on for each subresource. All of it are dry
// runs, but for the seeds, so that nothing depends on what came before. The same -seed gives the same questions.
package main

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"regexp"
	"sync"
)

type config struct {
	a, b    string
	seeds   string
	run     string
	seed    int64
	most    int
	workers int
	texts   bool
	out     string
	courses string
	talks   string
	length  int
	meter   string
	table   bool
}

func main() {
	var c config
	flag.StringVar(&c.seeds, "seeds", "test/compare/seeds.yaml", "objects to begin with")
	flag.StringVar(&c.run, "run", "", "regular expression over KIND/VERB")
	flag.Int64Var(&c.seed, "seed", 1, "which of the possible questions are asked, if there are too many")
	flag.IntVar(&c.most, "most", 400, "questions for each seed and verb")
	flag.IntVar(&c.workers, "workers", 4, "questions at once")
	flag.BoolVar(&c.texts, "texts", false, "compare the texts of messages and the order of causes, too")
	flag.StringVar(&c.out, "out", "", "file for each question that is answered differently")
	flag.StringVar(&c.courses, "courses", "", "file of courses to play on two clusters with loops and a scheduler, instead of questions")
	flag.StringVar(&c.talks, "talks", "", "file of talks to have with two servers without loops, instead of questions")
	flag.IntVar(&c.length, "length", 4, "steps of a course")
	flag.StringVar(&c.meter, "meter", "", "address of this machine that both servers reach: metrics are served there, which courses set")
	flag.BoolVar(&c.table, "table", false, "ask for every answer to a question as a table")
	flag.Parse()
	log.SetFlags(0)
	if flag.NArg() != 2 {
		log.Fatal("usage: compare [flags] A.kubeconfig B.kubeconfig")
	}
	c.a, c.b = flag.Arg(0), flag.Arg(1)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, c); err != nil {
		log.Fatal(err)
	}
}

func compare(ctx context.Context, c config) error {
	only, err := regexp.Compile(c.run)
	if err != nil {
		return err
	}
	pair, err := newPair(c.a, c.b)
	if err != nil {
		return err
	}
	r := &report{texts: c.texts}
	if c.out != "" {
		f, err := os.Create(c.out)
		if err != nil {
			return err
		}
		defer f.Close()
		r.each = bufio.NewWriter(f)
		defer r.each.Flush()
	}
	switch {
	case c.talks != "":
		err = talkAll(ctx, pair, c, only, r)
	case c.courses != "":
		err = playAll(ctx, pair, c, only, r)
	default:
		err = askAll(ctx, pair, c, only, r)
	}
	r.print(os.Stdout)
	fmt.Printf("%d questions, %d taken, %d answered differently\n", r.asked, r.taken, r.differ)
	return cmp.Or(err, ctx.Err())
}

// askAll puts the questions about every seed.
func askAll(ctx context.Context, pair *pair, c config, only *regexp.Regexp, r *report) error {
	seeds, err := readSeeds(c.seeds)
	if err != nil {
		return err
	}
	plan := &plan{pair: pair, only: only, most: c.most, seed: c.seed}
	if err := plan.prepare(ctx, seeds); err != nil {
		return err
	}
	ask(ctx, pair, c.shown(plan.creations(seeds)), c.workers, r)
	kept := plan.store(ctx, seeds)
	defer plan.clear(context.WithoutCancel(ctx), kept)
	ask(ctx, pair, c.shown(plan.changes(ctx, kept)), c.workers, r)
	return nil
}

// shown asks for tables, if that is wanted: every field that a column shows is changed this way.
func (c config) shown(trials []trial) []trial {
	for i := range trials {
		if c.table {
			trials[i].accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
		}
	}
	return trials
}

// ask puts every question to both servers.
func ask(ctx context.Context, p *pair, trials []trial, workers int, r *report) {
	work := make(chan trial)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for t := range work {
				a, b := p.a.ask(ctx, t, t.bodyA), p.b.ask(ctx, t, t.bodyB)
				if ctx.Err() == nil {
					r.add(t, a, b)
				}
			}
		})
	}
	for _, t := range trials {
		if ctx.Err() != nil {
			break
		}
		work <- t
	}
	close(work)
	all.Wait()
}
