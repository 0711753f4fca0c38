package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/kloop-dev/kloop/admission"
)

// A vote is one validating webhook on its way.
type vote struct {
	hook   *hook
	index  int // among those that are asked
	review *admissionv1.AdmissionReview
	answer *admissionv1.AdmissionResponse
	err    error
}

// validate asks all webhooks that may refuse, at once. The first refusal in the order of the configurations counts.
func (w *Webhooks) validate(ctx context.Context, r *admission.Request) error {
	if exempt(r) {
		return nil
	}
	hooks := w.validating.hooks(r.Read)
	if len(hooks) == 0 {
		return nil
	}
	c := w.ask(r)
	votes, err := c.due(ctx, hooks)
	if err != nil || len(votes) == 0 {
		return err
	}
	var wg sync.WaitGroup
	for _, v := range votes {
		if v.err == nil {
			wg.Go(func() { v.answer, v.err = c.one(ctx, v.hook, v.review) })
		}
	}
	wg.Wait()
	for _, v := range votes {
		if e := c.count(ctx, v); err == nil {
			err = e
		}
	}
	return err
}

// due prepares the questions to the webhooks that want to be asked.
func (c *asking) due(ctx context.Context, hooks []*hook) (votes []*vote, err error) {
	for _, h := range hooks {
		as, err := c.wants(ctx, h)
		if err != nil {
			return nil, err
		}
		if as == nil {
			continue
		}
		v := &vote{hook: h, index: len(votes)}
		if c.r.DryRun {
			v.err = h.dry()
		}
		if v.err == nil {
			if v.review, err = c.question(ctx, h, *as); err != nil {
				v.err = &failure{h.Name, fmt.Errorf("could not create admission objects: %w", err)}
			}
		}
		votes = append(votes, v)
	}
	return votes, nil
}

// count takes a webhook's answer, or the lack of one, for its verdict.
func (c *asking) count(ctx context.Context, v *vote) error {
	var missing *failure
	switch {
	case errors.As(v.err, &missing):
		return c.failed(ctx, v.hook, place(v.hook, 0, v.index), missing)
	case v.err != nil:
		return v.err
	}
	c.told(v.hook, v.answer)
	if !v.answer.Allowed {
		return denial(v.hook.Name, v.answer.Result)
	}
	return nil
}
