package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// An Extender is a server that has a say in where pods go: upstream's scheduler extenders, by their HTTP and JSON. A verb
// that is empty it has no say in.
type Extender struct {
	URL        string // what the verbs are added to, with a / between
	Filter     string
	Prioritize string
	Preempt    string
	Bind       string
	Weight     int64 // of Prioritize
	Names      bool  // it knows the nodes: their names will do
	Ignorable  bool  // pods are placed without it when it fails
	Manages    []Managed
	Timeout    time.Duration // of one call; 0: 5 seconds

	http *http.Client
}

// A Managed resource is one that an extender looks after; it is asked about pods that want some, about all when it looks
// after none.
type Managed struct {
	Name    string `json:"name"`
	Ignored bool   `json:"ignoredByScheduler"` // NodeResourcesFit does not look at it
}

// extenderFile is an extender in the configuration.
type extenderFile struct {
	URLPrefix        string           `json:"urlPrefix"`
	FilterVerb       string           `json:"filterVerb"`
	PrioritizeVerb   string           `json:"prioritizeVerb"`
	PreemptVerb      string           `json:"preemptVerb"`
	BindVerb         string           `json:"bindVerb"`
	Weight           int64            `json:"weight"`
	EnableHTTPS      bool             `json:"enableHTTPS"`
	TLS              *extenderTLS     `json:"tlsConfig"`
	HTTPTimeout      *metav1.Duration `json:"httpTimeout"`
	NodeCacheCapable bool             `json:"nodeCacheCapable"`
	ManagedResources []Managed        `json:"managedResources"`
	Ignorable        bool             `json:"ignorable"`
}

type extenderTLS struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName"`
	CertFile   string `json:"certFile"`
	KeyFile    string `json:"keyFile"`
	CAFile     string `json:"caFile"`
	CertData   []byte `json:"certData"`
	KeyData    []byte `json:"keyData"`
	CAData     []byte `json:"caData"`
}

// extender makes one of what the configuration says.
func (f extenderFile) extender() (*Extender, error) {
	e := &Extender{URL: strings.TrimRight(f.URLPrefix, "/"), Filter: f.FilterVerb, Prioritize: f.PrioritizeVerb, Preempt: f.PreemptVerb,
		Bind: f.BindVerb, Weight: f.Weight, Names: f.NodeCacheCapable, Ignorable: f.Ignorable, Manages: f.ManagedResources}
	if f.HTTPTimeout != nil {
		e.Timeout = f.HTTPTimeout.Duration
	}
	if u, err := url.Parse(f.URLPrefix); err != nil || u.Host == "" {
		return nil, fmt.Errorf("scheduler extender %q: urlPrefix has to be a URL", f.URLPrefix)
	}
	if f.PrioritizeVerb != "" && f.Weight <= 0 {
		return nil, fmt.Errorf("scheduler extender %s: with a prioritizeVerb the weight has to be above 0", f.URLPrefix)
	}
	for _, m := range f.ManagedResources {
		if m.Name == "" {
			return nil, fmt.Errorf("scheduler extender %s: a managed resource needs a name", f.URLPrefix)
		}
	}
	cfg := &rest.Config{Host: f.URLPrefix}
	if x := f.TLS; x != nil {
		cfg.TLSClientConfig = rest.TLSClientConfig{Insecure: x.Insecure, ServerName: x.ServerName, CertFile: x.CertFile, KeyFile: x.KeyFile,
			CAFile: x.CAFile, CertData: x.CertData, KeyData: x.KeyData, CAData: x.CAData}
	} else if f.EnableHTTPS {
		cfg.TLSClientConfig.Insecure = true // as upstream's, which trusts anybody then
	}
	var err error
	if e.http, err = rest.HTTPClientFor(cfg); err != nil {
		return nil, fmt.Errorf("scheduler extender %s: %w", f.URLPrefix, err)
	}
	return e, nil
}

// hides tells whether the scheduler itself does not look at a resource because of the extender.
func (e *Extender) hides(resource string) bool {
	return slices.Contains(e.Manages, Managed{resource, true})
}

// concerns tells whether the extender has a say about the pod.
func (e *Extender) concerns(p *corev1.Pod) bool {
	if len(e.Manages) == 0 {
		return true
	}
	wants := func(list []corev1.Container) bool {
		return slices.ContainsFunc(list, func(c corev1.Container) bool {
			return slices.ContainsFunc(e.Manages, func(m Managed) bool {
				_, requested := c.Resources.Requests[corev1.ResourceName(m.Name)]
				_, limited := c.Resources.Limits[corev1.ResourceName(m.Name)]
				return requested || limited
			})
		})
	}
	return wants(p.Spec.Containers) || wants(p.Spec.InitContainers)
}

// What goes over the wire.
type (
	extenderArgs struct {
		Pod       *corev1.Pod
		Nodes     *corev1.NodeList
		NodeNames *[]string
	}
	filterResult struct {
		Nodes                      *corev1.NodeList
		NodeNames                  *[]string
		FailedNodes                map[string]string
		FailedAndUnresolvableNodes map[string]string
		Error                      string
	}
	hostPriority struct {
		Host  string
		Score int64
	}
	victimsArgs struct {
		Pod                   *corev1.Pod
		NodeNameToVictims     map[string]*fullVictims `json:",omitempty"`
		NodeNameToMetaVictims map[string]*metaVictims `json:",omitempty"`
	}
	fullVictims struct {
		Pods             []*corev1.Pod
		NumPDBViolations int64
	}
	metaVictims struct {
		Pods             []metaPod
		NumPDBViolations int64
	}
	metaPod       struct{ UID string }
	victimsResult struct{ NodeNameToMetaVictims map[string]*metaVictims }
	bindingArgs   struct {
		PodName, PodNamespace string
		PodUID                types.UID
		Node                  string
	}
	bindingResult struct{ Error string }
)

// Bounds of a call.
const (
	extenderTime  = 5 * time.Second
	extenderReply = 64 << 20
)

// call asks the extender.
func (e *Extender) call(ctx context.Context, verb string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	timeout := e.Timeout
	if timeout <= 0 {
		timeout = extenderTime
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	where := e.URL + "/" + verb
	req, err := http.NewRequestWithContext(ctx, "POST", where, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	hc := e.http
	if hc == nil {
		hc = http.DefaultClient
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %s with extender at URL %s, code %d", verb, where, resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, extenderReply)).Decode(result)
}

// args are those of filter and prioritize: the pod, and the nodes in the way that the extender knows them.
func (e *Extender) args(pod *corev1.Pod, nodes []*corev1.Node) *extenderArgs {
	a := &extenderArgs{Pod: pod}
	if e.Names {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		a.NodeNames = &names
		return a
	}
	a.Nodes = &corev1.NodeList{}
	for _, n := range nodes {
		a.Nodes.Items = append(a.Nodes.Items, *n)
	}
	return a
}

// filter asks which of the nodes will do.
func (e *Extender) filter(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (*filterResult, map[string]bool, error) {
	var r filterResult
	if err := e.call(ctx, e.Filter, e.args(pod, nodes), &r); err != nil {
		return nil, nil, err
	}
	if r.Error != "" {
		return nil, nil, errors.New(r.Error)
	}
	good := map[string]bool{}
	switch {
	case e.Names && r.NodeNames != nil:
		for _, n := range *r.NodeNames {
			good[n] = true
		}
	case r.Nodes != nil:
		for i := range r.Nodes.Items {
			good[r.Nodes.Items[i].Name] = true
		}
	}
	return &r, good, nil
}

// bind has the extender bind a pod.
func (e *Extender) bind(ctx context.Context, b *corev1.Binding) error {
	var r bindingResult
	if err := e.call(ctx, e.Bind, bindingArgs{b.Name, b.Namespace, b.UID, b.Target.Name}, &r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}
