package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A pair holds one figure without and with the arguments of --pair, run by run.
type pair struct {
	line
	values [2][]float64
}

// inPairs makes one measurement on fresh kloops without and with further arguments, in turn: what else the machine does
// meets both alike. Which comes first changes from run to run.
func inPairs(ctx context.Context, o *options, rep *report, m measurement, store string) error {
	args := [2][]string{m.args, append(slices.Clone(m.args), strings.Fields(o.pair)...)}
	at := len(rep.pairs)
	for run := range o.pairs {
		for i := range args {
			side := (i + run) % len(args)
			one, with := &report{}, m
			with.args = args[side]
			fmt.Printf("\npair %d of %d: %s\n", run+1, o.pairs, strings.Join(with.args, " "))
			if err := onOwn(ctx, o, one, with, store); err != nil {
				return err
			}
			for j, l := range one.lines {
				if at+j == len(rep.pairs) {
					rep.pairs = append(rep.pairs, pair{line: l})
				}
				p := &rep.pairs[at+j]
				p.values[side] = append(p.values[side], l.value)
			}
		}
	}
	return nil
}

// median of values; 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// pairTable prints the medians of all pairs, and that of what each run has with the arguments, as a share of what it has without.
func pairTable(w io.Writer, args string, pairs []pair) {
	if len(pairs) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "figure, medians\twithout %[1]s\twith %[1]s\tof each run\tpairs\n", args)
	for _, p := range pairs {
		var shares []float64
		for i, v := range p.values[1] {
			shares = append(shares, v/cmp.Or(p.values[0][i], v, 1))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f %%\t%d\n", head(p.name, p.unit)+p.label, number(median(p.values[0])),
			number(median(p.values[1])), 100*median(shares), len(shares))
	}
	t.Flush()
}
