package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/kloop-dev/kloop/cli/ask"
)

// why explains on one screen why an object is not what it should be. It only reads the API, so it works from anywhere.
func why(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "why", "[KIND/NAME | NAME]")
	o := ask.Bind(fs)
	to := fs.String("to", "", "of a pod: whether network policies let it connect to "+targetForm)
	words, err := wordsOf(fs, args, 0, 2)
	if err != nil {
		return err
	}
	if words, err = pair(words); err != nil {
		return err
	}
	if *to != "" && len(words) != 2 {
		return misused(fs)
	}
	if err := o.Check(); err != nil {
		fmt.Fprintf(std.err, "kloop why: %v\n", err)
		return errUsage
	}
	if *to != "" {
		a, err := o.Connect()
		if err != nil {
			return err
		}
		return reach(ctx, a, std.out, words[0], words[1], *to)
	}
	return stuck(o.Ask(ctx, ask.Streams{Out: std.out, Err: std.err}, words))
}

// stuck gives the answer that something is not what it should be its exit code.
func stuck(err error) error {
	if errors.Is(err, ask.ErrStuck) {
		return exitError(ask.CodeStuck)
	}
	return err
}

// gaps prints a sentence for everything that is not what it should be.
func gaps(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "gaps", "")
	o := ask.Bind(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		fmt.Fprintf(std.err, "kloop gaps: %v\n", err)
		return errUsage
	}
	return stuck(o.Ask(ctx, ask.Streams{Out: std.out, Err: std.err}, nil))
}
