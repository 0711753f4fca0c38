package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/past"
)

// undo takes back what people changed: it shows what that means, has the server try it, and does it only when told so.
func undo(ctx context.Context, std stdio, args []string) error {
	var s span
	fs := flags(std, "undo", "KIND/NAME | --since TIME")
	s.ask.Bind(fs)
	fs.StringVar(&s.since, "since", "", "all that was changed since: "+
		"10m (ago), 14:05 or a time like 2006-01-02T15:04:05Z; of an object without it: its newest change")
	by := fs.String("by", "", "what this user or program did (default: all who are no part of the cluster)")
	yes := fs.Bool("yes", false, "do it (default: show what would be done)")
	words, err := wordsOf(fs, args, 0, 2)
	if err != nil {
		return err
	}
	if words, err = pair(words); err != nil {
		return err
	}
	if len(words) == 1 || len(words) == 0 && s.since == "" {
		return misused(fs)
	}
	newest := s.since == ""
	if newest {
		s.since = "24h"
	}
	a, err := s.ask.Connect()
	if err != nil {
		return err
	}
	q, err := s.asked(ctx, a, words)
	if err != nil {
		return err
	}
	q.Set("whole", "true")
	q.Set("secrets", "true")
	out, err := lookBack(ctx, a, q)
	if err != nil {
		return err
	}
	mine := stepsOf(*by)
	if newest {
		one := past.Newest(out.Steps, mine)
		if mine = func(s *past.Step) bool { return s == one }; one != nil {
			out.Notes = nil // what they say lies further back
		}
	}
	for _, n := range out.Notes {
		fmt.Fprintln(std.err, "note: "+ask.Escape(n))
	}
	if len(out.Steps) == 0 && s.missing != nil {
		return s.nothing(out)
	}
	u := undoing{ask: a, std: std, form: formOf(fs)}
	if u.list, err = past.Undoing(out.Steps, mine, func(o past.Object) (map[string]any, error) { return u.present(ctx, o) }); err != nil {
		return err
	}
	return u.run(ctx, *yes, pasted(append([]string{"kloop", "undo"}, args...)))
}

// stepsOf tells what a user or program did, or without one what people did, from the rest.
func stepsOf(by string) func(*past.Step) bool {
	if by == "" {
		return past.ByPerson
	}
	return func(s *past.Step) bool { return s.By == by || s.User == by }
}

// undoing is an undo under way.
type undoing struct {
	ask  *ask.Asker
	std  stdio
	form *ask.Output
	list []past.Undo
}

// undone holds what came of an undo, for programs.
type undone struct {
	Done  bool    `json:"done"` // false: it was only tried
	Items []taken `json:"items"`
}

// taken holds what is taken back of an object, and why the server refuses it.
type taken struct {
	past.Undo
	Error string `json:"error,omitempty"`
}

// present reads an object as it is now; nil: it is not there.
func (u *undoing) present(ctx context.Context, o past.Object) (map[string]any, error) {
	data, err := u.ask.Raw.Get().AbsPath(o.Path()).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err = ask.Refusal(data, err); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Short(), err)
	}
	return past.Tree(data)
}

// run shows all, tries all, and does it if it may.
func (u *undoing) run(ctx context.Context, yes bool, command string) error {
	out, told := u.std.out, undone{Items: []taken{}}
	if !u.form.Text() {
		u.std.out = io.Discard
	}
	err := u.try(ctx, yes, command, &told)
	if told.Done = yes && err == nil; u.form.Text() {
		return err
	}
	return errors.Join(u.form.Print(out, told), err)
}

// try has the server try all changes, and makes them if it takes each and may do so.
func (u *undoing) try(ctx context.Context, yes bool, command string, told *undone) error {
	if len(u.list) == 0 {
		fmt.Fprintln(u.std.out, "there is nothing to undo: no person changed what is wanted in that time, or it is as it was")
		return nil
	}
	todo, failed := u.rehearse(ctx, told)
	switch {
	case failed > 0:
		return fmt.Errorf("nothing was undone: the server refuses %d of %d changes", failed, todo)
	case todo == 0:
		return errors.New("nothing of it can be undone")
	case !yes:
		fmt.Fprintf(u.std.out, "\nnothing was changed: the server would take all of it. To do it:\n    %s --yes\n", command)
		return nil
	}
	done := 0
	for i := range u.list {
		if one := &u.list[i]; one.Action != "" {
			if err := u.write(ctx, one, false); err != nil && !(one.Action == past.Create && apierrors.IsAlreadyExists(err)) {
				return fmt.Errorf("undo %s: %w; %d of %d changes were undone before it", one.Object.Short(), err, done, todo)
			}
			done++
		}
	}
	fmt.Fprintf(u.std.out, "\nundone: %d\n", todo)
	return nil
}

// rehearse shows all changes and has the server try them; so many are to be made, and so many of them it refuses.
func (u *undoing) rehearse(ctx context.Context, told *undone) (todo, failed int) {
	anew := map[string]bool{} // namespaces that are yet to be made
	for i := range u.list {
		one := &u.list[i]
		u.show(one)
		told.Items = append(told.Items, taken{Undo: *one})
		if one.Action == "" {
			continue
		}
		todo++
		if one.Object.Resource == "namespaces" && one.Action == past.Create {
			anew[one.Object.Name] = true
		}
		if anew[one.Object.Namespace] {
			continue // no server tries what is to be in a namespace that is not there
		}
		if err := u.write(ctx, one, true); err != nil {
			u.say("    the server refuses: %v\n", err)
			told.Items[i].Error = err.Error()
			failed++
		}
	}
	return todo, failed
}

// show tells what is done to an object, and what is not.
func (u *undoing) show(one *past.Undo) {
	name := one.Object.Short()
	if one.Object.Namespace != "" {
		name += " in " + one.Object.Namespace
	}
	switch one.Action {
	case past.Restore:
		u.say("%s as it was\n", name)
	case past.Create:
		u.say("%s made anew, as it was\n", name)
	case past.Delete:
		u.say("%s deleted, as it was not there\n", name)
	default:
		u.say("%s can't be undone: %s\n", name, one.Refused)
	}
	for _, f := range one.Fields {
		u.say("    %s\n", f.Text())
	}
	for _, f := range one.Conflicts {
		u.say("    stays, as it was changed again since: %s\n", f.Text())
	}
	for _, w := range one.Warnings {
		u.say("    beware: %s\n", w)
	}
}

// say writes what may have texts of others in it.
func (u *undoing) say(format string, args ...any) {
	fmt.Fprint(u.std.out, ask.Escape(fmt.Sprintf(format, args...)))
}

// write has the server do it, or try it.
func (u *undoing) write(ctx context.Context, one *past.Undo, try bool) error {
	o := &one.Object
	c := u.ask.Raw
	req := c.Put().AbsPath(o.Path())
	body := any(one.Body)
	switch one.Action {
	case past.Create:
		req = c.Post().AbsPath(o.Collection())
	case past.Delete:
		now, err := u.present(ctx, *o)
		if err != nil || now == nil {
			return err
		}
		uid := types.UID(past.Text(now, "metadata", "uid"))
		policy := metav1.DeletePropagationBackground
		req = c.Delete().AbsPath(o.Path())
		opts := &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy}
		if try {
			opts.DryRun = []string{metav1.DryRunAll} // with a body the query does not count
		}
		body = opts
	}
	if try {
		req.Param("dryRun", metav1.DryRunAll)
	}
	doc, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if one.Action != past.Delete {
		req.Param("fieldManager", "kloop-undo")
	}
	data, err := req.SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(doc).DoRaw(ctx)
	return ask.Refusal(data, err)
}

// pasted is a command as a shell takes it.
func pasted(words []string) string {
	out := slices.Clone(words)
	for i, w := range out {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$`*?[](){}<>|&;~#!") {
			out[i] = quoted(w, "", `'\''`)
		}
	}
	return strings.Join(out, " ")
}
