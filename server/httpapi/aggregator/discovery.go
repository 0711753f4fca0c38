package aggregator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/server/httpapi/discovery"
)

// How the resources of other servers are asked for.
const (
	askEvery = time.Minute     // a good answer is believed for so long
	askAgain = 5 * time.Second // after a bad one
	askFirst = 2 * time.Second // how long discovery waits for an answer it has never had
	askLimit = 10 * time.Second
	askBytes = 4 << 20
)

// listed holds the resources that another server said it serves. Aggregator.mu guards it.
type listed struct {
	resources []metav1.APIResource
	at        time.Time     // of the last answer or failure
	ok        bool          // the last attempt succeeded
	asking    chan struct{} // closed when the attempt under way is over; nil: none is
}

// begin asks the server again in the background when that was long ago, and returns what is closed when it has
// answered; nil when there is nothing to wait for.
func (a *Aggregator) begin(svc *apiregistrationv1.APIService) (asking chan struct{}, err error) {
	rt, err := a.remote(svc)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	age := time.Since(rt.found.at)
	if rt.found.asking == nil && (age > askEvery || !rt.found.ok && age > askAgain) {
		rt.found.asking = make(chan struct{})
		go a.ask(svc, rt)
	}
	if !rt.found.at.IsZero() {
		return nil, nil
	}
	return rt.found.asking, nil
}

// discovered returns the version with the resources that its server told last. Only the first answer is waited for, and
// not for long.
func (a *Aggregator) discovered(svc *apiregistrationv1.APIService, patience time.Duration) discovery.Version {
	v := discovery.Version{Name: svc.Spec.Version, Stale: true}
	asking, err := a.begin(svc)
	if err != nil {
		return v
	}
	if asking != nil {
		select {
		case <-asking:
		case <-time.After(patience):
		}
	}
	rt, err := a.remote(svc)
	if err != nil {
		return v
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v.Resources, v.Stale = rt.found.resources, !rt.found.ok
	return v
}

// reachLimit is the time that a server may take to say that it is there.
const reachLimit = 6 * time.Second

// Check asks the server behind an APIService for its resources, which discovery then tells. The error says what was
// asked and how it failed.
func (a *Aggregator) Check(ctx context.Context, svc *apiregistrationv1.APIService) error {
	rt, err := a.remote(svc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	list, err := fetchResources(ctx, svc, rt.transport)
	a.mu.Lock()
	defer a.mu.Unlock()
	rt.found.at, rt.found.ok = time.Now(), err == nil
	if err == nil {
		rt.found.resources = list
	}
	return err
}

// ask fetches the list of resources and notes the outcome.
func (a *Aggregator) ask(svc *apiregistrationv1.APIService, rt *remote) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	if err := a.Check(ctx, svc); err != nil {
		slog.Debug("discovery of another server failed", "kind", "APIService", "object", svc.Name, "err", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	close(rt.found.asking)
	rt.found.asking = nil
}

func fetchResources(ctx context.Context, svc *apiregistrationv1.APIService, rt http.RoundTripper) ([]metav1.APIResource, error) {
	url := "https://" + hostOf(svc) + "/apis/" + svc.Spec.Group + "/" + svc.Spec.Version
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	req.Header.Set("Accept", "application/json")
	req = asUser(WithUser(req, &auth.User{Name: "system:kube-aggregator", Groups: []string{auth.GroupMasters}}))
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("failing or missing response from %s: %w", url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("failing or missing response from %s: bad status from %s: %d", url, url, resp.StatusCode)
	}
	var list metav1.APIResourceList
	if err := json.NewDecoder(io.LimitReader(resp.Body, askBytes)).Decode(&list); err != nil {
		return nil, fmt.Errorf("read the resources of %s: %w", url, err)
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if r.Group == "" && r.Version == "" {
			r.Group, r.Version = svc.Spec.Group, svc.Spec.Version
		}
	}
	return list.APIResources, nil
}
