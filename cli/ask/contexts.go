package ask

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Ask finds the server and asks it, as Run does; with several contexts (--context a,b) one after the other, each answer below the name of
// its context. One that can't be asked keeps no other from answering; its error comes back, before ErrStuck.
func (o *Options) Ask(ctx context.Context, std Streams, words []string) error {
	names := strings.Split(o.context, ",")
	if len(names) == 1 {
		a, err := o.Connect()
		if err != nil {
			return err
		}
		return o.Run(ctx, a, std, words)
	}
	stuck := false
	var failed []error
	for _, name := range names {
		one := *o
		one.context = strings.TrimSpace(name)
		a, err := one.Connect()
		if err == nil {
			a.Context = one.context
			if o.output.Text() {
				fmt.Fprintf(std.Out, "context %s:\n", one.context)
			}
			err = one.Run(ctx, a, std, words)
		}
		switch {
		case errors.Is(err, ErrStuck):
			stuck = true
		case err != nil:
			failed = append(failed, fmt.Errorf("context %s: %w", one.context, err))
		}
	}
	if err := errors.Join(failed...); err != nil || !stuck {
		return err
	}
	return ErrStuck
}
