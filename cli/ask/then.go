package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/past"
)

// then asks what was not what it should be at a time: of an object, or of everything in the namespace ns, "" in all.
func (a *Asker) then(ctx context.Context, when, ns string, words []string) (*Answer, error) {
	at, err := past.When(when, a.Now())
	if err != nil {
		return nil, err
	}
	q := url.Values{"at": {at.UTC().Format(time.RFC3339Nano)}, "namespace": {ns}}
	out := newAnswer()
	out.where = ns
	switch len(words) {
	case 0:
	case 2:
		r, err := a.Resolve(ctx, words[0])
		if err != nil {
			return nil, err
		}
		q.Set("resource", schema.GroupResource{Group: r.Group, Resource: r.Name}.String())
		q.Set("name", words[1])
		if q.Set("namespace", a.NS); a.NS == "" {
			q.Set("namespace", a.Home)
		}
		out.fine = fmt.Sprintf("%s/%s was what it should be at %s", strings.ToLower(r.Kind), words[1], at.Format("2006-01-02 15:04:05"))
	default:
		return nil, errors.New("of a time that is over say KIND/NAME: what a bare name meant then is not known")
	}
	var list struct {
		Items []*convergence.Gap `json:"items"`
		Notes []string           `json:"notes"`
	}
	data, err := a.Raw.Get().RequestURI(past.Gaps + "?" + q.Encode()).DoRaw(ctx)
	if err = Refusal(data, err); err == nil {
		err = json.Unmarshal(data, &list)
	}
	switch {
	case apierrors.IsNotFound(err) && q.Get("name") != "" && a.HasPast(ctx) == nil:
		return nil, fmt.Errorf("there was no %s/%s that you may see at %s", words[0], words[1], at.Format("2006-01-02 15:04:05"))
	case apierrors.IsNotFound(err):
		return nil, a.HasPast(ctx)
	case err != nil:
		return nil, err
	}
	out.Items, out.Unseen = append(out.Items, list.Items...), list.Notes
	out.Notes = append(out.Notes, "this was at "+at.Format(time.RFC3339)+", told from the objects of then: what loops did is not kept")
	return out, nil
}

// HasPast says why a server can't be asked for the past; nil: it can.
func (a *Asker) HasPast(ctx context.Context) error {
	in := time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano)
	data, err := a.Raw.Get().RequestURI(past.Page + "?" + url.Values{"from": {in}, "name": {"none"}}.Encode()).DoRaw(ctx)
	if err = Refusal(data, err); apierrors.IsNotFound(err) {
		return errors.New("the server keeps no past: Kubernetes itself forgets what objects were, so only a kloop can be asked, " +
			"and one that was not started with --no-trail (trail.off) or --convergence=false (convergence.enabled)")
	}
	return err
}
