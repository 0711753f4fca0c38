package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/auth"
)

// emptyLimit is the time that one request to another server may take while a namespace is emptied.
const emptyLimit = 10 * time.Second

// cleaner is the user that deletes what other servers hold in a namespace, as with upstream.
var cleaner = &auth.User{Name: "system:serviceaccount:kube-system:namespace-controller",
	Groups: []string{auth.GroupServiceAccount, auth.GroupServiceAccount + ":kube-system", auth.GroupAuthenticated}}

// Empty deletes what other servers hold in a namespace. left counts what remains, by plural and group; dead says which
// group versions could not be asked for their resources, and why. The error is that of a deletion.
func (a *Aggregator) Empty(ctx context.Context, ns string) (left map[string]int, dead []string, err error) {
	var errs []error
	for _, svc := range a.services() {
		v := a.discovered(svc, askFirst)
		gv := svc.Spec.Group + "/" + svc.Spec.Version
		if v.Stale {
			dead = append(dead, gv+": "+a.why(svc))
			continue
		}
		for _, r := range v.Resources {
			if !r.Namespaced || !slices.Contains(r.Verbs, "deletecollection") || !slices.Contains(r.Verbs, "list") {
				continue
			}
			n, err := a.emptyOf(ctx, svc, "/apis/"+gv+"/namespaces/"+ns+"/"+r.Name)
			if err != nil {
				errs = append(errs, err)
			}
			if n > 0 {
				if left == nil {
					left = map[string]int{}
				}
				left[r.Name+"."+svc.Spec.Group] += n
			}
		}
	}
	return left, dead, errors.Join(errs...)
}

// why says what the last attempt to reach a server came to.
func (a *Aggregator) why(svc *apiregistrationv1.APIService) string {
	for _, c := range svc.Status.Conditions {
		if c.Type == apiregistrationv1.Available && c.Status != apiregistrationv1.ConditionTrue {
			return c.Message
		}
	}
	return "its server does not answer"
}

// emptyOf deletes a collection and counts what is left of it.
func (a *Aggregator) emptyOf(ctx context.Context, svc *apiregistrationv1.APIService, path string) (int, error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	look := func() error {
		data, err := a.call(ctx, svc, cleaner, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		list.Items = nil
		return json.Unmarshal(data, &list)
	}
	if err := look(); err != nil || len(list.Items) == 0 {
		return 0, err
	}
	opts := []byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`)
	if _, err := a.call(ctx, svc, cleaner, http.MethodDelete, path, opts); err != nil {
		return len(list.Items), err
	}
	err := look()
	return len(list.Items), err
}

// call makes a request of this server's own to another and returns the answer, askBytes at most.
func (a *Aggregator) call(ctx context.Context, svc *apiregistrationv1.APIService, as *auth.User, method, path string,
	body []byte) ([]byte, error) {
	rt, err := a.remote(svc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, emptyLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+hostOf(svc)+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := rt.transport.RoundTrip(asUser(WithUser(req, as)))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, askBytes))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return data, nil
}
