package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// loops prints how the control loops are doing.
func loops(ctx context.Context, std stdio, args []string) error {
	var f ask.Flags
	fs := flags(std, "loops", "")
	f.Bind(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	a, err := f.Connect()
	if err != nil {
		return err
	}
	var list struct {
		Items []convergence.Loop `json:"items"`
	}
	if err := a.Get(ctx, ask.Within("", "loops"), &list); err != nil {
		return a.Unexplained(ctx, err)
	}
	return answer(std, fs, items(list.Items), func(w io.Writer) error { return printLoops(w, list.Items) })
}

func printLoops(out io.Writer, list []convergence.Loop) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LOOP\tDUE\tOLDEST\tRUNNING\tFAILING\tRATE\tP99\tDONE\tFAILED\tLAST ERROR")
	for i := range list {
		l, last := &list[i], ""
		if l.LastError != nil {
			last = ask.Escape(l.LastError.Message)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%.80s\n", l.Name, l.Depth, l.Oldest, l.Running, l.Failing, l.Rate, l.P99, l.Done,
			l.Failed, last)
	}
	return w.Flush()
}
