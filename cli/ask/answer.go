package ask

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/survey"
)

// An Answer has what is not what it should be, the worst first.
type Answer struct {
	metav1.TypeMeta `json:",inline"`

	Items  []*convergence.Gap   `json:"items"`
	Fights []*convergence.Fight `json:"fights,omitempty"`
	Unseen []string             `json:"unseen,omitempty"` // what could not be read, and why
	Notes  []string             `json:"notes,omitempty"`  // what the answer was made of

	Context string `json:"context,omitempty"` // of several that were asked

	fine    string // the words for one object without a gap
	where   string // of everything: the namespace, "" all
	refused error  // of the API that explains
}

func newAnswer() *Answer {
	a := &Answer{Items: []*convergence.Gap{}}
	a.SetGroupVersionKind(convergence.GroupVersion.WithKind("GapList"))
	return a
}

// stuck says that something is not what it should be now.
func (a *Answer) stuck() bool {
	for _, g := range a.Items {
		if g.State != converge.Latent && g.State != converge.Resting {
			return true
		}
	}
	return len(a.Fights) > 0
}

// All asks for everything in the namespace that is meant, "" in all.
func (a *Asker) All(ctx context.Context) (*Answer, error) {
	out := newAnswer()
	out.where = a.NS
	err := a.explained(ctx, out)
	if apierrors.IsForbidden(err) && a.NS == "" && a.Home != "" { // the server explains what a caller may see of one namespace, too
		home := *a
		home.NS = a.Home
		if home.explained(ctx, out) == nil {
			out.where = a.Home
			out.elsewhere(err)
			return out, nil
		}
	}
	if a.foreign(ctx, err, out) {
		return out, out.orRefused(a.surveyed(ctx, out))
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// elsewhere notes why the answer is of one namespace alone.
func (a *Answer) elsewhere(why error) {
	a.Unseen = append(a.Unseen, "other namespaces than "+a.where+": "+why.Error())
}

// explained takes the server's own explanations of the namespace that is meant into the answer.
func (a *Asker) explained(ctx context.Context, out *Answer) error {
	var list struct {
		Items []*convergence.Gap `json:"items"`
	}
	err := a.Get(ctx, Within(a.NS, "gaps"), &list)
	if err != nil {
		return err
	}
	out.Items, out.Unseen = append(out.Items, list.Items...), append(out.Unseen, a.heard.take()...)
	gaps.Sort(out.Items)
	if out.Fights, err = a.fights(ctx); err != nil {
		out.Unseen = append(out.Unseen, "fights: "+err.Error())
	}
	return nil
}

// fights are the fields that are fought over where the answer is about.
func (a *Asker) fights(ctx context.Context) ([]*convergence.Fight, error) {
	var list struct {
		Items []*convergence.Fight `json:"items"`
	}
	err := a.Get(ctx, Within(a.NS, "fights"), &list)
	return list.Items, err
}

// surveyed explains a server that does not explain itself: all of it.
func (a *Asker) surveyed(ctx context.Context, out *Answer) error {
	s, err := a.survey(ctx, out)
	if err != nil {
		return err
	}
	list, more := gaps.List(s.World, a.NS)
	for _, g := range list {
		converge.Foreign(g)
	}
	if out.Items = append(out.Items, list...); more {
		out.Unseen = append(out.Unseen, "there are more gaps than are told")
	}
	return nil
}

// survey reads the server's objects.
func (a *Asker) survey(ctx context.Context, out *Answer) (*survey.Survey, error) {
	s, err := survey.Read(ctx, a.Raw, a.within(), a.Now())
	if err != nil {
		return nil, err
	}
	if out.refused == nil {
		out.Notes = append(out.Notes, a.silence(ctx, s.World)...)
	}
	if out.Unseen = append(out.Unseen, s.Unseen...); a.NS == "" { // else nobody asked
		out.Unseen = append(out.Unseen, s.Outside...)
	}
	return s, nil
}

// One asks for one object. Where several groups have a kind of the name it is of the one that kubectl takes, or the first that has such an
// object, and what else was meant is said.
func (a *Asker) One(ctx context.Context, kind, name string) (*Answer, error) {
	list, err := a.meant(ctx, kind)
	if err != nil {
		return nil, err
	}
	meant := list[0]
	for _, r := range list {
		if len(list) > 1 && !apierrors.IsNotFound(a.Get(ctx, objectPath(r, a.within(), name), &metav1.PartialObjectMetadata{})) {
			meant = r
			break
		}
	}
	out, err := a.object(ctx, meant, name)
	if len(list) == 1 {
		return out, err
	}
	also := "by " + kind + " " + groupResource(meant) + " is meant here; others that have the name:"
	for _, r := range list {
		if r != meant {
			also += " " + groupResource(r) + "/" + name
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, also)
	}
	out.Notes = append(out.Notes, also)
	return out, nil
}

func groupResource(r *metav1.APIResource) string {
	return schema.GroupResource{Group: r.Group, Resource: r.Name}.String()
}

// within is the namespace in which an object is looked for.
func (a *Asker) within() string { return cmp.Or(a.NS, a.Home) }

func (a *Asker) object(ctx context.Context, r *metav1.APIResource, name string) (*Answer, error) {
	out, ns, short := newAnswer(), a.within(), strings.ToLower(r.Kind)+"/"+name
	if !r.Namespaced {
		ns = "default" // where gaps of objects without a namespace are
	} else if ns == "" {
		return nil, fmt.Errorf("say in which namespace %s is", short)
	}
	gr := schema.GroupResource{Group: r.Group, Resource: r.Name}
	var g convergence.Gap
	err := a.Get(ctx, Within(ns, "gaps")+"/"+convergence.NameOf(gr, name), &g)
	foreign := a.foreign(ctx, err, out)
	if err != nil && !foreign && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err == nil {
		out.Items = append(out.Items, &g)
	}
	if err := a.Get(ctx, objectPath(r, ns, name), &metav1.PartialObjectMetadata{}); apierrors.IsNotFound(err) {
		where := " in namespace " + ns
		if !r.Namespaced {
			where = ""
		}
		return nil, fmt.Errorf("there is no %s %q%s", strings.ToLower(r.Kind), name, where)
	} else if err != nil && len(out.Items) == 0 {
		return nil, err
	}
	out.fine = short + " is what it should be"
	if foreign {
		return out, out.orRefused(a.surveyOne(ctx, out, gr, ns, name))
	}
	at := *a
	at.NS = ns
	fights, err := at.fights(ctx)
	if err != nil {
		out.Unseen = append(out.Unseen, "fights: "+err.Error())
	}
	for _, f := range fights {
		if f.Object.Resource == gr.String() && f.Object.Name == name {
			out.Fights = append(out.Fights, f)
		}
	}
	return out, nil
}

// surveyOne explains one object of a server that does not explain itself.
func (a *Asker) surveyOne(ctx context.Context, out *Answer, gr schema.GroupResource, ns, name string) error {
	s, err := a.survey(ctx, out)
	if err != nil {
		return err
	}
	k, ok := s.World.Kinds.GR(gr)
	if !ok {
		return fmt.Errorf("nothing is known of %s", gr)
	}
	if !k.Info().Namespaced {
		ns = ""
	}
	obj := s.World.Read.Lookup(k, ns, name)
	if obj == nil {
		return fmt.Errorf("%s/%s is there, and what could not be read of the cluster leaves nothing to say of it", gr.Resource, name)
	}
	if step := s.World.Explain(k, obj); step != nil {
		out.Items = append(out.Items, step.Gap())
	} else if g := s.World.Rest(k, obj); g != nil {
		out.Items = append(out.Items, g)
	}
	for _, g := range out.Items {
		converge.Foreign(g)
	}
	return nil
}

// common are the resources that people mean by a bare name, workloads first.
var common = []string{"deployments.apps", "statefulsets.apps", "daemonsets.apps", "cronjobs.batch", "jobs.batch", "pods",
	"services", "ingresses.networking.k8s.io",
	"horizontalpodautoscalers.autoscaling", "persistentvolumeclaims", "replicasets.apps", "poddisruptionbudgets.policy", "nodes",
	"namespaces", "persistentvolumes"}

// Named asks for the object that a bare name means: of several with the name the first that is not what it should be.
func (a *Asker) Named(ctx context.Context, name string) (*Answer, error) {
	list, err := resources(ctx, a.Raw)
	if err != nil {
		return nil, err
	}
	byName := map[string]*metav1.APIResource{}
	for i := range list {
		byName[schema.GroupResource{Group: list[i].Group, Resource: list[i].Name}.String()] = &list[i]
	}
	ns := a.within()
	var best *Answer
	var also []string
	for _, gr := range common {
		r := byName[gr]
		if r == nil || a.Get(ctx, objectPath(r, ns, name), &metav1.PartialObjectMetadata{}) != nil {
			continue
		}
		if best != nil {
			also = append(also, strings.ToLower(r.Kind)+"/"+name)
			continue
		}
		if best, err = a.object(ctx, r, name); err != nil {
			return nil, err
		}
	}
	if best == nil {
		return nil, fmt.Errorf("namespace %s has nothing named %q that runs, serves or stores; say KIND/%s", ns, name, name)
	}
	if len(also) > 0 {
		best.Notes = append(best.Notes, "there is also "+strings.Join(also, ", "))
	}
	return best, nil
}

// print writes an answer for people.
func (a *Asker) print(ctx context.Context, std Streams, out *Answer, one bool) error {
	p := paperOf(std.Out)
	switch {
	case one && len(out.Items) == 0:
		fmt.Fprintln(std.Out, out.fine)
	case one:
		for _, g := range out.Items {
			if _, err := io.WriteString(std.Out, p.lay(a.screen(g, a.lastWords(ctx, g), a.changed(ctx, g)))); err != nil {
				return err
			}
		}
	default:
		if _, err := io.WriteString(std.Out, p.lay(a.listOf(out.Items))); err != nil {
			return err
		}
	}
	for _, f := range out.Fights {
		fmt.Fprint(std.Out, p.lay(fightText(f)))
	}
	if !one && len(out.Items)+len(out.Fights) == 0 {
		where := "everything"
		if out.where != "" {
			where = "everything in namespace " + out.where
		}
		if len(out.Unseen) > 0 {
			where += " that could be seen"
		}
		fmt.Fprintln(std.Err, where+" is what it should be")
	}
	beside := paperOf(std.Err)
	for _, n := range out.Notes {
		fmt.Fprint(std.Err, beside.lay("note: "+n+"\n"))
	}
	for _, u := range out.Unseen {
		fmt.Fprint(std.Err, beside.lay("not seen: "+u+"\n"))
	}
	return nil
}

func fightText(f *convergence.Fight) string {
	who := strings.Join(f.Managers, " and ")
	verb := " set it back and forth"
	if len(f.Managers) == 1 {
		verb = " sets it back and forth, against itself"
	}
	return fmt.Sprintf("%s%s is fought over: field %s\n    %s%s, %s: %s\n", at(f.Object.Namespace), f.Object.Short(), f.Field, who,
		verb, f.Rate, strings.Join(f.Values, " ⇄ "))
}
