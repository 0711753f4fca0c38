package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/admission/match"
)

// maxAnswer bounds the answer of a webhook in bytes. A patch may be as long as the object that it makes.
const maxAnswer = 8 << 20

// asking is one request on its way past webhooks. For one goroutine.
type asking struct {
	*Webhooks
	r    *admission.Request
	text map[schema.GroupVersionKind][2]json.RawMessage
}

func (w *Webhooks) ask(r *admission.Request) *asking {
	return &asking{Webhooks: w, r: r, text: map[schema.GroupVersionKind][2]json.RawMessage{}}
}

// failure says that a webhook could not be asked. What the failure policy says decides what follows.
type failure struct {
	name string
	err  error
}

func (f *failure) Error() string { return fmt.Sprintf("failed calling webhook %q: %v", f.name, f.err) }
func (f *failure) Unwrap() error { return f.err }

// wants says whether and in which form the webhook is to be asked about the request.
func (c *asking) wants(ctx context.Context, h *hook) (*match.As, error) {
	as, ok, err := h.match.Match(ctx, c.r)
	if !ok || err != nil {
		return nil, err
	}
	if len(h.MatchConditions) == 0 {
		return &as, nil
	}
	in, err := cel.NewInput(ctx, c.r, as.Kind, as.Resource, c.cfg.Authorize)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	ok, _, err = h.conditions().Match(ctx, in)
	switch {
	case err != nil:
		return nil, apierrors.NewForbidden(c.r.Resource().GroupResource(), c.r.Name, err)
	case !ok:
		return nil, nil
	}
	return &as, nil
}

// call asks the webhook. The error is a *failure when there is no valid answer.
func (w *Webhooks) call(ctx context.Context, h *hook, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, error) {
	body, err := json.Marshal(review)
	if err != nil {
		return nil, &failure{h.Name, fmt.Errorf("could not create admission objects: %w", err)}
	}
	caller := w.cfg.Mutating
	if h.validating {
		caller = w.cfg.Validating
	}
	client, err := caller.Client(h.target)
	if err != nil {
		return nil, &failure{h.Name, fmt.Errorf("could not get REST client: %w", err)}
	}
	if h.TimeoutSeconds != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*h.TimeoutSeconds)*time.Second)
		defer cancel()
	}
	data, err := client.Post(ctx, body, maxAnswer)
	if err != nil {
		return nil, &failure{h.Name, fmt.Errorf("failed to call webhook: %w", err)}
	}
	answer, err := h.answer(data, review)
	if err != nil {
		return nil, &failure{h.Name, fmt.Errorf("received invalid webhook response: %w", err)}
	}
	return answer, nil
}

// dry refuses webhooks that would act on what is only tried.
func (h *hook) dry() error {
	switch {
	case h.SideEffects == nil:
		return &failure{h.Name, errors.New("webhook sideEffects is not set")}
	case *h.SideEffects == admissionregistrationv1.SideEffectClassNone, *h.SideEffects == admissionregistrationv1.SideEffectClassNoneOnDryRun:
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.Name))
}

// one asks one webhook and measures it. A panic, which would end the program where webhooks are asked at once, is a webhook that could not
// be asked.
func (c *asking) one(ctx context.Context, h *hook, review *admissionv1.AdmissionReview) (answer *admissionv1.AdmissionResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("asking a webhook panicked", "webhook", h.Name, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			answer, err = nil, &failure{h.Name, errors.New("asking it caused the server to panic; see its log")}
		}
	}()
	if told := c.cfg.Instead; told != nil {
		told(h.config.GetName(), h.Name)
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}
	begin := time.Now()
	answer, err = c.call(ctx, h, review)
	c.meter.observe(h, c.r.Op, answer, err, time.Since(begin))
	return answer, err
}

// told passes on what the webhook says beside its verdict.
func (c *asking) told(h *hook, answer *admissionv1.AdmissionResponse) {
	for key, value := range answer.AuditAnnotations {
		c.annotate(h.Name+"/"+key, value)
	}
	if c.r.Warn == nil {
		return
	}
	for _, text := range answer.Warnings {
		c.r.Warn(text)
	}
}

func (c *asking) annotate(key, value string) {
	if c.r.Annotate != nil {
		c.r.Annotate(key, value)
	}
}

// failed decides what follows when a webhook could not be asked: nil lets the request pass.
func (c *asking) failed(ctx context.Context, h *hook, at string, f *failure) error {
	if !h.ignores() {
		if c.cfg.Blocked != nil && c.r.Kind.Info().Plural != "events" { // else each event would make another
			c.cfg.Blocked(h.kind, h.config, h.Name, f)
		}
		return apierrors.NewInternalError(f)
	}
	c.annotate("failed-open."+at, h.Name)
	c.meter.failOpen(h)
	if ctx.Err() != nil {
		return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	return nil
}

// place names a call in audit annotations.
func place(h *hook, round, index int) string {
	kind := "mutation"
	if h.validating {
		kind = "validating"
	}
	return kind + ".webhook.admission.k8s.io/round_" + strconv.Itoa(round) + "_index_" + strconv.Itoa(index)
}
