package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/plan"
)

// What bounds the answers that kloop ui gives itself.
const (
	surveyEvery = 5 * time.Second // a cluster that does not explain itself is read no more often, however many windows ask
	maxManifest = 4 << 20         // bytes of what a plan is asked with
	planFor     = 5 * time.Minute // of real time, the longest that a plan may take
)

// uiAnswers serves what the page can't have from the API server: what a survey explains of a cluster that is no kloop, and plans.
func uiAnswers(a *ask.Asker) map[string]http.Handler {
	s := &surveyor{asker: a}
	p := &planner{asker: a, busy: make(chan struct{}, 1)}
	return map[string]http.Handler{
		"/local/about": http.HandlerFunc(s.about),
		"/local/gaps":  http.HandlerFunc(s.gaps),
		"/local/gap":   http.HandlerFunc(s.gap),
		"/local/plan":  p,
	}
}

// A surveyor explains a cluster that does not explain itself. One survey is made at a time.
type surveyor struct {
	asker *ask.Asker

	mu     sync.Mutex
	all    map[string]*ask.Answer // by namespace, "" all; of one survey each
	at     map[string]time.Time
	sorted []string // namespaces in the order in which they were asked for
}

// maxSurveys is the number of namespaces whose answers are kept.
const maxSurveys = 8

// about tells what the page is to show first.
func (s *surveyor) about(w http.ResponseWriter, _ *http.Request) {
	tell(w, map[string]string{"server": s.asker.Rest.Host, "namespace": s.asker.Home, "as": s.asker.Rest.Impersonate.UserName}, nil)
}

// gaps answers for a namespace, or all.
func (s *surveyor) gaps(w http.ResponseWriter, r *http.Request) {
	ns := r.URL.Query().Get("namespace")
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.all[ns]; got != nil && time.Since(s.at[ns]) < surveyEvery {
		tell(w, got, nil)
		return
	}
	at := *s.asker
	at.NS = ns
	got, err := at.All(r.Context())
	if err == nil {
		s.keep(ns, got)
	}
	tell(w, got, err)
}

// keep remembers an answer, and forgets the one that was asked for longest ago.
func (s *surveyor) keep(ns string, got *ask.Answer) {
	if s.all == nil {
		s.all, s.at = map[string]*ask.Answer{}, map[string]time.Time{}
	}
	if s.all[ns] == nil {
		s.sorted = append(s.sorted, ns)
	}
	s.all[ns], s.at[ns] = got, time.Now()
	if len(s.sorted) > maxSurveys {
		delete(s.all, s.sorted[0])
		delete(s.at, s.sorted[0])
		s.sorted = s.sorted[1:]
	}
}

// gap answers for one object.
func (s *surveyor) gap(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := *s.asker
	at.NS = q.Get("namespace")
	got, err := at.One(r.Context(), q.Get("resource"), q.Get("name"))
	tell(w, got, err)
}

// tell answers with a document, or with what went wrong.
func tell(w http.ResponseWriter, doc any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		doc = map[string]string{"message": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(doc)
}

// A planner makes plans, one at a time: each is a whole cluster in memory.
type planner struct {
	asker *ask.Asker
	busy  chan struct{}
}

// planAsked is the page's question: the words of kloop plan, and a manifest in place of -f.
type planAsked struct {
	Words     []string `json:"words"`
	Replicas  *int     `json:"replicas"`
	Namespace string   `json:"namespace"`
	Manifest  string   `json:"manifest"`
	For       string   `json:"for"`
}

// ServeHTTP implements http.Handler. The change happens in a fork: the cluster is only read.
func (p *planner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "post a change as JSON", http.StatusMethodNotAllowed)
		return
	}
	var in planAsked
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxManifest)).Decode(&in); err != nil {
		http.Error(w, "read the change: "+err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	default:
		http.Error(w, "another plan is being made: wait for it", http.StatusTooManyRequests)
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), planFor)
	defer stop()
	report, err := p.plan(ctx, &in)
	tell(w, report, err)
}

// plan forks the cluster and makes the change.
func (p *planner) plan(ctx context.Context, in *planAsked) (*plan.Report, error) {
	f := planFlags{replicas: -1, span: time.Hour, from: "the page's"} // who is asked is known already
	if in.Replicas != nil {
		f.replicas = *in.Replicas
	}
	if in.For != "" {
		d, err := time.ParseDuration(in.For)
		if err != nil || d <= 0 || d > 7*24*time.Hour {
			return nil, errors.New("how far to look: a time such as 90m, at most a week")
		}
		f.span = d
	}
	if in.Manifest != "" {
		f.files = []string{"-"}
	}
	if len(in.Words) > 64 {
		return nil, errors.New("too many words")
	}
	ns := cmp.Or(in.Namespace, p.asker.Home, "default")
	std := stdio{in: strings.NewReader(in.Manifest), out: io.Discard, err: &bytes.Buffer{}}
	change, _, err := f.change(std, flags(std, "plan", planWords), in.Words)
	if errors.Is(err, errUsage) || err == nil && change == nil {
		return nil, errors.New("say what is to change: kloop help plan lists the changes")
	}
	if err != nil {
		return nil, err
	}
	c, err := change(ns)
	if err != nil {
		return nil, err
	}
	fork, err := plan.Read(ctx, p.asker.Rest, ns)
	if err != nil {
		return nil, err
	}
	return plan.Run(ctx, fork, c, plan.Options{For: f.span})
}
