package webhook

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/admission/match"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/webhook"
)

// A hook is one webhook of a configuration, compiled. It never changes.
type hook struct {
	admissionregistrationv1.MutatingWebhook // a validating one has no reinvocation policy
	kind                                    resource.Kind
	config                                  resource.Object
	id                                      string // tells webhooks of the same name apart
	validating                              bool

	match      *match.Matcher
	conditions func() *cel.MatchConditions
	target     webhook.Target
}

// source keeps the compiled webhooks of one kind of configuration.
type source struct {
	kind    resource.Kind
	compile func(k resource.Kind, cfg resource.Object) []*hook
	mu      sync.Mutex
	state   atomic.Pointer[compiled]
}

// compiled pairs compiled webhooks with the configurations they come from.
type compiled struct {
	configs []resource.Object
	hooks   []*hook
}

// A counter is a reader that knows how many objects there are without looking at them.
type counter interface {
	Count(k resource.Kind, ns string) int
}

// hooks returns the webhooks of all configurations, in the order of their names. Objects of a state are never
// changed, so a configuration is the same if it is the same object.
func (s *source) hooks(read resource.Reader) []*hook {
	if c, ok := read.(counter); ok && c.Count(s.kind, "") == 0 {
		return nil
	}
	known, n := s.state.Load(), 0
	same := known != nil
	for cfg := range read.Each(s.kind, "") {
		if same = same && n < len(known.configs) && known.configs[n] == cfg; !same {
			return s.renew(read)
		}
		n++
	}
	switch {
	case n == 0:
		return nil
	case n < len(known.configs):
		return s.renew(read)
	}
	return known.hooks
}

// renew compiles what changed.
func (s *source) renew(read resource.Reader) []*hook {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, next := s.state.Load(), &compiled{}
	for cfg := range read.Each(s.kind, "") {
		next.configs = append(next.configs, cfg)
		next.hooks = append(next.hooks, old.of(cfg, func() []*hook { return s.compile(s.kind, cfg) })...)
	}
	s.state.Store(next)
	return next.hooks
}

// of returns the webhooks of a configuration, made anew if they are not among these.
func (c *compiled) of(cfg resource.Object, make func() []*hook) (list []*hook) {
	if c == nil || !slices.Contains(c.configs, cfg) {
		return make()
	}
	for _, h := range c.hooks {
		if h.config == cfg {
			list = append(list, h)
		}
	}
	return list
}

func mutatingHooks(k resource.Kind, cfg resource.Object) (list []*hook) {
	c, ok := cfg.(*admissionregistrationv1.MutatingWebhookConfiguration)
	if !ok {
		return nil
	}
	for i := range c.Webhooks {
		list = append(list, newHook(k, cfg, i, c.Webhooks[i]))
	}
	return list
}

func validatingHooks(k resource.Kind, cfg resource.Object) (list []*hook) {
	c, ok := cfg.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	if !ok {
		return nil
	}
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		h := newHook(k, cfg, i, admissionregistrationv1.MutatingWebhook{Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules,
			FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector,
			ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
			AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions})
		h.validating = true
		list = append(list, h)
	}
	return list
}

func newHook(k resource.Kind, cfg resource.Object, i int, w admissionregistrationv1.MutatingWebhook) *hook {
	h := &hook{MutatingWebhook: w, kind: k, config: cfg, match: match.NewHook(w.Rules, w.MatchPolicy, w.NamespaceSelector,
		w.ObjectSelector), id: fmt.Sprintf("%s/%s/%d", cfg.GetName(), w.Name, i)}
	h.conditions = sync.OnceValue(func() *cel.MatchConditions { return cel.NewMatchConditions(w.MatchConditions, w.FailurePolicy) })
	h.target = webhook.Target{CABundle: w.ClientConfig.CABundle}
	if u := w.ClientConfig.URL; u != nil {
		h.target.URL = *u
	}
	if s := w.ClientConfig.Service; s != nil {
		h.target.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
		if s.Port != nil {
			h.target.Service.Port = *s.Port
		}
		if s.Path != nil {
			h.target.Service.Path = *s.Path
		}
	}
	return h
}

// ignores says that the request goes on when the webhook can't be called.
func (h *hook) ignores() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == admissionregistrationv1.Ignore
}

// again says that the webhook wants to see what became of its object.
func (h *hook) again() bool {
	return h.ReinvocationPolicy != nil && *h.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
}
