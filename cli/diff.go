package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/past"
)

// A span is the time that a command looks back over, and at what.
type span struct {
	ask          ask.Flags
	since, until string
	missing      error // the object, or the namespace, is not there now, or not for the caller to see
}

// asked makes the parameters of the question.
func (s *span) asked(ctx context.Context, a *ask.Asker, words []string) (url.Values, error) {
	now := a.Now()
	from, err := past.When(s.since, now)
	if err != nil {
		return nil, fmt.Errorf("--since: %w", err)
	}
	q := url.Values{"from": {from.UTC().Format(time.RFC3339Nano)}, "namespace": {s.ask.Namespace()}}
	if s.until != "" {
		until, err := past.When(s.until, now)
		if err != nil {
			return nil, fmt.Errorf("--until: %w", err)
		}
		q.Set("until", until.UTC().Format(time.RFC3339Nano))
	}
	if len(words) == 0 {
		s.missing = a.Unseen(ctx, s.ask.Namespace())
		return q, nil
	}
	r, err := a.Resolve(ctx, words[0])
	if err != nil {
		return nil, err
	}
	q.Set("resource", schema.GroupResource{Group: r.Group, Resource: r.Name}.String())
	q.Set("name", words[1])
	if q.Del("namespace"); r.Namespaced {
		if q.Set("namespace", a.NS); a.NS == "" {
			q.Set("namespace", a.Home)
		}
	}
	s.missing = a.Missing(ctx, r, q.Get("namespace"), words[1])
	return q, nil
}

// lookBack asks the server what changed.
func lookBack(ctx context.Context, a *ask.Asker, q url.Values) (*past.Answer, error) {
	data, err := a.Raw.Get().RequestURI(past.Page + "?" + q.Encode()).DoRaw(ctx)
	if err = ask.Refusal(data, err); apierrors.IsNotFound(err) {
		return nil, a.HasPast(ctx)
	} else if err != nil {
		return nil, fmt.Errorf("ask what changed: %w", err)
	}
	var out past.Answer
	return &out, json.Unmarshal(data, &out)
}

// diff tells what changed, by whom, and because of what.
func diff(ctx context.Context, std stdio, args []string) error {
	var s span
	fs := flags(std, "diff", "[KIND/NAME]")
	s.ask.Bind(fs)
	fs.StringVar(&s.since, "since", "10m", "from when on: 10m (ago), 14:05 or a time like 2006-01-02T15:04:05Z")
	fs.StringVar(&s.until, "until", "", "until when (default: now)")
	by := fs.String("by", "", "only what this user, program or loop did, and what followed")
	status := fs.Bool("status", false, "changes of status too")
	words, err := wordsOf(fs, args, 0, 2)
	if err != nil {
		return err
	}
	if words, err = pair(words); err != nil {
		return err
	}
	if len(words) == 1 {
		return misused(fs)
	}
	a, err := s.ask.Connect()
	if err != nil {
		return err
	}
	q, err := s.asked(ctx, a, words)
	if err != nil {
		return err
	}
	if *status {
		q.Set("status", "true")
	}
	out, err := lookBack(ctx, a, q)
	if err != nil {
		return err
	}
	if *by != "" {
		out.Steps = slices.DeleteFunc(out.Steps, func(s past.Step) bool { return !didBy(&s, *by) })
	}
	if len(out.Steps) == 0 && s.missing != nil {
		return s.nothing(out)
	}
	return answer(std, fs, out, func(w io.Writer) error {
		if len(out.Steps) == 0 {
			fmt.Fprintf(w, "nothing changed since %s\n", whenOf(out))
		}
		for _, n := range out.Notes {
			fmt.Fprintln(std.err, "note: "+ask.Escape(n))
		}
		var text bytes.Buffer
		if err := out.Text(&text); err != nil {
			return err
		}
		return ask.Lay(w, text.String())
	})
}

// nothing says that there is nothing to tell of.
func (s *span) nothing(out *past.Answer) error {
	return fmt.Errorf("%w, and none changed since %s", s.missing, whenOf(out))
}

func whenOf(out *past.Answer) string { return out.From.Local().Format("2006-01-02 15:04:05") }

// pair takes KIND/NAME apart.
func pair(words []string) ([]string, error) {
	words, err := ask.Pair(words)
	if err != nil {
		return nil, misuse(err.Error())
	}
	return words, nil
}

// didBy says that somebody did a step, or what it followed from.
func didBy(s *past.Step, who string) bool {
	return s.By == who || s.User == who || s.Root != nil && (s.Root.By == who || s.Root.User == who)
}
